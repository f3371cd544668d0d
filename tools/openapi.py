"""The served description of the API: its faults, its operations, and the examples that do not fit it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

METHODS = {"get", "post", "put", "patch", "delete"}


@cache
def whole_document() -> dict[str, Any]:
    """Everything that Django serves, hooks included; a second, once per process. Only to be read."""
    from drf_spectacular.generators import SchemaGenerator

    made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return made


def document_faults(document: dict[str, Any]) -> list[str]:
    """What makes it no valid OpenAPI 3.1."""
    return [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()]


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and operation."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method in METHODS:
                yield method, path, operation


def shown(contents: dict[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Name, value and schema of each example of a body or an answer, whatever its media type."""
    for media in contents.values():
        for name, example in media.get("examples", {}).items():
            yield name, example["value"], media["schema"]


def missing_examples(operation: dict[str, Any]) -> list[str]:
    """`request` for a body without an example, and the first success status when its answer has none."""
    missing = []
    if "requestBody" in operation and not list(shown(operation["requestBody"]["content"])):
        missing.append("request")
    success = min(status for status in operation["responses"] if status.startswith("2"))
    if not list(shown(operation["responses"][success]["content"])):
        missing.append(success)
    return missing


def schema_faults(document: dict[str, Any], schema: dict[str, Any], value: Any) -> list[str]:
    """What of the value does not fit a schema of this document."""
    whole = {**schema, "components": document["components"]}
    validator = Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def example_faults(document: dict[str, Any]) -> list[str]:
    """Every example, of a parameter, a body or an answer, that its schema refuses."""
    faults = []
    for _, _, operation in operations(document):
        found = [
            (parameter["name"], parameter["example"], parameter["schema"])
            for parameter in operation.get("parameters", [])
            if "example" in parameter
        ]
        for part in (operation.get("requestBody", {}), *operation["responses"].values()):
            found += shown(part.get("content", {}))
        for name, value, schema in found:
            for fault in schema_faults(document, schema, value):
                faults.append(f"{operation['operationId']}, {name}, {fault}")
    for refusal in document["components"]["responses"].values():
        media = refusal["content"]["application/json"]
        faults += schema_faults(document, media["schema"], media["example"])
    return faults

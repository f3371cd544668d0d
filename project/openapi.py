"""Puts the floors' examples into the OpenAPI document, by operation id (SPECTACULAR_SETTINGS names the hook).

Tests check that every operation has one, that each fits its schema, and what the application answers to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from decisions.api import examples as decisions_examples
from decisions.api import judge_examples, queue_examples, reward_examples
from decisions.notes_app import examples as notes_app_examples
from models_registry.api import examples as models_registry_examples
from training.api import acting_examples, best_examples
from training.api import examples as training_examples
from training.exports import examples as export_examples
from workspaces.http import examples as workspaces_examples
from workspaces.http.examples import JSON, Example

EXAMPLES: Mapping[str, Sequence[Example]] = {
    **workspaces_examples.EXAMPLES,
    **models_registry_examples.EXAMPLES,
    **decisions_examples.EXAMPLES,
    **reward_examples.EXAMPLES,
    **queue_examples.EXAMPLES,
    **judge_examples.EXAMPLES,
    **notes_app_examples.EXAMPLES,
    **training_examples.EXAMPLES,
    **acting_examples.EXAMPLES,
    **best_examples.EXAMPLES,
    **export_examples.EXAMPLES,
}


def show_examples(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A postprocessing hook. Raises KeyError for an example whose answer, body or parameter the operation lacks."""
    for methods in result["paths"].values():
        for operation in methods.values():
            for example in EXAMPLES.get(operation["operationId"], ()):
                _show(operation, example)
    return result


def show_own_paths_first(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A postprocessing hook: /api/v1 before the paths that the notes app and gateways ask for."""
    paths = result["paths"]
    result["paths"] = dict(sorted(paths.items(), key=lambda pair: not pair[0].startswith("/api/v1/")))
    return result


def _show(operation: dict[str, Any], example: Example) -> None:
    answers = operation["responses"][str(example.status)]["content"][example.media]
    answers.setdefault("examples", {})[example.name] = {"value": example.answer}
    if example.request is not None:
        bodies = operation["requestBody"]["content"][JSON]
        bodies.setdefault("examples", {})[example.name] = {"value": example.request}
    parameters = {parameter.get("name"): parameter for parameter in operation.get("parameters", ())}
    for name, value in {**example.path, **example.query}.items():
        parameters[name].setdefault("example", _typed(value, parameters[name]["schema"]))


def _typed(value: str, schema: Mapping[str, Any]) -> Any:
    """A parameter as its schema has it: on the wire everything is text."""
    kinds: Mapping[Any, Any] = {"integer": int, "number": float, "boolean": "true".__eq__}
    return kinds.get(schema.get("type"), str)(value)

"""Writes the pages of `docs/api/` from the OpenAPI document: `python -m tools.reference`, or `make docs`.

A test compares them with the document. Texts about an operation belong to its view's docstring, its schema, or its
floor's `examples.py`.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.openapi import whole_document
from tools.reward_table import write_page

__all__ = ["FOLDER", "PAGES", "Operation", "document", "operations", "pages", "place_of"]

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "api"
WIDTH = 120
CHOICE = re.compile(r"^\* `([^`]*)` - (.*)$", re.MULTILINE)
DEEPEST = 3
FORMATS = {"uuid": "uuid", "decision-id": "decision ID", "date-time": "time", "uri": "address"}


@dataclass(frozen=True, slots=True)
class Page:
    """`tags`: the operations on the page. `guide`: a link to the page that explains them."""

    title: str
    tags: tuple[str, ...]
    guide: str


PAGES: Mapping[str, Page] = {
    "keys": Page("Keys", ("keys",), "[Keys and scopes](../api.md#keys-and-scopes)"),
    "people": Page(
        "People", ("members", "invitations", "workspace", "workspaces", "audit"), "[people.md](../people.md)"
    ),
    "agents": Page("Agents, and asking them", ("agents",), "[Decide](../api.md#decide)"),
    "decisions": Page("Decisions", ("decisions",), "[Decisions and feedback](../api.md#decisions-and-feedback)"),
    "feedback": Page("Feedback", ("feedback",), "[Decisions and feedback](../api.md#decisions-and-feedback)"),
    "label-queues": Page("Labelling queues", ("label-queues",), "[labelling.md](../labelling.md)"),
    "bulk-labels": Page("Labels in bulk", ("bulk-labels",), "[labelling.md](../labelling.md#in-bulk)"),
    "status-changes": Page(
        "Changes of items' status", ("status-changes",), "[Items](../notes-app.md#outcomes-of-items)"
    ),
    "episodes": Page("Episodes, steps and traces", ("episodes", "steps", "v1"), "[traces.md](../traces.md)"),
    "rewards": Page("Rewards", ("rewards",), "[Rewards now](../api.md#rewards-now)"),
    "datasets": Page("Datasets", ("datasets",), "[runs.md](../runs.md)"),
    "environments": Page("Environments", ("environments",), "[environments.md](../environments.md#draw-tasks)"),
    "imports": Page("Imports", ("imports",), "[importing.md](../importing.md#over-page-and-api)"),
    "runs": Page("Runs", ("runs",), "[runs.md](../runs.md)"),
    "models": Page("Models, versions, exports", ("models", "versions", "exports"), "[runs.md](../runs.md)"),
    "backends": Page(
        "Backends, deployments, calls",
        ("backends", "deployments", "remote-versions", "calls"),
        "[backends.md](../backends.md)",
    ),
    "suites": Page("Evaluation suites", ("suites",), "[learning.md](../learning.md#evaluation-suites)"),
    "shadows": Page("Shadows", ("shadows",), "[shadow.md](../shadow.md)"),
    "experiments": Page(
        "Experiments", ("experiments", "experiment-groups", "holdouts"), "[experiments.md](../experiments.md)"
    ),
    "erasures": Page("Erasures", ("erasures",), "[erasure.md](../erasure.md)"),
    "notes-app": Page("The notes app's paths", ("notes app",), "[notes-app.md](../notes-app.md)"),
}


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    scope: str
    tag: str
    definition: Mapping[str, Any]

    @property
    def heading(self) -> str:
        return f"{self.method} {self.path}"


def document() -> dict[str, Any]:
    """The OpenAPI document as it is served, hooks included."""
    return whole_document()


def _scopes() -> Iterator[tuple[tuple[str, str], str]]:
    """(method, path) to the scope that its view asks for."""
    from django.urls import URLPattern, URLResolver, get_resolver

    def walk(patterns: Any, prefix: str) -> Iterator[tuple[tuple[str, str], str]]:
        for pattern in patterns:
            path = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, path)
            elif isinstance(pattern, URLPattern):
                shown = "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", path).replace("{pk}", "{id}")
                for method, scope in getattr(getattr(pattern.callback, "view_class", None), "scopes", {}).items():
                    yield (method, shown), str(scope)

    yield from walk(get_resolver().url_patterns, "")


def operations(made: Mapping[str, Any]) -> list[Operation]:
    """Every operation of the document, in its order. Raises KeyError for one without a scope."""
    scopes = dict(_scopes())
    return [
        Operation(method.upper(), path, scopes[method.upper(), path], definition["tags"][0], definition)
        for path, methods in made["paths"].items()
        for method, definition in methods.items()
    ]


def place_of(operation: Operation) -> str | None:
    """The page that holds an operation, by its tag."""
    return next((name for name, page in PAGES.items() if operation.tag in page.tags), None)


def pages(made: Mapping[str, Any]) -> dict[str, str]:
    """Names of files in `docs/api/` to what they are to hold. Raises ValueError for a tag that no page holds."""
    homeless = {one.tag for one in operations(made) if place_of(one) is None}
    if homeless:
        raise ValueError(f"give these tags a page in PAGES: {', '.join(sorted(homeless))}")
    found = operations(made)
    written = {
        f"{name}.md": _page(page, [one for one in found if one.tag in page.tags], made) for name, page in PAGES.items()
    }
    return {"README.md": _index(found, made), "reward-components.md": write_page()} | written


def _index(found: list[Operation], made: Mapping[str, Any]) -> str:
    lines = [
        "# Every operation of the API",
        "",
        *_wrapped(
            "`python -m tools.reference` writes these pages from the OpenAPI document; do not edit them. Rules for all "
            "operations (keys, idempotency, lists, limits): [api.md](../api.md)."
        ),
        "",
    ]
    for name, page in PAGES.items():
        lines += [f"## [{page.title}]({name}.md)", "", "| operation | scope | does |", "|---|---|---|"]
        lines += [
            f"| [{one.method} `{one.path}`]({name}.md#{_anchor(one.heading)}) | `{one.scope}` | {_first_line(one)} |"
            for one in found
            if one.tag in page.tags
        ]
        lines += [""]
    lines += [
        "## Errors",
        "",
        *_wrapped("Errors come in [one envelope](../api.md#errors), whose `code` says more than the status."),
        "",
        "| status | when | code, for example |",
        "|---|---|---|",
    ]
    for status, one in sorted(_refusals(found, made).items()):
        content = one["content"]["application/json"]["example"]["error"]
        lines.append(f"| {status} | {_cell(one['description'])} | `{content['code']}` |")
    return "\n".join(lines) + "\n"


def _first_line(one: Operation) -> str:
    return re.split(r"(?<=\.) ", _cell(one.definition.get("description", "")), maxsplit=1)[0]


def _refusals(found: list[Operation], made: Mapping[str, Any]) -> dict[str, Any]:
    return {
        status: _resolved(response, made)
        for one in found
        for status, response in one.definition["responses"].items()
        if int(status) >= 400
    }


def _page(page: Page, found: list[Operation], made: Mapping[str, Any]) -> str:
    lines = [
        f"# {page.title}",
        "",
        *_wrapped(
            "`python -m tools.reference` writes this page from the OpenAPI document; do not edit it. "
            f"Guide: {page.guide}. [All operations](README.md)."
        ),
    ]
    for one in found:
        lines += ["", f"## {one.heading}", "", *_operation(one, made)]
    return "\n".join(lines) + "\n"


def _operation(one: Operation, made: Mapping[str, Any]) -> Iterator[str]:
    yield from _wrapped(" ".join(one.definition.get("description", "").split()))
    yield ""
    yield f"Scope: `{one.scope}`."
    parameters = [_resolved(parameter, made) for parameter in one.definition.get("parameters", ())]
    rows = [
        (f"`{parameter['name']}`", _parameter(parameter, made), _cell(parameter.get("description", "")))
        for parameter in parameters
        if parameter["in"] in {"query", "path"}
    ]
    if rows:
        yield from ("", "**Parameters**", "", *_table(("parameter", "type", "meaning"), rows))
    body = one.definition.get("requestBody")
    if body:
        yield from ("", "**Body**", "", *_content(body["content"], made, asked=True))
    for status, response in one.definition["responses"].items():
        if int(status) < 400:
            yield from (
                "",
                f"**Answer {status}**",
                "",
                *_content(_resolved(response, made).get("content", {}), made, asked=False),
            )
    refused = ", ".join(status for status in one.definition["responses"] if int(status) >= 400)
    yield ""
    yield from _wrapped(f"**Errors**: {refused}; see [what they mean](README.md#errors).")
    for parameter in parameters:
        if parameter["in"] == "header":
            yield ""
            yield from _wrapped(_header(parameter))


def _header(parameter: Mapping[str, Any]) -> str:
    if parameter["name"] == "Idempotency-Key":
        return "Takes an [`Idempotency-Key`](../api.md#idempotency)."
    return f"Takes the header `{parameter['name']}`. {' '.join(parameter.get('description', '').split())}"


def _parameter(parameter: Mapping[str, Any], made: Mapping[str, Any]) -> str:
    said = _kind(parameter["schema"], made)
    if parameter["in"] == "query" and parameter.get("required"):
        return f"{said}, required"
    default = parameter["schema"].get("default")
    return f"{said}, by default {json.dumps(default)}" if default is not None else said


def _content(content: Mapping[str, Any], made: Mapping[str, Any], *, asked: bool) -> Iterator[str]:
    """What a body holds, by media type: its fields, and its examples."""
    if not content:
        yield "Nothing."
        return
    for media, held in content.items():
        schema = _resolved(held.get("schema", {}), made)
        if media != next(iter(content)):
            yield ""
            if schema == _resolved(next(iter(content.values())).get("schema", {}), made):
                yield f"`{media}`: the same."
                continue
        shape, fields = _shape(schema, made, asked)
        yield f"`{media}`: {shape}."
        if fields:
            yield from ("", *_table(("field", "type", "meaning"), fields))
        shown = held.get("examples", {})
        for name, example in shown.items():
            value = example["value"]
            yield ""
            yield f"Example, {name}:" if name != "example" else "Example:"
            yield ""
            plain = isinstance(value, str) and media != "application/json"
            yield "```text" if plain and "json" not in media else "```json"
            yield from [value] if plain else _json(value)
            yield "```"


def _shape(schema: Mapping[str, Any], made: Mapping[str, Any], asked: bool) -> tuple[str, list[tuple[str, str, str]]]:
    """The kind of value in a few words, and the fields of its object or objects."""
    several = [_resolved(part, made) for part in schema.get("oneOf", schema.get("anyOf", ()))]
    lists = [part for part in several if part.get("type") == "array"]
    objects = [part for part in several if part.get("type") == "object"]
    if len(objects) == 1 and len(lists) == 1 and len(several) == 2:
        return f"one object, or a list of {_bounds(lists[0])}them", _fields(objects[0], made, asked)
    if objects and len(objects) == len(several):
        fields = [row for part in objects for row in _fields(part, made, asked)]
        return "one of " + ", ".join(str(part.get("title", "an object")) for part in objects), list(
            dict.fromkeys(fields)
        )
    if schema.get("type") == "array":
        inner = _resolved(schema.get("items", {}), made)
        kind = f"a list of {_bounds(schema)}objects" if inner.get("type") == "object" else "a list"
        return kind, _fields(inner, made, asked)
    if schema.get("type") == "object":
        fields = _fields(schema, made, asked)
        return ("an object" if fields else "an object, as the example shows"), fields
    if schema.get("format") == "binary":
        return "bytes", []
    return ("text" if schema.get("type") == "string" else "JSON"), []


def _bounds(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minItems"), schema.get("maxItems")
    return f"{low or 0:,} to {high:,} of " if high else ""


def _fields(schema: Mapping[str, Any], made: Mapping[str, Any], asked: bool, prefix: str = "", depth: int = 0
            ) -> list[tuple[str, str, str]]:  # fmt: skip
    """A row for each field, nested ones included. `asked`: of a body, where some fields are optional."""
    rows = []
    needed = set(schema.get("required", ())) if asked else set(schema.get("properties", ()))
    for name, given in schema.get("properties", {}).items():
        field = _plain(given, made)
        kind = _kind(given, made) + ("" if name in needed else ", optional")
        rows.append((f"`{prefix}{name}`", kind, _meaning(given.get("description") or field.get("description", ""))))
        inner = _plain(field.get("items", {}), made) if field.get("type") == "array" else field
        if inner.get("properties") and depth + 1 < DEEPEST:
            dots = "[]." if field.get("type") == "array" else "."
            rows += _fields(inner, made, asked, f"{prefix}{name}{dots}", depth + 1)
    return rows


def _plain(schema: Mapping[str, Any], made: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself: references resolved, null left out."""
    schema = _resolved(schema, made)
    for several in ("oneOf", "anyOf", "allOf"):
        parts = [part for part in schema.get(several, ()) if part.get("type") != "null"]
        if len(parts) == 1:
            return {**_plain(parts[0], made), **{k: v for k, v in schema.items() if k == "description"}}
    return schema


def _kind(given: Mapping[str, Any], made: Mapping[str, Any]) -> str:
    """A schema's type in a few words, with its bounds."""
    schema = _plain(given, made)
    whole = _resolved(given, made)
    empty = any(part.get("type") == "null" for part in (*whole.get("oneOf", ()), *whole.get("anyOf", ())))
    kind = schema.get("type")
    if isinstance(kind, list):
        empty, kind = empty or "null" in kind, next((one for one in kind if one != "null"), None)
    if "enum" in schema:
        said = "one of " + ", ".join(f"`{value}`" for value in schema["enum"] if value is not None)
    elif kind == "array":
        said = f"list of {_kind(schema.get('items', {}), made)}".replace("list of object", "list of objects")
    elif kind == "string":
        said = FORMATS.get(str(schema.get("format")), "text")
        said += f", up to {schema['maxLength']:,}" if schema.get("maxLength") else ""
    elif kind in {"number", "integer"}:
        said = {"number": "number", "integer": "whole number"}[kind] + _range(schema)
    else:
        said = {"boolean": "true or false", "object": "object"}.get(str(kind), "JSON")
    return f"{said}, or null" if empty else said


def _range(schema: Mapping[str, Any]) -> str:
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high = schema.get("maximum")
    said = []
    if above is not None:
        said.append(f"above {above:g}")
    elif low is not None and abs(low) < 2**31 - 1:
        said.append(f"from {low:g}")
    if high is not None and high < 2**31 - 1:
        said.append(f"up to {high:,}")
    return ", " + " ".join(said) if said else ""


def _resolved(schema: Mapping[str, Any], made: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        found: Any = made
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def _json(value: Any, room: int = WIDTH - 20) -> list[str]:
    """JSON as a person would break it: on one line where that fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) <= room or not isinstance(value, dict | list) or not value:
        return [line]
    dictionary = isinstance(value, dict)
    entries = list(value.items()) if isinstance(value, dict) else [(None, inner) for inner in value]
    lines = ["{" if dictionary else "["]
    for number, (name, inner) in enumerate(entries):
        head = f"{json.dumps(name, ensure_ascii=False)}: " if dictionary else ""
        first, *rest = _json(inner, room - 2 - len(head))
        block = [f"  {head}{first}", *(f"  {one}" for one in rest)]
        if number < len(entries) - 1:
            block[-1] += ","
        lines += block
    return [*lines, "}" if dictionary else "]"]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Without its last column where that says nothing."""
    if not any(row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield ("| " + " | ".join(row) + " |").replace("|  |", "| |")


def _meaning(description: str) -> str:
    """A description, with its choices in one line; those whose label only repeats the value are left out."""
    choices = [f"`{value}`: {label}" for value, label in CHOICE.findall(description) if _adds(value, label)]
    return _cell(" ".join(filter(None, [CHOICE.sub("", description).strip(), "; ".join(choices)])))


def _adds(value: str, label: str) -> bool:
    """Whether the label says more than the value."""
    return label.casefold() != value.replace("_", " ").casefold() and label != value


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def main() -> int:
    import os

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    wanted = pages(document())
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(wanted)} pages in {FOLDER}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

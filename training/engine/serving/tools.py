"""Tools that a chat offers, and which grammar forces a call.

training.engine.models.chats shows them to a model, training.engine.rows.calls reads the calls that it makes. Ours are a
list of {"name", "arguments"}, as recorded decisions of the kind tool_calls have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from training.engine.rows import calls
from training.engine.rows.calls import Call
from training.engine.serving.constraints import grammar_of_lark, grammar_of_schema, json_rule

FIELD = "tools"
CALLS_AT_ONCE = 8

Choice = Literal["none", "auto", "required"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may ask for. `parameters` is a JSON schema of an object; None where it takes none."""

    name: str
    description: str | None
    parameters: Mapping[str, Any] | None

    def described(self) -> dict[str, Any]:
        """OpenAI's shape, which chat templates read."""
        function: dict[str, Any] = {"name": self.name, "description": self.description or ""}
        function["parameters"] = dict(self.parameters or {"type": "object", "properties": {}})
        return {"type": "function", "function": function}

    def call_schemas(self) -> list[dict[str, Any]]:
        """What a call of it looks like: the name first, as most models write, or last, as sorted keys have it."""
        parts = {"name": {"const": self.name}, "arguments": {"$ref": f"#/$defs/{self.name}"}}
        return [
            {
                "type": "object",
                "properties": {key: parts[key] for key in order},
                "required": list(order),
                "additionalProperties": False,
            }
            for order in (("name", "arguments"), ("arguments", "name"))
        ]

    def arguments_schema(self) -> dict[str, Any]:
        """Its parameters, to stand under `$defs` of another schema: references inside of it point there."""
        if not self.parameters:
            return {"type": "object", "properties": {}, "additionalProperties": False}
        moved: dict[str, Any] = _moved(dict(self.parameters), f"#/$defs/{self.name}")
        return {"type": "object", **moved}


@dataclass(frozen=True, slots=True)
class Toolbox:
    """What a request offers. With `choice` required the answer is held to one of two grammars of calls: `forced_blocks`
    for chat templates with `<tool_call>` blocks, `forced_list` for all others."""

    tools: tuple[Tool, ...]
    choice: Choice
    forced_list: str | None = None
    forced_blocks: str | None = None

    @property
    def forced(self) -> bool:
        return self.choice == "required"


def offer_tools(tools: Sequence[Tool], choice: Choice, named: str | None, *, parallel: bool) -> Toolbox:
    """`named`: that tool has to be called, once; `parallel`: several calls at once are allowed. Raises Fault for
    parameters that cannot be enforced where a call is forced."""
    if choice != "required":
        return Toolbox(tuple(tools), choice)
    offered = [tool for tool in tools if named in (None, tool.name)]
    most = CALLS_AT_ONCE if parallel and named is None else 1
    schemas = [schema for tool in offered for schema in tool.call_schemas()]
    defined = {"$defs": {tool.name: tool.arguments_schema() for tool in offered}}
    several = {"type": "array", "items": {"anyOf": schemas}, "minItems": 1, "maxItems": most}
    rule = json_rule({"anyOf": schemas[::2], **defined}, FIELD)
    calls = f'call ("\\n" call){{0,{most - 1}}}' if most > 1 else "call"
    lark = f'start: {calls}\ncall: "<tool_call>\\n" object "\\n</tool_call>"\nobject: {rule}'
    return Toolbox(tuple(tools), choice, grammar_of_schema(several | defined, FIELD), grammar_of_lark(lark, FIELD))


def read_calls(text: str, tools: Sequence[Tool]) -> tuple[str, list[Call]]:
    """What a model wrote → its words and its calls. Text that is no call of a tool on offer stays text."""
    return calls.read_calls(text, {tool.name for tool in tools})


def _moved(node: Any, place: str) -> Any:
    """The schema with its local references pointing below `place`."""
    if isinstance(node, Mapping):
        return {
            key: place + value[1:]
            if key == "$ref" and isinstance(value, str) and value.startswith("#")
            else _moved(value, place)
            for key, value in node.items()
        }
    return [_moved(value, place) for value in node] if isinstance(node, list) else node

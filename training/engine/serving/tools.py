"""Tools that a chat offers: how the model is told of them, which grammar forces a call, and how calls are read.

Where the model's chat template takes tools it shows them in its own way. Elsewhere they stand in the system message,
with the instruction below, and calls and results in earlier messages become plain text. Calls are read in the usual
notations: `<tool_call>` blocks (Hermes, Qwen), or JSON, one call or a list of them, with the key `arguments` or
`parameters`. Ours is a list of {"name", "arguments"}, as recorded decisions of the kind tool_calls have it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from training.engine.serving.constraints import grammar_of_lark, grammar_of_schema, json_rule

INSTRUCTION = (
    'You may call tools. To call one or more, answer with nothing but a JSON list such as\n[{"name": "…", "arguments": '
    "{…}}]\nwith the name of a tool and arguments that fit its parameters, a JSON schema. "
    "The tools, each on a line of its own:\n"
)
FIELD = "tools"
BLOCK = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|$)", re.DOTALL)
OPENING = "<tool_call>"
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


@dataclass(frozen=True, slots=True)
class Call:
    """`arguments` is JSON text."""

    name: str
    arguments: str


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


def takes_tools(template: str) -> bool:
    """Whether a chat template reads the variable `tools`."""
    return re.search(r"\{[%{][^%}]*\btools\b", template) is not None


def written_out(messages: Sequence[Mapping[str, Any]], tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Messages for a template that knows no tools: instruction, calls and results as text."""
    plain: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    results = False
    for message in messages:
        calls = message.get("tool_calls") or ()
        if message["role"] == "tool":
            name = names.get(message.get("tool_call_id") or "") or "a tool"
            text = f"Result of {name}: {message['content']}"
            if results:
                plain[-1]["content"] += "\n" + text
            else:
                plain.append({"role": "user", "content": text})
        elif calls:
            names |= {call["id"]: call["function"]["name"] for call in calls if call.get("id")}
            said = [{"name": call["function"]["name"], "arguments": call["function"]["arguments"]} for call in calls]
            text = "\n".join(filter(None, [message["content"], json.dumps(said, ensure_ascii=False)]))
            plain.append({"role": message["role"], "content": text})
        else:
            plain.append({"role": message["role"], "content": message["content"]})
        results = message["role"] == "tool"
    if tools:
        lines = [json.dumps(tool.described()["function"], ensure_ascii=False) for tool in tools]
        told = INSTRUCTION + "\n".join(lines)
        if plain and plain[0]["role"] == "system":
            plain[0]["content"] = f"{plain[0]['content']}\n\n{told}"
        else:
            plain.insert(0, {"role": "system", "content": told})
    return plain


def read_calls(text: str, tools: Sequence[Tool]) -> tuple[str, list[Call]]:
    """What a model wrote → its words and its calls. Text that is no call of a tool on offer stays text."""
    names = {tool.name for tool in tools}
    blocks = BLOCK.findall(text)
    if blocks:
        found = [_calls_of(block, names) for block in blocks]
        if all(found):
            words = text[: text.index(OPENING)]
            return words if words.strip() else "", [call for calls in found if calls for call in calls]
        return text, []
    calls = _calls_of(text.strip(), names)
    return ("", calls) if calls else (text, [])


def _calls_of(text: str, names: set[str]) -> list[Call] | None:
    if not text.startswith(("{", "[")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    calls = []
    for one in found if isinstance(found, list) else [found]:
        arguments = one.get("arguments", one.get("parameters", {})) if isinstance(one, dict) else None
        if not isinstance(arguments, dict) or not isinstance(one.get("name"), str) or one["name"] not in names:
            return None
        try:
            text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
            text.encode()
        except ValueError:  # NaN, infinite, or half of a surrogate pair: none can be sent as JSON
            return None
        calls.append(Call(one["name"], text))
    return calls


def certain_words(text: str) -> int:
    """How many characters of a text that still grows are words for certain, and no part of a call."""
    opened = text.find(OPENING)
    if opened >= 0:
        return opened if text[:opened].strip() else 0
    if text.lstrip()[:1] in ("", "{", "["):
        return 0
    for length in range(min(len(OPENING) - 1, len(text)), 0, -1):
        if OPENING.startswith(text[-length:]):
            return len(text) - length
    return len(text)

"""Langfuse's SDKs, 3 to 5, in Python and JavaScript: `langfuse.*`. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decisions.traces.dialects.renaming import add, rename
from decisions.traces.messages import only_argument, parse_text

MARK = "langfuse.observation.type"
LEVEL, MESSAGE = "langfuse.observation.level", "langfuse.observation.status_message"
USAGE, COSTS = "langfuse.observation.usage_details", "langfuse.observation.cost_details"
KINDS = {"generation": "LLM", "tool": "TOOL"}
"""OpenInference's kind of an observation; the others have the same names there."""
NAMES = {
    "langfuse.observation.input": "input.value",
    "langfuse.observation.output": "output.value",
    "langfuse.observation.model.name": "gen_ai.request.model",
    "langfuse.user.id": "user.id",
    "langfuse.session.id": "session.id",
}


def translate(attributes: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(attributes[MARK])
    rest = {name: value for name, value in attributes.items() if name not in (MARK, LEVEL, MESSAGE, USAGE, COSTS)}
    made = rename(rest, NAMES, **{"openinference.span.kind": KINDS.get(kind, kind.upper())})
    if "input.value" in made and kind != "generation":
        made["input.value"] = only_argument(parse_text(made["input.value"]))
    usage, costs = (parse_text(attributes.get(name)) for name in (USAGE, COSTS))
    if isinstance(usage, dict):
        add(made, "gen_ai.usage.input_tokens", usage.get("input", usage.get("prompt_tokens")))
        add(made, "gen_ai.usage.output_tokens", usage.get("output", usage.get("completion_tokens")))
    if isinstance(costs, dict):
        add(made, "gen_ai.usage.cost", costs.get("total"))
    return made

"""MLflow's tracing: `mlflow.*`, each value in JSON. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decisions.traces.dialects.renaming import add, rename
from decisions.traces.messages import parse_text
from workspaces.storage.storable import is_storable, read_json

MARK = "mlflow.spanType"
USAGE, COST = "mlflow.chat.tokenUsage", "mlflow.llm.cost"
KINDS = {"CHAT_MODEL": "LLM"}
"""OpenInference's kind of a span; the others have the same names there."""
NAMES = {
    "mlflow.spanInputs": "input.value",
    "mlflow.spanOutputs": "output.value",
    "mlflow.chat.tools": "gen_ai.tool.definitions",
    "mlflow.llm.model": "gen_ai.request.model",
    "mlflow.llm.provider": "gen_ai.provider.name",
    "mlflow.trace.user": "user.id",
    "mlflow.trace.session": "session.id",
}
COPIED = frozenset({"model", "messages", "tools", "input"})
"""Parts of the inputs that an automatic span has once more."""


def translate(attributes: Mapping[str, Any]) -> dict[str, Any]:
    read = {name: _unquote(value) for name, value in attributes.items() if name not in COPIED}
    kind = str(read.pop(MARK))
    usage, cost = (parse_text(read.pop(name, None)) for name in (USAGE, COST))
    made = rename(read, NAMES, **{"openinference.span.kind": KINDS.get(kind, kind)})
    if isinstance(usage, dict):
        add(made, "gen_ai.usage.input_tokens", usage.get("input_tokens"))
        add(made, "gen_ai.usage.output_tokens", usage.get("output_tokens"))
    if isinstance(cost, dict):
        add(made, "gen_ai.usage.cost", cost.get("total_cost"))
    if kind in ("CHAT_MODEL", "LLM"):
        add(made, "user.id", made.pop("user", None))
    return made


def _unquote(value: Any) -> Any:
    """A text's own words where it is a text in JSON; objects and lists are read where they are needed."""
    if isinstance(value, str) and value[:1] == '"':
        try:
            read = read_json(value)
        except ValueError:
            return value
        return read if is_storable(read) else value
    return value

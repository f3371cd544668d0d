"""The table of attributes that hold each field of a span, the preferred name first. PURE.

The GenAI semantic conventions of OpenTelemetry renamed much after 1.36, so both names are here; OpenInference has its
own; `reckoner.*` are ours, for what neither can say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES: Mapping[str, tuple[str, ...]] = {
    # What kind of work it was.
    "span_kind": ("openinference.span.kind",),
    "operation": ("gen_ai.operation.name", "llm.request.type", "traceloop.span.kind"),
    "step_kind": ("reckoner.step.kind",),
    # Who did it, and for whom.
    "agent": ("reckoner.agent", "gen_ai.agent.name", "agent.name"),
    "service": ("reckoner.agent", "service.name"),
    "session": ("reckoner.session", "gen_ai.conversation.id", "session.id"),
    "unit": ("reckoner.unit", "user.id", "enduser.id"),
    "finish_reason": ("gen_ai.response.finish_reasons", "llm.finish_reason", "ai.response.finishReason"),
    "model": (
        "gen_ai.response.model",
        "gen_ai.request.model",
        "decision.response.model_name",
        "decision.model_name",
        "decision.request.model_name",
        "llm.response.model_name",
        "llm.model_name",
        "llm.request.model_name",
        "embedding.model_name",
        "reranker.model_name",
    ),
    "provider": (
        "gen_ai.provider.name",
        "gen_ai.system",
        "decision.provider",
        "decision.system",
        "llm.provider",
        "llm.system",
    ),
    # What it took.
    "tokens_in": (
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.token_count.prompt",
        "decision.token_count.input",
    ),
    "tokens_out": (
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.token_count.completion",
        "decision.token_count.output",
    ),
    "cost": ("reckoner.cost", "gen_ai.usage.cost", "llm.cost.total"),
    # Tools.
    "tool": ("gen_ai.tool.name", "tool.name", "tool_call.function.name"),
    "tool_call_id": ("gen_ai.tool.call.id", "tool_call.id", "tool.id"),
    "arguments": (
        "gen_ai.tool.call.arguments",
        "tool_call.function.arguments",
        "input.value",
        "traceloop.entity.input",
    ),
    "result": ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output"),
    # What went in and came out.
    "system_instructions": ("gen_ai.system_instructions",),
    "messages_in": ("gen_ai.input.messages",),
    "messages_out": ("gen_ai.output.messages",),
    "tools": ("gen_ai.tool.definitions",),
    "input": ("input.value", "gen_ai.retrieval.query.text", "reranker.query", "traceloop.entity.input"),
    "output": ("output.value", "gen_ai.retrieval.documents", "traceloop.entity.output"),
    # Reasoning.
    "reasoning_type": ("reckoner.reasoning.type",),
    "reasoning": ("reckoner.reasoning.content",),
    "insights": ("reckoner.reasoning.insights",),
    "issues": ("reckoner.reasoning.issues",),
    # Decisions.
    "state": ("reckoner.state",),
    "options": ("reckoner.options",),
    "action": ("reckoner.action",),
    "propensity": ("reckoner.propensity",),
    "temperature": ("reckoner.temperature",),
    "epsilon": ("reckoner.epsilon",),
    "confidence": ("reckoner.confidence",),
    # Episodes.
    "tasks_created": ("reckoner.tasks.created",),
    "tasks_completed": ("reckoner.tasks.completed",),
    "tasks_failed": ("reckoner.tasks.failed",),
}
FLAT_MESSAGES_IN = ("llm.input_messages", "gen_ai.prompt")
"""Messages written as one attribute for each of their parts: `llm.input_messages.0.message.role`."""
FLAT_MESSAGES_OUT = ("llm.output_messages", "gen_ai.completion")
FLAT_RESULTS = ("retrieval.documents", "reranker.output_documents", "output.documents")
FLAT_TOOLS = ("llm.tools",)
EVALUATIONS = ("evaluations", "annotations")
"""Evaluations written on the span itself."""
TRACE_EVALUATIONS = ("trace.evaluations", "trace.annotations")

LLM_CALLS = frozenset({"LLM", "chat", "completion", "text_completion", "generate_content"})
TOOL_CALLS = frozenset({"TOOL", "execute_tool", "tool"})

TELLING = ("gen_ai.", "openinference.", "reckoner.", "traceloop.", "llm.")
"""A span with an attribute or an event of such a name tells of an agent. Others (HTTP, SQL) are not kept."""

EVALUATION_EVENT = "gen_ai.evaluation.result"
DETAILS_EVENT = "gen_ai.client.inference.operation.details"
MESSAGE_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
CHOICE_EVENT = "gen_ai.choice"
PROMPT_EVENT, COMPLETION_EVENT = "gen_ai.content.prompt", "gen_ai.content.completion"

MAPPED = frozenset(name for names in NAMES.values() for name in names)
MAPPED_PREFIXES = tuple(
    f"{prefix}."
    for prefix in (
        *FLAT_MESSAGES_IN,
        *FLAT_MESSAGES_OUT,
        *FLAT_RESULTS,
        *FLAT_TOOLS,
        *EVALUATIONS,
        *TRACE_EVALUATIONS,
    )
)


def find_value(attributes: Mapping[str, Any], field: str) -> Any:
    """The value of the preferred name that is there; None where none is."""
    for name in NAMES[field]:
        value = attributes.get(name)
        if value is not None and value != "":
            return value
    return None


def unmapped_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What the table has no field for: kept beside it."""
    return {
        name: value for name, value in attributes.items() if name not in MAPPED and not name.startswith(MAPPED_PREFIXES)
    }

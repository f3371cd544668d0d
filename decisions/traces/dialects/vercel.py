"""The Vercel AI SDK, 4 to 6, and 7 with LegacyOpenTelemetry: `ai.*`. The spans of 7 have the GenAI conventions' names.
PURE.

`generateText` and its like are a span around the steps, `….doGenerate` and `….doStream` a model's call each, and
`ai.toolCall` a tool's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from decisions.traces.dialects.renaming import rename

MARK = "ai.operationId"
NAMES = {
    "ai.model.provider": "gen_ai.provider.name",
    "ai.model.id": "gen_ai.request.model",
    "ai.response.model": "gen_ai.response.model",
    "ai.response.id": "gen_ai.response.id",
    "ai.usage.promptTokens": "gen_ai.usage.input_tokens",
    "ai.usage.completionTokens": "gen_ai.usage.output_tokens",
    "ai.usage.inputTokens": "gen_ai.usage.input_tokens",
    "ai.usage.outputTokens": "gen_ai.usage.output_tokens",
    "ai.toolCall.name": "gen_ai.tool.name",
    "ai.toolCall.id": "gen_ai.tool.call.id",
    "ai.toolCall.args": "gen_ai.tool.call.arguments",
    "ai.toolCall.result": "gen_ai.tool.call.result",
    "ai.prompt.tools": "gen_ai.tool.definitions",
    "ai.prompt.messages": "gen_ai.input.messages",
    "ai.prompt": "input.value",
    "ai.value": "input.value",
    "ai.values": "input.value",
}
ANSWER = {
    "ai.response.text": "content",
    "ai.response.object": "content",
    "ai.response.reasoning": "reasoning_content",
    "ai.response.toolCalls": "tool_calls",
}


def translate(attributes: Mapping[str, Any]) -> dict[str, Any]:
    operation = str(attributes[MARK])
    answer = {new: attributes[old] for old, new in ANSWER.items() if attributes.get(old) not in (None, "")}
    rest = {name: value for name, value in attributes.items() if name not in ANSWER and name != MARK}
    if operation == "ai.toolCall":
        kind: dict[str, Any] = {"gen_ai.operation.name": "execute_tool"}
    elif operation.endswith((".doGenerate", ".doStream")):
        kind = {"gen_ai.operation.name": "chat"}
        if answer:
            kind["gen_ai.output.messages"] = [{"role": "assistant", **answer}]
    else:
        kind = {"gen_ai.operation.name": "embeddings" if "mbed" in operation else "invoke_agent"}
        if answer:
            kind["output.value"] = answer.get("content") or answer
    return rename(rest, NAMES, **kind)

"""A chat with tools and a picture, and a decision that answers it: for tests and browsers."""

from __future__ import annotations

from typing import Any

from decisions.models import Decision
from tools.factories.decisions import AgentFactory, AgentVersionFactory, DecisionFactory, RewardSpecFactory

CHAT_STATE: dict[str, Any] = {
    "input": "Book the first, as in the picture.\n[image_url]",
    "messages": [
        {"role": "system", "content": "You help with trips."},
        {"role": "user", "content": "I want to see Oslo.\nWhich trains go there?\nToday, please."},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {
                    "id": "call_7f3a",
                    "type": "function",
                    "function": {"name": "find_trains", "arguments": '{"to": "Oslo", "via": ["Malmö", "Gothenburg"]}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_7f3a", "content": '{"trains": [{"number": 14, "leaves": "09:14"}]}'},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Book the first, as in the picture."},
                {"type": "image_url", "image_url": {"sha256": "00", "bytes": 69, "media_type": "image/png"}},
            ],
        },
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": description,
                "parameters": {"type": "object", "properties": properties, "required": list(properties)},
            },
        }
        for name, description, properties in (
            ("find_trains", "Lists trains.", {"to": {"type": "string"}, "via": {"type": "array"}}),
            ("book", "Books a seat.", {"train": {"type": "integer"}}),
        )
    ],
}
CHAT_ANSWER = [{"name": "book", "id": "call_9c1d", "arguments": {"train": 14}}]


def make_chat_decision(workspace: Any) -> Decision:
    agent = AgentFactory(workspace=workspace, slug="helper")
    RewardSpecFactory(agent=agent)
    version = AgentVersionFactory(agent=agent, action_space="tool_calls", options=None, prompt_template="{{ input }}")
    return DecisionFactory(
        agent=agent,
        agent_version=version,
        state=CHAT_STATE,
        options=["find_trains", "book"],
        action=CHAT_ANSWER,
        completion="I book it.",
        propensity=None,
        confidence=None,
        finish_reason="tool_calls",
    )

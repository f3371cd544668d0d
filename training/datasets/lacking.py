"""Finds in SQL the decisions whose state lacks a field of their version's prompt, for previews, which make no rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from decisions.agents.prompts import FIELD, OF_CHATS
from decisions.models import CHATTING, AgentVersion

LACKS_FIELD = """(
  EXISTS (SELECT 1 FROM unnest(%(asking)s::uuid[], %(paths)s::text[]) AS asked(version_id, path)
           WHERE asked.version_id = d.agent_version_id AND d.state #> string_to_array(asked.path, '.') IS NULL)
  AND NOT (d.agent_version_id = ANY(%(chatting)s::uuid[]) AND jsonb_typeof(d.state -> 'messages') = 'array'
           AND d.state -> 'messages' <> '[]'
           AND NOT EXISTS (SELECT 1 FROM unnest(%(naming)s::uuid[], %(names)s::text[]) AS named(version_id, name)
                            WHERE named.version_id = d.agent_version_id AND d.state ? named.name)))"""
"""SQL of a decision `d`, with the parameters below. A chat is asked as it is, as `decisions.agents.prompts.is_chat`
says; whether it can be read is not seen here."""


def lack_parameters(versions: Iterable[AgentVersion]) -> dict[str, list[Any]]:
    """Makes the parameters, for the versions whose decisions are looked at."""
    asked, named, chatting = [], [], []
    for version in versions:
        fields = [match.groups() for match in FIELD.finditer(version.prompt_template)]
        asked += [(version.id, path) for path, optional in fields if not optional and path != "options"]
        if version.action_space in CHATTING:
            chatting.append(version.id)
            names = {path.split(".", 1)[0] for path, _ in fields} - OF_CHATS
            named += [(version.id, name) for name in sorted(names)]
    return {
        "asking": [version for version, _ in asked],
        "paths": [path for _, path in asked],
        "naming": [version for version, _ in named],
        "names": [name for _, name in named],
        "chatting": chatting,
    }

"""How long an agent's greedy answers of chats may be given again (`decisions.chats.recalling` gives them)."""

from __future__ import annotations

from django.db import transaction

from decisions.agents.current import find_current_version
from decisions.models import CHATTING, Agent
from workspaces.actors import Actor
from workspaces.errors import FieldFault, InvalidInput
from workspaces.services import record_audit

LONGEST_SECONDS = 30 * 86_400


@transaction.atomic
def change_cache(*, by: Actor, agent: Agent, seconds: int) -> Agent:
    """0 turns it off. It counts from the next request on, for answers that are kept already, too. Raises InvalidInput
    for an agent that does not chat: it never answers greedily."""
    row = Agent.objects.for_workspace(by.workspace).select_for_update(of=("self",)).get(id=agent.id)
    if not 0 <= seconds <= LONGEST_SECONDS:
        fault = FieldFault("seconds", f"{seconds} is out of range", f"0 to {LONGEST_SECONDS:,}, which is 30 days")
        raise InvalidInput("The time is invalid.", faults=[fault])
    acting = find_current_version(row)
    if seconds and (acting is None or acting.action_space not in CHATTING):
        reason = f"{row.slug} does not chat, and draws its answers"
        fault = FieldFault("seconds", reason, "0, or an agent whose action is text or tool calls")
        raise InvalidInput("This agent's answers cannot be given again.", faults=[fault])
    if seconds != row.cache_seconds:
        details = {"agent": row.slug, "from": row.cache_seconds, "to": seconds}
        row.cache_seconds = seconds
        row.save(update_fields=["cache_seconds"])
        record_audit(by=by, action="agent.cache_changed", target=f"agent:{row.id}", details=details)
    return row

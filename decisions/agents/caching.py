"""For how long greedy answers of an agent may be given again: of chats (`decisions.chats.recalling`), and episodes that
it solved greedily (`training.environments.solving.recalling`)."""

from __future__ import annotations

from django.db import transaction

from decisions.agents.current import find_current_version
from decisions.models import CHATTING, ActionSpaceKind, Agent, AgentVersion
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, InvalidInput

LONGEST_SECONDS = 30 * 86_400


@transaction.atomic
def change_cache(*, by: Actor, agent: Agent, seconds: int) -> Agent:
    """0 turns it off. It counts from the next request on, for answers that are kept already, too. Raises InvalidInput
    for an agent that never answers greedily."""
    row = Agent.objects.for_workspace(by.workspace).select_for_update(of=("self",)).get(id=agent.id)
    if not 0 <= seconds <= LONGEST_SECONDS:
        fault = FieldFault("seconds", f"{seconds} is out of range", f"0 to {LONGEST_SECONDS:,}, which is 30 days")
        raise InvalidInput("The time is invalid.", faults=[fault])
    acting = find_current_version(row)
    if seconds and (acting is None or not may_cache(acting)):
        reason = f"{row.slug} neither chats nor takes options with each decision, so its answers are drawn at random"
        expected = "0, or an agent whose action is text, tool calls, or a choice among options given with each decision"
        fault = FieldFault("seconds", reason, expected)
        raise InvalidInput("This agent's answers cannot be cached.", faults=[fault])
    if seconds != row.cache_seconds:
        details = {"agent": row.slug, "from": row.cache_seconds, "to": seconds}
        row.cache_seconds = seconds
        row.save(update_fields=["cache_seconds"])
        record_audit(by=by, action="agent.cache_changed", target=f"agent:{row.id}", details=details)
    return row


def may_cache(version: AgentVersion) -> bool:
    """Whether it ever answers greedily: in chats, or in environments, which give the options of each step."""
    return version.action_space in CHATTING or takes_options(version)


def takes_options(version: AgentVersion) -> bool:
    """Whether each decision of it brings its own options."""
    return version.action_space == ActionSpaceKind.CHOICE and version.options is None

"""Which answers do not fit their agent's action space. Guardrails of experiments ask (`decisions.rewards.maturing`)."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from decisions.agents.current import space_of
from decisions.models import AgentVersion, Decision


def find_invalid_answers(decisions: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Those whose action is none that the agent's version allows: not one of the options, not valid against the
    schema, no list of tool calls. Two queries."""
    found = Decision.objects.filter(id__in=decisions)
    rows = list(found.values_list("id", "agent_version_id", "action", "options", "state"))
    versions = AgentVersion.objects.in_bulk({version_id for _, version_id, *_ in rows})
    invalid = set()
    for decision_id, version_id, action, options, state in rows:
        version = versions[version_id]
        space = space_of(version)
        offered = version.options if options is None else options
        if not space.fits_plainly([action], offered) and space.action_faults(action, options=offered, state=state):
            invalid.add(decision_id)
    return invalid

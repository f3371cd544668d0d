"""The table of run states and transitions. PURE: the launcher, the pages and the docs read it."""

from __future__ import annotations

import enum
from collections.abc import Mapping


class RunState(enum.StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


TRANSITIONS: Mapping[RunState, frozenset[RunState]] = {
    RunState.QUEUED: frozenset({RunState.RUNNING, RunState.CANCELLED, RunState.FAILED}),
    # Running again: a lost attempt is taken up from its newest checkpoint.
    RunState.RUNNING: frozenset(
        {RunState.RUNNING, RunState.STOPPING, RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED}
    ),
    # Cancelled while running: the engine has been told and leaves a checkpoint first.
    RunState.STOPPING: frozenset({RunState.CANCELLED, RunState.FAILED}),
    RunState.SUCCEEDED: frozenset(),
    RunState.FAILED: frozenset(),
    RunState.CANCELLED: frozenset(),
}
TERMINAL_STATES = frozenset(state for state, following in TRANSITIONS.items() if not following)


class InvalidTransition(ValueError):
    """The table does not allow this move."""


def check_transition(old: RunState, new: RunState) -> None:
    """Raises InvalidTransition, naming what would be allowed."""
    if new not in TRANSITIONS[old]:
        allowed = ", ".join(sorted(TRANSITIONS[old])) or "none, the state is terminal"
        raise InvalidTransition(f"a run cannot go from {old} to {new}; allowed: {allowed}")

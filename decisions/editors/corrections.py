"""Checks corrections: the right action in somebody's words, of whatever kind the action is.

A correction has the shape of the decision's action. `decisions.labelling` stores it as a label's `corrected_action`,
`decisions.ingest.feedback` beside the verdict that it came with. It counts as long as that verdict does.
"""

from __future__ import annotations

from typing import Any

from decisions.agents.chat_actions import canonical_action
from decisions.editors.table import case_of, editor_of
from decisions.models import Decision, Verdict
from workspaces.errors import FieldFault

CORRECTING = frozenset({Verdict.CORRECTED.value, Verdict.OVERRIDDEN.value})
"""The verdicts that a correction may accompany."""


def is_same_correction(one: Any, other: Any) -> bool:
    """Whether two corrections, either of them perhaps None, say the same."""
    return canonical_action(one) == canonical_action(other)


def find_correction_faults(decision: Decision, corrected: Any) -> list[FieldFault]:
    """Every fault of a corrected action, by its place in the action: `action.findings[1].type`."""
    faults = editor_of(decision).find_faults(case_of(decision), corrected)
    if not faults and is_same_correction(corrected, decision.action):
        faults = [FieldFault("action", "is the chosen action", "another action, or confirm")]
    return faults

"""Corrections: the right action in a reviewer's words, of whatever kind the action is.

A correction is the `corrected_action` of a label, and has the shape of the decision's action. It counts as long as the
verdict does that was written with it. The editor of its kind (`decisions.editors.table`) says what it may be.
"""

from __future__ import annotations

from typing import Any

from decisions.agents.chat_actions import canonical_action
from decisions.editors.table import case_of, editor_of
from decisions.models import Decision, Feedback
from decisions.models.verdicts import find_label
from workspaces.errors import FieldFault


def corrected_action(decision: Decision, verdict: Feedback | None) -> Any:
    """The right action that the label of `verdict` names, in the shape of `decision.action`; None where it names none.
    `verdict` is the one that counts (`decisions.models.verdicts.find_verdict`). Reads `decision.labels`."""
    label = find_label(verdict, decision.labels.all())
    return None if label is None else label.corrected_action


def is_same_correction(one: Any, other: Any) -> bool:
    """Whether two corrections, either of them perhaps None, say the same."""
    return canonical_action(one) == canonical_action(other)


def find_correction_faults(decision: Decision, corrected: Any) -> list[FieldFault]:
    """Every fault of a corrected action, by its place in the action: `action.findings[1].type`."""
    faults = editor_of(decision).find_faults(case_of(decision), corrected)
    if not faults and is_same_correction(corrected, decision.action):
        faults = [FieldFault("action", "is the chosen action", "another action, or confirm")]
    return faults

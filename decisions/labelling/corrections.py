"""Corrections: the right action in a reviewer's words, of whatever kind the action is.

A correction is the `corrected_action` of a label, and has the shape of the decision's action. It counts as long as the
verdict does that was written with it.
"""

from __future__ import annotations

from typing import Any

from decisions.models import Decision, Feedback
from decisions.models.verdicts import find_label


def corrected_action(decision: Decision, verdict: Feedback | None) -> Any:
    """The right action that the label of `verdict` names, in the shape of `decision.action`; None where it names none.
    `verdict` is the one that counts (`decisions.models.verdicts.find_verdict`). Reads `decision.labels`."""
    label = find_label(verdict, decision.labels.all())
    return None if label is None else label.corrected_action

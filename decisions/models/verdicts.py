"""Defines which verdict on a decision counts, for pages, rewards, exports, counts and the notes app.

It is the latest verdict that no other feedback on the decision supersedes. The client gives its time, but one dated
later than it arrived counts from its arrival: otherwise a verdict dated to the year 2200 would count for ever. The
larger id breaks ties, so that every order of arrival gives one result. A reviewer's label counts by the feedback
written with it, and its other fields count as long as that does.

There is one definition in SQL and one in Python; `tests/decisions/models/test_verdicts.py` checks every reader against
them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from decisions.models import Decision, Feedback, Label

VERDICT = "verdict"
"""The metric of a verdict."""
WITHDRAWN = "verdict_withdrawn"
"""The metric of the feedback that takes a label's verdict back."""

GIVEN_AT = "least({0}.observed_at, {0}.recorded_at)"
"""SQL of `given_at`, of feedback under an alias."""
LATEST_FIRST = f"{GIVEN_AT} DESC, {{0}}.id DESC"
"""SQL: the order of feedback on one decision, of which the first counts."""
STANDS = """NOT EXISTS (SELECT 1 FROM decisions_feedback later
                  WHERE later.decision_id = {0}.decision_id AND later.workspace_id = {0}.workspace_id
                    AND later.supersedes = {0}.id{1})"""
"""SQL: no other feedback supersedes that under the alias; the second field may narrow what is asked for that."""
THAT_COUNTS = f"""(SELECT f.value #>> '{{}}' FROM decisions_feedback f
    WHERE f.decision_id = d.id AND f.workspace_id = d.workspace_id AND f.metric = '{VERDICT}'
      AND {STANDS.format("f", "")}
    ORDER BY {LATEST_FIRST.format("f")} LIMIT 1)"""  # noqa: S608 - our own names
"""SQL of the verdict that counts, of the decision `d`; NULL where there is none."""


def given_at(feedback: Feedback) -> dt.datetime:
    """By the client's clock, at the latest when it arrived."""
    return min(feedback.observed_at, feedback.recorded_at)


def list_standing(decision: Decision) -> list[Feedback]:
    """What was fed back on the decision and nothing supersedes, the latest first. Reads `decision.feedback`."""
    own = [entry for entry in decision.feedback.all() if entry.workspace_id == decision.workspace_id]
    gone = {entry.supersedes for entry in own}
    standing = (entry for entry in own if entry.id not in gone)
    return sorted(standing, key=lambda entry: (given_at(entry), entry.id), reverse=True)


def find_verdict(decision: Decision) -> Feedback | None:
    """The verdict that counts. Reads `decision.feedback`."""
    return next((entry for entry in list_standing(decision) if entry.metric == VERDICT), None)


def label_key(label: Label) -> str:
    """The idempotency key of the feedback that the label wrote."""
    return f"label:{label.id}"


def label_of(verdict: Feedback | None, labels: Iterable[Label]) -> Label | None:
    """The label that wrote this verdict, if one did."""
    if verdict is None or verdict.idempotency_key is None:
        return None
    return next((label for label in labels if label_key(label) == verdict.idempotency_key), None)

"""Defines which verdict on a decision or an episode counts, for pages, rewards, exports, counts and the notes app.

Of the verdicts that no other feedback on it supersedes, those of the strongest source count first: a
reviewer's label, then a person, a judge model, code, the system. So whatever an app sends later never outranks a
reviewer. Of one source the latest counts. The client gives its time, but one dated later than it arrived counts from
its arrival: otherwise a verdict dated to the year 2200 would count for ever. The larger id breaks ties, so that every
order of arrival gives one result. A label counts by the feedback written with it, and its other fields count as long as
that does; so does a correction that feedback itself has. The same order says which feedback of any other metric counts.

There is one definition in SQL and one in Python; `tests/decisions/models/test_verdicts.py` checks every reader against
them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from decisions.models import Decision, Episode, Feedback, Label

VERDICT = "verdict"
"""The metric of a verdict."""
WITHDRAWN = "verdict_withdrawn"
"""The metric of the feedback that takes a label's verdict back."""

GIVEN_AT = "least({0}.observed_at, {0}.recorded_at)"
"""SQL of `given_at`, of feedback under an alias."""
_SOURCES = ("human", "llm", "code", "system")
_STRENGTH = (
    "CASE WHEN {0}.source = 'human' AND starts_with({0}.idempotency_key, 'label:') THEN 0 "
    + " ".join(f"WHEN {{0}}.source = '{source}' THEN {place}" for place, source in enumerate(_SOURCES, start=1))
    + " END"
)
FIRST_COUNTS = f"{_STRENGTH}, {GIVEN_AT} DESC, {{0}}.id DESC"
"""SQL: the order of feedback of one metric on one decision, of which the first counts."""
STANDS = """NOT EXISTS (SELECT 1 FROM {1} later
                  WHERE later.decision_id = {0}.decision_id AND later.workspace_id = {0}.workspace_id
                    AND later.supersedes = {0}.id)"""
"""SQL: no other feedback supersedes that under the alias. The second field is where to look: `ALL_FEEDBACK`, or a
query's own part of it, or only what supersedes something, `SUPERSEDING`."""
ALL_FEEDBACK = "decisions_feedback"
SUPERSEDING = "(SELECT * FROM decisions_feedback WHERE supersedes IS NOT NULL)"
THAT_COUNTS = f"""(SELECT f.value #>> '{{}}' FROM decisions_feedback f
    WHERE f.decision_id = d.id AND f.workspace_id = d.workspace_id AND f.metric = '{VERDICT}'
      AND {STANDS.format("f", ALL_FEEDBACK)}
    ORDER BY {FIRST_COUNTS.format("f")} LIMIT 1)"""  # noqa: S608 - our own names
"""SQL of the verdict that counts, of the decision `d`; NULL where there is none."""

EPISODE_HAS_VERDICT = f"""EXISTS (SELECT 1 FROM decisions_feedback f
    WHERE f.episode_id = e.id AND f.workspace_id = e.workspace_id AND f.metric = '{VERDICT}'
      AND NOT EXISTS (SELECT 1 FROM decisions_feedback later
                       WHERE later.episode_id = f.episode_id AND later.workspace_id = f.workspace_id
                         AND later.supersedes = f.id))"""  # noqa: S608
"""SQL: a verdict on the episode `e` counts."""


def given_at(feedback: Feedback) -> dt.datetime:
    """By the client's clock, at the latest when it arrived."""
    return min(feedback.observed_at, feedback.recorded_at)


def list_current_feedback(subject: Decision | Episode) -> list[Feedback]:
    """What was fed back on it and nothing supersedes; of each metric the first counts. Reads `subject.feedback`."""
    own = [entry for entry in subject.feedback.all() if entry.workspace_id == subject.workspace_id]
    gone = {entry.supersedes for entry in own}
    standing = (entry for entry in own if entry.id not in gone)
    return sorted(standing, key=lambda entry: (-_strength(entry), given_at(entry), entry.id), reverse=True)


def _strength(feedback: Feedback) -> int:
    """0 for the strongest source."""
    if feedback.source == "human" and (feedback.idempotency_key or "").startswith("label:"):
        return 0
    return 1 + _SOURCES.index(feedback.source)


def find_verdict(subject: Decision | Episode) -> Feedback | None:
    """The verdict that counts. Reads `subject.feedback`."""
    return next((entry for entry in list_current_feedback(subject) if entry.metric == VERDICT), None)


def label_key(label: Label) -> str:
    """The idempotency key of the feedback that the label wrote."""
    return f"label:{label.id}"


def find_label(verdict: Feedback | None, labels: Iterable[Label]) -> Label | None:
    """The label that wrote this verdict, if one did."""
    if verdict is None or verdict.idempotency_key is None:
        return None
    return next((label for label in labels if label_key(label) == verdict.idempotency_key), None)


def find_correction(verdict: Feedback | None, labels: Iterable[Label]) -> Any:
    """The right action that the verdict names: its label's, or its own; None where it names none."""
    if verdict is None:
        return None
    label = find_label(verdict, labels)
    return verdict.correction if label is None else label.corrected_action

"""Measures `trace.learned`: how likely people are to call a trace right, by a classifier that learns from their labels.

Each agent has a classifier of its own. It learns from the newest MOST_LABELS episodes and MOST_LABELS decisions that a
person judged. A trace is an episode, or a decision without one. What was said of the whole episode says whether it was
right; else it is right if every judged decision of it was confirmed, and wrong if one was corrected or overridden. With
fewer than ten of each it scores nothing, and the component stays unmeasured.

It is trained again once a fifth more verdicts have come since, at least ten. A calculation of rewards finds this and
queues the job, which trains the next version and measures the agent's newest MOST_MEASURED decisions again; older ones
keep the measurement of the version that scored them. Between two trainings every job fits it anew, on the labels as
they were at the last one, so that no model has to be stored.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from django.db import connection
from django.utils import timezone

from decisions.models import Agent, TraceClassifier
from decisions.models.episode import IS_LIVE
from decisions.models.tombstones import NOT_ERASED
from decisions.models.verdicts import FIRST_COUNTS, VERDICT
from decisions.rewards.components import Group
from decisions.rewards.components.texts import all_texts
from decisions.rewards.gathering import Gathered, gather_facts
from decisions.rewards.learned_classifier import FEWEST, Fitted, Judged, TooFewLabels, fit, write_document
from decisions.rewards.measuring import Begun, Measurer, NotYet, mark_newest

COMPONENT = "trace.learned"
READS: frozenset[Group] = frozenset({"trace", "content"})
MOST_LABELS, MOST_MEASURED = 2_000, 20_000
GROWTH = 0.2
CHUNK = 500
_RIGHT = {"confirmed": True, "corrected": False, "overridden": False}

# Verdicts of people that nothing had superseded at that moment. Theirs count before all others.
_JUDGED = f"""
SELECT DISTINCT d.id FROM decisions_feedback f JOIN decisions_decision d ON d.id = f.decision_id
 WHERE f.workspace_id = %(workspace)s AND f.metric = '{VERDICT}' AND f.source = 'human'
   AND f.recorded_at <= %(until)s AND d.agent_id = %(agent)s AND d.{NOT_ERASED}
   AND NOT EXISTS (SELECT 1 FROM decisions_feedback later
                    WHERE later.decision_id = f.decision_id AND later.workspace_id = f.workspace_id
                      AND later.supersedes = f.id AND later.recorded_at <= %(until)s)
 ORDER BY d.id DESC LIMIT %(most)s
"""  # noqa: S608 - names of our own
# The same of whole episodes, with the one that counts; those that were erased have no words left. Nothing is learnt
# from those on held-out tasks.
_JUDGED_EPISODES = f"""
SELECT DISTINCT ON (e.id) e.id, f.value #>> '{{}}', e.query, e.final_response
  FROM decisions_feedback f JOIN decisions_episode e ON e.id = f.episode_id
 WHERE f.workspace_id = %(workspace)s AND f.metric = '{VERDICT}' AND f.source = 'human'
   AND f.recorded_at <= %(until)s AND e.agent_id = %(agent)s AND {IS_LIVE.format("e")}
   AND NOT EXISTS (SELECT 1 FROM decisions_feedback later
                    WHERE later.episode_id = f.episode_id AND later.workspace_id = f.workspace_id
                      AND later.supersedes = f.id AND later.recorded_at <= %(until)s)
 ORDER BY e.id DESC, {FIRST_COUNTS.format("f")} LIMIT %(most)s
"""  # noqa: S608
_NEW = f"""
SELECT count(*) FROM (
  SELECT 1 FROM decisions_feedback f
    LEFT JOIN decisions_decision d ON d.id = f.decision_id
    LEFT JOIN decisions_episode e ON e.id = f.episode_id
   WHERE f.workspace_id = %(workspace)s AND f.metric = '{VERDICT}' AND f.source = 'human'
     AND coalesce(d.agent_id, e.agent_id) = %(agent)s AND (e.id IS NULL OR {IS_LIVE.format("e")})
     AND (%(since)s::timestamptz IS NULL OR f.recorded_at > %(since)s)
   LIMIT %(most)s) new
"""  # noqa: S608


def is_outdated(agent: Agent) -> bool:
    """Whether enough verdicts have come since the last training, or for a first one."""
    last = TraceClassifier.objects.filter(agent=agent).first()
    needed = 2 * FEWEST if last is None else max(FEWEST, math.ceil(GROWTH * (last.right + last.wrong)))
    since = None if last is None else last.trained_at
    with connection.cursor() as cursor:
        asked = {"workspace": agent.workspace_id, "agent": agent.id, "since": since, "most": needed}
        cursor.execute(_NEW, asked)
        return int(cursor.fetchone()[0]) >= needed


def begin(agent: Agent, step: Callable[[], AbstractContextManager[object]]) -> Begun:
    """The classifier of the agent, trained again where it is outdated. Raises NotYet with too few labels."""
    last = TraceClassifier.objects.filter(agent=agent).first()
    if last is not None and not is_outdated(agent):
        if last.reason:
            raise NotYet(last.reason)
        return _begun(_fit(agent, last.trained_at), last)
    made = TraceClassifier(
        agent=agent,
        workspace_id=agent.workspace_id,
        version=1 if last is None else last.version + 1,
        trained_at=timezone.now(),
    )
    try:
        fitted = _fit(agent, made.trained_at)
    except TooFewLabels as error:
        made.reason = str(error)
        with step():
            made.save()
        raise NotYet(made.reason) from error
    made.right, made.wrong = fitted.right, fitted.wrong
    with step():
        made.save()
        mark_newest(agent, COMPONENT, most=MOST_MEASURED)
    return _begun(fitted, made)


def _begun(fitted: Fitted[uuid.UUID], classifier: TraceClassifier) -> Begun:
    def measure(one: Gathered) -> float | None:
        document = _document(one)
        return fitted.score(one.trace_id, document) if document else None

    return Begun(measure, {"classifier": classifier.version})


def _fit(agent: Agent, until: dt.datetime) -> Fitted[uuid.UUID]:
    """Raises TooFewLabels."""
    return fit(list(_read_judged(agent, until)))


def _read_judged(agent: Agent, until: dt.datetime) -> Iterator[Judged[uuid.UUID]]:
    """Traces with words in them, each of them once."""
    with connection.cursor() as cursor:
        known: dict[str, Any] = {"workspace": agent.workspace_id, "agent": agent.id}
        known |= {"until": until, "most": MOST_LABELS}
        cursor.execute(_JUDGED, known)
        decisions = [row[0] for row in cursor.fetchall()]
        cursor.execute(_JUDGED_EPISODES, known)
        episodes = cursor.fetchall()
    documents: dict[uuid.UUID, str] = {}
    right: dict[uuid.UUID, bool] = {}
    for start in range(0, len(decisions), CHUNK):
        for one in gather_facts(
            workspace_id=agent.workspace_id,
            agent_id=agent.id,
            groups=READS,
            moments=dict.fromkeys(decisions[start : start + CHUNK], until),
            now=until,
        ):
            said = _RIGHT.get(str(one.facts.verdict))
            document = _document(one)
            if said is not None and document:
                documents[one.trace_id] = document
                right[one.trace_id] = said and right.get(one.trace_id, True)
    for episode, verdict, query, response in episodes:
        said, document = _RIGHT.get(verdict), write_document(f"{query} {response}")
        if said is not None and document:
            documents[episode], right[episode] = document, said
    for key, document in documents.items():
        yield Judged(key, document, right[key])


def _document(one: Gathered) -> str:
    """Query and response of an episode; of a decision without one, or whose episode has neither, state and action."""
    facts = one.facts
    if facts.trace is None:
        return ""  # erased
    if one.episode is not None and (said := write_document(f"{facts.trace.query} {facts.trace.response}")):
        return said
    state = " ".join([*all_texts(facts.state), facts.completion or ""])
    return write_document(state, " ".join(all_texts(facts.action)))


MEASURER = Measurer(version=1, reads=READS, begin=begin, is_outdated=is_outdated, at_once=CHUNK)

"""What an episode was asked and answered, found again among its steps after each request: they may come in any order
and in pieces."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import connection
from django.utils import timezone

from decisions.agents.current import CurrentAgent
from decisions.models import Decision, Episode, Step, StepKind
from decisions.traces.mapping import MappedSpan
from decisions.traces.messages import find_answer, find_question

LOOK = 16
"""Among how many of an episode's first steps the outermost is looked for. They lie within one millisecond at most."""

_ENDS = """
SELECT e.id, s.id, s.started_at, s.duration_ms, s.place
  FROM unnest(%(ids)s::uuid[]) e(id) CROSS JOIN LATERAL (
    (SELECT id, started_at, duration_ms, 'outermost' AS place FROM decisions_step
      WHERE episode_id = e.id ORDER BY id LIMIT %(look)s)
    UNION ALL
    (SELECT id, started_at, duration_ms, 'first call' FROM decisions_step
      WHERE episode_id = e.id AND kind = 'llm_call' ORDER BY id LIMIT 1)
    UNION ALL
    (SELECT id, started_at, duration_ms, 'last call' FROM decisions_step
      WHERE episode_id = e.id AND kind = 'llm_call' ORDER BY id DESC LIMIT 1)
  ) s
"""


def refresh_episodes(
    spans: Sequence[MappedSpan], episodes: Mapping[str, uuid.UUID], agents: Mapping[str, CurrentAgent]
) -> set[uuid.UUID]:
    """Question, answer, agent and times of the episodes that these spans belong to, from all their steps so far.

    Returns those of which something around their model calls is known: what that says holds for the calls.
    """
    ends = _find_ends(episodes.values())
    steps = {
        step.id: step
        for step in Step.objects.filter(id__in={pk for found in ends.values() for pk in found.values()}).defer(
            "content_hash"
        )
    }
    states: dict[uuid.UUID | None, Any] = dict(
        Decision.objects.filter(id__in={s.decision_id for s in steps.values() if s.decision_id}).values_list(
            "id", "state"
        )
    )
    mapped: dict[uuid.UUID, list[MappedSpan]] = {}
    for span in spans:
        mapped.setdefault(episodes[span.trace], []).append(span)
    framed: set[uuid.UUID] = set()
    rows = list(Episode.objects.select_for_update().filter(id__in=mapped).order_by("id"))
    for row in rows:
        if row.id not in ends:
            continue  # all its steps were refused as conflicts
        found = ends[row.id]
        top = steps[found["outermost"]]
        if top.kind != StepKind.LLM_CALL:
            framed.add(row.id)
        # Without a span around the model calls, or text in it, use the first call's question and the last answer.
        first, last = (steps.get(found.get(place, top.id), top) for place in ("first call", "last call"))
        row.query = _asked(top, states) or _asked(first, states) or row.query
        answer = top if top.kind == "span" and top.result is not None else last
        if answer.kind != "tool_call":
            row.final_response = find_answer(answer.result) or row.final_response
        for news in sorted(mapped[row.id], key=lambda news: (news.step.started_at, news.step.id)):
            _refresh_episode(row, news)
            if news.step.id == top.id:
                row.agent_id = agents[news.agent].agent.id
                row.session, row.unit = news.session or row.session, news.unit or row.unit
        row.changed_at = timezone.now()
    fields = ["agent", "changed_at", "query", "final_response", "session", "unit", "started_at", "ended_at"]
    Episode.objects.bulk_update(rows, [*fields, "tasks_created", "tasks_completed", "tasks_failed"], batch_size=200)
    return framed


def _refresh_episode(row: Episode, mapped: MappedSpan) -> None:
    step = mapped.step
    end = step.started_at + dt.timedelta(milliseconds=step.duration_ms)
    row.started_at = min(row.started_at, step.started_at)
    row.ended_at = end if row.ended_at is None else max(row.ended_at, end)
    row.session = row.session or mapped.session
    row.unit = row.unit or mapped.unit
    for name, count in mapped.tasks.items():
        setattr(row, name, count)


def _asked(step: Step, states: Mapping[uuid.UUID | None, Any]) -> str:
    """What went into the step: what it was given, or the state of the decision that it made."""
    return find_question(step.arguments if step.arguments is not None else states.get(step.decision_id))


def _find_ends(episodes: Iterable[uuid.UUID]) -> dict[uuid.UUID, dict[str, uuid.UUID]]:
    """Finds each episode's outermost step, the first and the last model call, as far as there are such.

    Ids are in the order of start, to the millisecond.
    """
    with connection.cursor() as cursor:
        cursor.execute(_ENDS, {"ids": list(episodes), "look": LOOK})
        rows = cursor.fetchall()
    ends: dict[uuid.UUID, dict[str, uuid.UUID]] = {}
    outermost: dict[uuid.UUID, Step] = {}
    for episode, step_id, started_at, duration_ms, place in rows:
        step = Step(id=step_id, started_at=started_at, duration_ms=duration_ms)
        if place == "outermost":
            if episode in outermost and outermost[episode].place <= step.place:
                continue
            outermost[episode] = step
        ends.setdefault(episode, {})[place] = step_id
    return ends

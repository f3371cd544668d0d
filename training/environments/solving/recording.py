"""What a solved or interrupted episode leaves in the ledger beside its decisions: facts, rewards, outcome."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

from django.utils import timezone

from decisions.ingest.batches import BatchResult
from decisions.ingest.episode_facts import record_episodes
from decisions.ingest.feedback import record_feedback
from decisions.ingest.next_states import record_next_states
from decisions.ingest.schemas import FeedbackIn
from decisions.ingest.step_schemas import EpisodeIn
from decisions.models import Episode
from training.environments.solving.acting import Acting, Consequence
from workspaces.access.actors import Actor
from workspaces.errors import Conflict

STEP_REWARD, SOLVED, SCORE, FINISHED, INTERRUPTED = "step_reward", "solved", "score", "finished", "interrupted"
"""Metrics of the feedback, of source `code`: the first on each decision, the others on the episode."""
LONGEST = 10_000
"""Characters of the last action and of a reason that are kept."""


def begin_episodes(*, by: Actor, agent: str, acting: Sequence[Acting]) -> None:
    """What is known when they begin; sets their ids."""
    told = [
        EpisodeIn(
            agent=agent, episode=one.name, query=one.problem.task.text, unit=one.problem.unit, started_at=one.started_at
        )
        for one in acting
    ]
    if told:
        kept = _whole(record_episodes(by=by, items=list(enumerate(told))))
        for one, row in zip(acting, kept.kept, strict=True):
            one.episode_id = row.id


def record_consequences(*, by: Actor, consequences: Sequence[Consequence]) -> None:
    """What the steps of these decisions earned, and the states that they led to."""
    key = f"solve:{STEP_REWARD}"
    told = [
        FeedbackIn(metric=STEP_REWARD, value=one.reward, decision_id=one.decision, source="code", idempotency_key=key)
        for one in consequences
    ]
    _record(by, told)
    record_next_states(by=by, states={one.decision: one.next_state for one in consequences})


def end_episode(*, by: Actor, agent: str, acting: Acting, solved: bool, score: float) -> None:
    """The outcome of one that has begun. A repeat adds nothing."""
    assert acting.episode_id is not None
    if not Episode.objects.filter(id=acting.episode_id, ended_at__isnull=False).exists():
        facts = EpisodeIn(
            agent=agent,
            episode=acting.name,
            final_response=acting.trajectory[-1].action[:LONGEST] if acting.trajectory else None,
            tasks_created=1,
            tasks_completed=int(solved),
            tasks_failed=int(not solved),
            duration_ms=acting.latency_ms,
            ended_at=timezone.now(),
        )
        _whole(record_episodes(by=by, items=[(0, facts)]))
    outcome = {SOLVED: solved, SCORE: score, FINISHED: acting.finished}
    _record(by, [_on_episode(acting.episode_id, name, value) for name, value in outcome.items()])


def interrupt_episode(*, by: Actor, acting: Acting, reason: str) -> None:
    """Of one that has begun: it has no outcome, and says why."""
    assert acting.episode_id is not None
    _record(by, [_on_episode(acting.episode_id, INTERRUPTED, reason[:LONGEST])])


def _on_episode(episode: uuid.UUID, metric: str, value: bool | float | str) -> FeedbackIn:
    key = f"solve:{metric}"
    return FeedbackIn(metric=metric, value=value, episode_id=episode, source="code", idempotency_key=key)


def _record(by: Actor, told: Sequence[FeedbackIn]) -> None:
    for part in _parts(told):
        _whole(record_feedback(by=by, items=list(enumerate(part))))


def _parts(told: Sequence[FeedbackIn], most: int = 1000) -> Iterator[Sequence[FeedbackIn]]:
    return (told[start : start + most] for start in range(0, len(told), most))


def _whole(result: BatchResult) -> BatchResult:
    """Raises Conflict where something was not kept: it was erased since, or another repeat says something else."""
    if result.errors:
        faults = result.errors[0].faults
        raise Conflict("The episode was changed while it was solved.", faults=faults)
    return result

"""The job that writes a run's held-out episodes into the ledger: an episode of each task by base and trained model as
they serve, with a step of each action.

They are no decisions. A decision of the ledger can be learnt from, is shown to reviewers, and counts for what acts now;
held-out tasks must never be learnt from, and nobody was served (docs/environments.md). Lists of episodes and queues
leave them out unless their session is asked for.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from decisions.ingest.batches import BatchResult
from decisions.ingest.episode_facts import record_episodes
from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import FeedbackIn
from decisions.ingest.step_schemas import EpisodeIn, StepIn
from decisions.ingest.steps import record_steps
from decisions.models.episode import HELD_OUT
from jobs.context import JobContext
from training.engine.environments.episodes import Episode
from training.environments.episodes import read_held_out
from training.models import TrainingRun
from workspaces.access.actors import Actor, system
from workspaces.storage.ids import uuid7_of

KIND = "training.record_episodes"
AT_ONCE = 100
"""Episodes of one batch; each has some steps."""
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Acted:
    """An episode of a run by the base or the trained model, which `model` names."""

    which: str
    model: str
    episode: Episode

    def name_in(self, run: TrainingRun) -> str:
        """Unique at the agent, and the same when the job runs again."""
        return f"{run.id}/{self.which}/{self.episode.task}"[:LONGEST_NAME]


def session_of(run: TrainingRun) -> str:
    """What all episodes of the run share."""
    return f"{HELD_OUT}{run.id}"


def record_held_out_episodes(context: JobContext) -> dict[str, Any] | None:
    """Idempotent: what was written already is found again by its ids. Episodes with a fault are left out: they say
    nothing about the model."""
    run = TrainingRun.objects.select_related(
        "agent", "workspace", "base_version__registered_model", "produced_version__registered_model"
    ).get(id=context.payload["run"])
    acted = list(_list_acted(run))
    by, written = system(run.workspace), 0
    for start in range(0, len(acted), AT_ONCE):
        context.check_owned()
        written += _record(by, run, acted[start : start + AT_ONCE])
        context.progress(written / len(acted), f"{written} of {len(acted)} episodes")
    return {"episodes": written, "left_out": len(acted) - written}


def _list_acted(run: TrainingRun) -> Iterator[Acted]:
    base, trained = str(run.base_version or run.base_model), str(run.produced_version)
    for task in read_held_out(run, "serving") or ():
        for which, model, episode in (("base", base, task.base), ("trained", trained, task.trained)):
            if episode is not None and episode.fault is None:
                yield Acted(which, model, episode)


def _record(by: Actor, run: TrainingRun, acted: Sequence[Acted]) -> int:
    """How many episodes were written."""
    moment = run.finished_at or run.created_at
    agent = run.agent.slug
    episodes = record_episodes(by=by, items=[(n, _as_episode(agent, run, one, moment)) for n, one in enumerate(acted)])
    kept = {one.index: one.id for one in episodes.kept}
    steps = [
        step for n, one in enumerate(acted) if n in kept for step in _as_steps(agent, one, one.name_in(run), moment)
    ]
    _raise_faults(record_steps(by=by, items=list(enumerate(steps))))
    told = [
        FeedbackIn(
            metric=metric,
            value=value,
            episode_id=pk,
            source="code",
            observed_at=moment,
            idempotency_key=f"held-out/{pk}/{metric}",
        )
        for n, pk in kept.items()
        for metric, value in (("score", acted[n].episode.score), ("reward", acted[n].episode.total_reward))
    ]
    _raise_faults(record_feedback(by=by, items=list(enumerate(told))))
    return len(kept)


def _raise_faults(result: BatchResult) -> None:
    """What we write ourselves is sound, or the job fails and says why."""
    if result.errors:
        faults = "; ".join(f"{one.field}: {one.reason}" for one in result.errors[0].faults)
        raise ValueError(f"{len(result.errors)} rows were refused, the first for {faults or result.errors[0].code}")


def _as_episode(agent: str, run: TrainingRun, one: Acted, moment: dt.datetime) -> EpisodeIn:
    episode = one.episode
    return EpisodeIn(
        agent=agent,
        episode=one.name_in(run),
        session=session_of(run),
        query=episode.problem,
        final_response=episode.trajectory[-1].action if episode.trajectory else "",
        tasks_created=1,
        tasks_completed=int(episode.success),
        tasks_failed=int(not episode.success),
        started_at=moment,
        ended_at=moment,
    )


def _as_steps(agent: str, one: Acted, name: str, moment: dt.datetime) -> Iterator[StepIn]:
    """State and options as arguments, what came of the action as the result. `confidence` is its probability among
    those on offer."""
    for number, step in enumerate(one.episode.trajectory, start=1):
        yield StepIn(
            kind="tool_call",
            agent=agent,
            episode=name,
            id=uuid7_of(moment, f"{name}/{number}".encode()),
            number=number,
            name=step.action[:LONGEST_NAME],
            arguments={"state": step.state, "options": list(step.options), "action": step.action},
            result={"next_state": step.next_state, "reward": step.reward},
            success=step.error is None,
            error=step.error or "",
            confidence=min(1.0, math.exp(step.log_p)) if step.log_p is not None else None,
            model=one.model,
            started_at=moment,
            attributes={"log_p": step.log_p, "weights_hash": one.episode.weights_hash, "seed": one.episode.seed},
        )

"""What base and trained model did on a run's held-out tasks, read from the attempt's files when somebody looks.

The engine leaves `heldout_episodes.jsonl` in its attempt's folder. Without the folder there is nothing to show here;
scores and intervals are in the database.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from django.conf import settings

from models_registry.models import ModelVersion
from training.engine.environments.episodes import Episode, Step
from training.evaluation.predictions import find_result_file
from training.models import TrainingRun

MAX_BYTES = 64_000_000
SHOWN_OPTIONS = 40
"""Of the actions that were on offer in a step, so many are shown."""
SOLVED: Mapping[str, str] = {
    "solved": "Solved",
    "unsolved": "Not solved",
    "gained": "Solved now, not before",
    "lost": "Solved before, not now",
    "failed": "Environment failed",
}
"""What a list of held-out tasks can be narrowed to, by the trained model's episode."""


POLICIES: Mapping[str, str] = {"serving": "As it serves", "greedy": "Greedily"}
"""How a model acted: with the exploration that it serves with, or always by the likeliest action."""


class ActedEpisode(Episode, frozen=True, kw_only=True):
    """A line of the file: which `model` acted, base or trained, and by which of POLICIES. An older engine acted as it
    serves alone."""

    model: str
    policy: str = "serving"


@dataclass(frozen=True, slots=True)
class HeldOutTask:
    """A task with what the base and the trained model did; None for a model that did not act. `place` counts from 1 in
    the order of the held-out rows."""

    place: int
    base: Episode | None
    trained: Episode | None

    @property
    def any(self) -> Episode:
        found = self.trained or self.base
        assert found is not None
        return found

    @property
    def failed(self) -> bool:
        return any(one is not None and one.fault is not None for one in (self.base, self.trained))

    def fits(self, wanted: str) -> bool:
        """Whether it belongs to the part of this name (SOLVED); to "" all do."""
        now, before = (one is not None and one.success for one in (self.trained, self.base))
        told = {
            "": True,
            "solved": now,
            "unsolved": not now and not self.failed,
            "gained": now and not before and not self.failed,
            "lost": before and not now and not self.failed,
            "failed": self.failed,
        }
        return bool(told[wanted])


def read_held_out(run: TrainingRun, policy: str = "serving") -> list[HeldOutTask] | None:
    """What was done by this policy, in the order of the held-out rows. None where there is no complete attempt with
    episodes, or its file is too large to read while somebody waits."""
    path = find_result_file(settings.RUNS / str(run.id), "episodes")
    if path is None or path.stat().st_size > MAX_BYTES:
        return None
    decoder = msgspec.json.Decoder(ActedEpisode)
    by_task: dict[str, dict[str, ActedEpisode]] = {}
    with path.open("rb") as lines:
        for line in lines:
            if line.strip():
                episode = decoder.decode(line)
                if episode.policy != policy:
                    continue
                by_task.setdefault(episode.task, {})[episode.model] = episode
    return [
        HeldOutTask(place, told.get("base"), told.get("trained"))
        for place, told in enumerate(by_task.values(), start=1)
    ]


def find_actor(episode: Episode, version: ModelVersion | None) -> ModelVersion | None:
    """The version, if its weights are those that acted in the episode."""
    acted = episode.weights_hash
    return version if version is not None and acted is not None and version.acting_sha256 == acted else None


@dataclass(frozen=True, slots=True)
class ShownStep:
    """`probability` of the action among those on offer, in [0, 1]; None where nobody told it. `others`: the rest of
    what was on offer, at most SHOWN_OPTIONS; `more`: how many there were besides."""

    number: int
    step: Step
    probability: float | None
    others: Sequence[str]
    more: int


def show_steps(episode: Episode) -> Iterator[ShownStep]:
    """In their order, numbered from 1."""
    for number, step in enumerate(episode.trajectory, start=1):
        others = [option for option in step.options if option != step.action]
        probability = math.exp(step.log_p) if step.log_p is not None else None
        yield ShownStep(
            number,
            step,
            min(1.0, probability) if probability is not None else None,
            others[:SHOWN_OPTIONS],
            max(0, len(others) - SHOWN_OPTIONS),
        )

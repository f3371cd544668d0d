"""One episode under way: its environment, what is asked at each step, and what came of it."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.utils import timezone
from msgspec import UNSET

from decisions.gateway.answers import Answer
from decisions.ingest.schemas import DecideItem
from training.engine.environments.protocol import BaseEnvironment, EnvironmentFault
from training.environments.solving.guarding import guarded
from training.environments.solving.problems import Problem
from training.errors import EnvironmentFailed
from workspaces.errors import FieldFault, InvalidInput, ReckonerError
from workspaces.storage.ids import uuid7
from workspaces.storage.storable import is_storable


@dataclass(frozen=True, slots=True)
class SolvedStep:
    """One action. `observation` is what the agent read before it, `next_observation` after it. `probability` in (0, 1]
    is that of the action under the policy that acted, `confidence` the model's own. Where one action alone was valid it
    was taken unasked: there is no decision and no model then. `error`: why the environment did not take it."""

    observation: str
    action: str
    probability: float
    reward: float
    next_observation: str
    decision_id: uuid.UUID | None = None
    confidence: float | None = None
    model_version: str | None = None
    error: str | None = None


class Consequence(NamedTuple):
    """What the step of a decision earned, in the environment's unit, and the state right after it."""

    decision: uuid.UUID
    reward: float
    next_state: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Solution:
    """An episode that ended. `total_reward` is in the environment's unit, `score` in [0, 1]. `finished`: it ended
    before the limit of steps. `latency_ms`: from the request to its end, the wait for problems beside it included."""

    problem: Problem
    trajectory: tuple[SolvedStep, ...]
    success: bool
    score: float
    finished: bool
    episode_id: uuid.UUID
    cached: bool
    latency_ms: float

    @property
    def total_reward(self) -> float:
        return math.fsum(step.reward for step in self.trajectory)

    @property
    def progress(self) -> float:
        """Share of the steps that earned something, in [0, 1]."""
        return sum(step.reward > 0 for step in self.trajectory) / max(1, len(self.trajectory))


class Acting:
    """An episode from its reset on. `made`: the id of its `number`-th thing, for a request that may be repeated: number
    0 names the episode, and n its n-th decision. `failure`: why it ended before its end.

    An environment is code of a package: whatever it raises fails this episode alone, as EnvironmentFailed.
    """

    def __init__(self, place: int, problem: Problem, made: Callable[[int], uuid.UUID] | None = None) -> None:
        """Raises InvalidInput for facts that cannot be used, EnvironmentFailed. `started`: seconds, monotonic."""
        self.place, self.problem = place, problem
        self.started, self.started_at = time.perf_counter(), timezone.now()
        self.name = f"solve:{made(0) if made else uuid7()}"
        self.made = made
        self.trajectory: list[SolvedStep] = []
        self.recorded = 0
        self.decided = 0
        self.episode_id: uuid.UUID | None = None
        self.failure: ReckonerError | None = None
        self.cached = False
        self.environment: BaseEnvironment
        with guarded(problem.task.environment):
            self.environment = problem.environment()
            try:
                self.observation = self._checked(self.environment.reset(problem.task, problem.seed))
            except ValueError as error:
                fault = FieldFault("problem", str(error), f"facts of {problem.task.environment}")
                raise InvalidInput("The problem cannot be used.", faults=[fault]) from error
            self._take_forced()

    @property
    def over(self) -> bool:
        return self.failure is not None or self._ended

    @property
    def _ended(self) -> bool:
        return self.environment.done or self.environment.steps >= self.problem.max_steps

    @property
    def unit(self) -> str:
        return self.problem.unit or self.name

    @property
    def first_decision(self) -> uuid.UUID | None:
        """The id that a repeated request finds its first decision by; None of a request that is not claimed."""
        return self.made(1) if self.made else None

    def next_item(self) -> DecideItem:
        """What the agent is asked now; it must not be over."""
        task, number = self.problem.task, self.decided + 1
        return DecideItem(
            state=self.state,
            options=list(self.environment.get_valid_actions()),
            unit=self.unit,
            episode=self.name,
            step_number=len(self.trajectory) + 1,
            item_ref=task.id[:200],
            user_ref=self.problem.user_ref,
            id=self.made(number) if self.made else UNSET,
        )

    @property
    def state(self) -> dict[str, Any]:
        """Of the decision: what prompt templates name."""
        return self._state_of(self.observation)

    def _state_of(self, observation: str) -> dict[str, Any]:
        task = self.problem.task
        return {
            "environment": task.environment,
            "domain": task.domain,
            "task": task.text,
            "observation": observation,
        }

    def take_answer(self, answer: Answer) -> None:
        """The step of a decision. Sets the failure where the environment fails on it."""
        assert answer.propensity is not None  # of a choice it is known
        self.decided += 1
        try:
            self.take(
                answer.action,
                probability=answer.propensity,
                decision_id=answer.decision_id,
                confidence=answer.confidence,
                model_version=str(answer.model_version),
            )
        except EnvironmentFailed as failed:
            self.failure = failed

    def take(self, action: str, **known: Any) -> None:
        """A step of an action that was decided, and the forced ones after it. Raises EnvironmentFailed."""
        with guarded(self.problem.task.environment):
            self._step(action, known)
            self._take_forced()

    def _take_forced(self) -> None:
        """Takes what needs no decision: where one action alone is valid."""
        while not self._ended and len(valid := self.environment.get_valid_actions()) < 2:
            if not valid:
                raise EnvironmentFault("it is not over, but offers no action")
            self._step(valid[0], {"probability": 1.0})

    def _step(self, action: str, known: Mapping[str, Any]) -> None:
        before = self.observation
        result = self.environment.step(action)
        reward = float(result.reward)
        if not math.isfinite(reward):
            raise EnvironmentFault(f"the reward {reward} is not a number")
        self.observation = self._checked(result.observation)
        error = result.info.get("error")
        step = SolvedStep(
            observation=before,
            action=action,
            reward=reward,
            next_observation=self.observation,
            error=None if error is None else str(error),
            **known,
        )
        self.trajectory.append(step)

    def _checked(self, observation: str) -> str:
        if not is_storable(observation) or not all(is_storable(one) for one in self.environment.get_valid_actions()):
            raise EnvironmentFault("its observation cannot be stored")
        return observation

    def measure(self) -> tuple[bool, float] | None:
        """Whether it is solved, and its score; None, with the failure set, where the grader fails."""
        try:
            with guarded(self.problem.task.environment):
                solved, score = self.environment.solved, float(self.environment.score)
                if not 0 <= score <= 1:
                    raise EnvironmentFault(f"the score {score} is not in [0, 1]")
                return solved, score
        except EnvironmentFailed as failed:
            self.failure = failed
            return None

    def take_unrecorded(self) -> list[Consequence]:
        """What followed from decisions, each once."""
        new, self.recorded = self.trajectory[self.recorded :], len(self.trajectory)
        return [
            Consequence(step.decision_id, step.reward, self._state_of(step.next_observation))
            for step in new
            if step.decision_id is not None
        ]

    def as_solution(self, solved: bool, score: float) -> Solution:
        """Of an episode that has begun and ended."""
        assert self.episode_id is not None
        return Solution(
            problem=self.problem,
            trajectory=tuple(self.trajectory),
            success=solved,
            score=score,
            finished=self.finished,
            episode_id=self.episode_id,
            cached=self.cached,
            latency_ms=self.latency_ms,
        )

    @property
    def finished(self) -> bool:
        return self.environment.steps < self.problem.max_steps

    @property
    def latency_ms(self) -> float:
        return (time.perf_counter() - self.started) * 1000

    def close(self) -> None:
        try:
            with guarded(self.problem.task.environment):
                self.environment.close()
        except EnvironmentFailed:  # logged; what it did is recorded, and says as much as before
            return

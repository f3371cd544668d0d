"""Lets an agent act in environments, many episodes in lock-step: every round is one `decide` for all of them.

    problem → task → reset → [ state → decide → action → step → reward as feedback ]* → outcome as feedback

So the model server sees the steps of all episodes at the same time, those of one environment and template beside each
other. Each step is a decision like any other: champion, experiments, exploration, limits and budgets are `decide`'s. An
episode fails by itself. What was decided before it failed stays recorded, and the failure names its episode.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils import timezone

from decisions.agents.caching import takes_options
from decisions.agents.current import CurrentAgent, get_current_agent
from decisions.errors import Erased, IdConflict
from decisions.gateway.answers import Answer
from decisions.gateway.decide import decide
from decisions.models import Decision
from models_registry.calls.key_limits import refuse_over_limits
from models_registry.errors import BackendRefused
from models_registry.models import Call
from training.environments.solving.acting import Acting, Solution
from training.environments.solving.problems import MOST_STEPS, SolveIn, read_problem
from training.environments.solving.recalling import Standing, find_standing, keep_episode, recall_episode
from training.environments.solving.recording import begin_episodes, end_episode, interrupt_episode, record_consequences
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput, ReckonerError
from workspaces.http.idempotency import made_id

MOST_PROBLEMS = 32
OWN = (InvalidInput, BackendRefused, IdConflict, Erased)
"""What one question may be refused with while those beside it are fine."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a problem has no solution. `decided`: decisions that are recorded in the episode, which has no id without
    any."""

    error: ReckonerError
    episode_id: uuid.UUID | None = None
    decided: int = 0

    @property
    def message(self) -> str:
        if self.episode_id is None:
            return self.error.message
        steps = "1 step is" if self.decided == 1 else f"{self.decided} steps are"
        return f"{self.error.message} {steps} recorded in the episode {self.episode_id}, which has no outcome."


def solve(
    *, by: Actor, agent: str, items: Mapping[int, SolveIn], claim: uuid.UUID | None = None, anew: bool = False
) -> dict[int, Solution | Failure]:
    """By the items' keys: each solved or failed by itself. `claim`: of a request that may be repeated
    (`workspaces.http.idempotency`); a repeat goes through what was decided already. `anew`: no cached episode will do.

    Raises, for all of them, UnknownAgent, AgentNotAllowed, BudgetSpent, NoChampion, and InvalidInput for an agent that
    does not take options with each decision.
    """
    current = get_current_agent(by, agent)
    refuse_over_limits(by=by, agent=agent, now=timezone.now())
    if not takes_options(current.version):
        reason = f"{current.version} does not take options with each decision, but the options of an environment change"
        fault = FieldFault("agent", reason, "an agent that chooses, with options: null")
        raise InvalidInput("This agent cannot act in an environment.", faults=[fault])
    return _Request(by, current, claim, anew).solve(items)


class _Request:
    """The problems of one request."""

    def __init__(self, by: Actor, current: CurrentAgent, claim: uuid.UUID | None, anew: bool) -> None:
        self.by, self.current, self.slug = by, current, current.agent.slug
        self.claim, self.anew = claim, anew
        self.running: list[Acting] = []
        self.standings: dict[int, Standing] = {}

    def solve(self, items: Mapping[int, SolveIn]) -> dict[int, Solution | Failure]:
        outcomes: dict[int, Solution | Failure] = {}
        try:
            for place, item in items.items():
                try:
                    self.running.append(self._begin(place, item))
                except ReckonerError as error:
                    outcomes[place] = Failure(error)
            self.running.sort(key=lambda one: one.problem.alike)
            self._recall(self._mark_repeated())
            while acting := [one for one in self.running if not one.over]:
                # Greedy steps and drawn ones are different questions.
                for greedy in (False, True):
                    if alike := [one for one in acting if one.problem.greedy is greedy]:
                        self._take_steps(alike, self._ask(alike, greedy=greedy))
            return outcomes | {one.place: self._end(one) for one in self.running}
        finally:
            for one in self.running:
                one.close()

    def _begin(self, place: int, item: SolveIn) -> Acting:
        """Raises InvalidInput, EnvironmentFailed."""
        claim = self.claim
        made = None if claim is None else lambda number: made_id(claim, place * 2 * MOST_STEPS + number)
        return Acting(place, read_problem(item), made)

    def _mark_repeated(self) -> set[int]:
        """The places that an earlier request with the same claim began: those are not looked for in the cache."""
        first = {one.first_decision: one for one in self.running if one.first_decision is not None}
        if not first:
            return set()
        known = Decision.objects.filter(workspace_id=self.by.workspace.id, id__in=first).values_list("id", flat=True)
        begun = set(known)
        for row in Call.objects.filter(id__in=begun, cached=True).values_list("id", flat=True):
            first[row].cached = True
        return {first[row].place for row in begun}

    def _recall(self, repeated: set[int]) -> None:
        again: list[Acting] = []
        for number, one in enumerate(self.running):
            standing = None
            if one.place not in repeated:
                standing = find_standing(by=self.by, current=self.current, acting=one)
            if standing is None:
                continue
            self.standings[one.place] = standing
            found = None
            if not self.anew:
                found = recall_episode(by=self.by, current=self.current, acting=one, standing=standing)
            if found is not None:
                one.close()
                self.running[number] = found
                again.append(found)
        begin_episodes(by=self.by, agent=self.slug, acting=again)
        self._reward(again)

    def _ask(self, acting: Sequence[Acting], *, greedy: bool) -> list[Answer | None]:
        """An answer for each; None, with its failure set, where there is none."""
        items = [one.next_item() for one in acting]
        try:
            return list(decide(by=self.by, agent=self.slug, items=items, greedy=greedy))
        except ReckonerError as error:
            if isinstance(error, OWN) and len(acting) > 1:
                return [answer for one in acting for answer in self._ask([one], greedy=greedy)]
            for one in acting:
                one.failure = error
            return [None] * len(acting)

    def _take_steps(self, acting: Sequence[Acting], answers: Sequence[Answer | None]) -> None:
        answered = [(one, answer) for one, answer in zip(acting, answers, strict=True) if answer is not None]
        begin_episodes(by=self.by, agent=self.slug, acting=[one for one, _ in answered if one.episode_id is None])
        for one, answer in answered:
            one.take_answer(answer)
        self._reward([one for one, _ in answered])

    def _reward(self, acting: Sequence[Acting]) -> None:
        record_consequences(by=self.by, consequences=[told for one in acting for told in one.take_unrecorded()])

    def _end(self, one: Acting) -> Solution | Failure:
        measured = one.measure() if one.failure is None else None
        if measured is None:
            assert one.failure is not None
            if one.episode_id is not None:
                interrupt_episode(by=self.by, acting=one, reason=one.failure.code)
            return Failure(one.failure, one.episode_id, one.decided)
        if one.episode_id is None:  # every action of it was the only one
            begin_episodes(by=self.by, agent=self.slug, acting=[one])
        solution = one.as_solution(*measured)
        end_episode(by=self.by, agent=self.slug, acting=one, solved=solution.success, score=solution.score)
        if one.place in self.standings and not one.cached:
            keep_episode(standing=self.standings[one.place], current=self.current, acting=one)
        return solution

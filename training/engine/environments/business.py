"""A business decision: which of three offers to take, within a budget. No torch.

The work has the steps of the craft: look at the budget, calculate what each offer returns, look at the risk of the one
that leads, decide. An offer's expected return is (years · yearly gain · (1 − risk) − cost) / cost. Right is the offer
with the highest one among those that the budget allows. Paid once each: 0.5 for the budget, 0.5 for each calculation,
0.5 for the risk of the offer that leads among those calculated, and 3 for the right decision, which ends the episode.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import ClassVar, NamedTuple

from training.engine.environments.protocol import BaseEnvironment, Checkpoint
from training.engine.environments.tasks import Split, Task

LOOKED, CALCULATED, WEIGHED, DECIDED = 0.5, 0.5, 0.5, 3.0
NAMES = ("A", "B", "C")
PROJECTS = ("a new oven", "a delivery van", "an online shop", "a second till", "solar panels", "a coffee machine")
YEARS = 4


class Offer(NamedTuple):
    """`cost` and `gain` a year in thousands; `risk` in tenths that nothing is gained."""

    cost: int
    gain: int
    risk: int

    @property
    def expected_return(self) -> float:
        return (YEARS * self.gain * (10 - self.risk) / 10 - self.cost) / self.cost


class Business(BaseEnvironment):
    """One decision. The numbers are told step by step, as they are asked for."""

    name: ClassVar[str] = "business"
    does: ClassVar[str] = "A decision among three offers by budget, expected return and risk."
    max_steps: ClassVar[int] = 8
    judged: ClassVar[str] = "judgement"
    most_reward: ClassVar[float] = LOOKED + 3 * CALCULATED + WEIGHED + DECIDED

    offers: dict[str, Offer]
    budget: int
    known: list[str]
    paid: set[str]
    decision: str | None

    @classmethod
    def draw_task(cls, number: int, split: Split) -> Task:
        rng = random.Random(f"business/{split}/{number}")  # noqa: S311 - reproducible
        level = number % 3 + 1
        while True:
            offers = [Offer(rng.randint(10, 60), rng.randint(8, 30), rng.randint(0, 5)) for _ in NAMES]
            returns = sorted(offer.expected_return for offer in offers)
            ranked = sorted(offers, key=lambda offer: offer.expected_return)
            budget = rng.randint(max(offer.cost for offer in offers), 70)
            if level > 1:  # the best return cannot be afforded
                budget = ranked[-1].cost - 1
            affordable = [offer for offer in ranked if offer.cost <= budget]
            close = min(b - a for a, b in pairwise(returns)) < (0.02 if level == 3 else 0.1)
            if affordable and not close:
                break
        project = rng.choice(PROJECTS)
        return Task(
            id=f"business-{split}-{number}",
            environment=cls.name,
            text=f"Choose an offer for {project}",
            facts={"budget": budget, "offers": [list(offer) for offer in offers]},
            domain="business",
            template=("enough for all", "not enough for the best", "close")[level - 1],
            level=level,
        )

    def begin(self) -> None:
        try:
            given = [Offer(*map(int, offer)) for offer in self.task.facts["offers"]]
            self.budget = int(self.task.facts["budget"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"task {self.task.id}: facts: budget and three offers of cost, gain, risk") from error
        if len(given) != len(NAMES) or any(offer.cost < 1 or not 0 <= offer.risk <= 10 for offer in given):
            raise ValueError(f"task {self.task.id}: facts.offers: three, each with a cost from 1 and a risk of 0 to 10")
        self.offers = dict(zip(NAMES, given, strict=True))
        if not self._affordable():
            raise ValueError(f"task {self.task.id}: facts.budget: allows none of the offers")
        self.known, self.paid, self.decision = [], set(), None

    def observe(self) -> str:
        return f"{self.task.text}. {'. '.join(self.known) or 'Nothing is known'}."

    def list_actions(self) -> tuple[str, ...]:
        offered = ["analyse budget"]
        for name in NAMES:
            offered += [f"calculate {name}", f"risk {name}", f"decide {name}"]
        self.random.shuffle(offered)
        return tuple(offered)

    def act(self, action: str) -> float:
        word, _, name = action.partition(" ")
        if word == "decide":
            self.decision, self.done = name, True
            return DECIDED if self.solved else 0.0
        if action in self.paid:
            return 0.0
        if word == "analyse":
            self.known.append(f"Affordable: {' '.join(self._affordable())}")
            return self._pay(action, LOOKED)
        offer = self.offers[name]
        if word == "calculate":
            self.known.append(f"{name} returns {offer.expected_return:.0%}")
            return self._pay(action, CALCULATED)
        self.known.append(f"{name} fails in {offer.risk} of 10")
        return self._pay(action, WEIGHED if name == self._leader() else 0.0)

    def checkpoints(self) -> list[Checkpoint]:
        return [Checkpoint("the best offer within the budget is chosen", 1, self.decision == self._best())]

    def components(self) -> dict[str, float | None]:
        """Of the decision; None before one. `feasibility`: it can be afforded. `roi`: its expected return against the
        best and the worst of the three. `risk`: the chance that it succeeds. `judgement` only a judge can say."""
        if self.decision is None:
            return {"feasibility": None, "roi": None, "risk": None, "judgement": None}
        offer = self.offers[self.decision]
        returns = [one.expected_return for one in self.offers.values()]
        spread = max(returns) - min(returns)
        return {
            "feasibility": float(self.decision in self._affordable()),
            "roi": (offer.expected_return - min(returns)) / spread if spread else 1.0,
            "risk": 1 - offer.risk / 10,
            "judgement": None,
        }

    def show_work(self) -> str:
        """The offers, what was looked at, and the decision; empty before one."""
        if self.decision is None:
            return ""
        offers = [
            f"Offer {name} costs {one.cost}, gains {one.gain} a year for {YEARS} years, and fails in {one.risk} of 10."
            for name, one in self.offers.items()
        ]
        return f"Budget: {self.budget}. {' '.join(offers)} Looked at: {'. '.join(self.known)}. Taken: {self.decision}."

    def find_expert_action(self) -> str | None:
        for action in ("analyse budget", *(f"calculate {name}" for name in NAMES)):
            if action not in self.paid:
                return action
        leader = self._leader()
        return f"risk {leader}" if f"risk {leader}" not in self.paid else f"decide {self._best()}"

    def _affordable(self) -> list[str]:
        return [name for name, offer in self.offers.items() if offer.cost <= self.budget]

    def _best(self) -> str:
        return max(self._affordable(), key=lambda name: self.offers[name].expected_return)

    def _leader(self) -> str | None:
        """The best of what is calculated and affordable."""
        calculated = [name for name in self._affordable() if f"calculate {name}" in self.paid]
        return max(calculated, key=lambda name: self.offers[name].expected_return, default=None)

    def _pay(self, action: str, worth: float) -> float:
        self.paid.add(action)
        return worth

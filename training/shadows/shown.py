"""A shadow as its page and the API show it: the sentence on top, the charts, the latest disagreements."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from decisions.labelling.wording import text_of
from decisions.models import Decision, Reward, Shadow, ShadowAnswer, ShadowPoint, ShadowState, ShadowThen
from decisions.rewards.specs import current_reward_spec
from workspaces.templatetags.show import percent, signed

DISAGREEMENTS = 10


@dataclass(frozen=True, slots=True)
class Headline:
    """What is known, in a plain sentence, and what to do or what it waits for."""

    says: str
    because: str
    tone: str
    icon: str


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A decision of which the candidate would have made another: `reward` of what was done, None while unknown.
    `about`: the state's texts. `probability` of the pick and `probability_of_action` are those of that moment, of a
    ranking for the first item of each; None of what is written."""

    decision: uuid.UUID
    about: str
    action: Any
    reward: float | None
    pick: Any
    probability: float | None
    probability_of_action: float | None
    answered_at: Any


def write_sentence(shadow: Shadow, newest: Sequence[ShadowPoint]) -> Headline:
    """`newest`: the last point, or nothing."""
    point = newest[0] if newest else None
    version = str(shadow.version)
    if shadow.state == ShadowState.CANARY:
        says = f"{version} earned its canary: it now meets a few users in an experiment."
        return Headline(says, shadow.enough_says, "ok", "circle-check")
    if shadow.enough_at is not None:
        says = f"{version} would probably earn more than what decides now."
        if shadow.waits:
            return Headline(says, f"The canary has not opened: {shadow.waits}", "warn", "triangle-alert")
        todo = "A canary opens with the next round." if shadow.then == ShadowThen.CANARY else "Try it in an experiment."
        return Headline(says, todo if shadow.state == ShadowState.RUNNING else "", "ok", "circle-check")
    if point is None:
        says = f"{version} has not answered any decision yet."
        over = shadow.state != ShadowState.RUNNING
        because = shadow.end_reason if over else "It is asked about decisions that are recorded from now on."
        return Headline(says, because, "", "hourglass")
    says = f"{version} agrees with {percent(point.agreement)} of the decisions"
    if point.agreement is None:
        return Headline(
            f"{version} could not answer any of {point.failed:,} decisions.",
            "The answers below say why.",
            "bad",
            "circle-alert",
        )
    if point.estimate is None and point.refusals:
        return Headline(f"{says}. What it would earn is not estimated.", point.refusals[0], "", "hourglass")
    if point.estimate is None:
        return Headline(f"{says}. What it would earn is not known yet.", _lacks(shadow, point), "", "hourglass")
    change = f"{signed(point.estimate)} [{signed(point.low)}, {signed(point.high)}]"
    if point.refusals:
        return Headline(f"{says}. This log does not say what it would earn.", point.refusals[0], "", "hourglass")
    if (point.high or 0.0) < 0:
        return Headline(f"{says}, and would probably earn less: {change}.", "Train it further.", "bad", "circle-alert")
    return Headline(f"{says}. It would change the reward by {change}.", _lacks(shadow, point), "", "hourglass")


def _lacks(shadow: Shadow, point: ShadowPoint) -> str:
    """What it waits for."""
    if shadow.state != ShadowState.RUNNING:
        return f"It ended: {shadow.end_reason}"
    if point.rewarded < shadow.min_decisions:
        return f"{point.rewarded:,} of {shadow.min_decisions:,} decisions have a reward by which it can be judged."
    return f"It is judged again at {shadow.min_decisions * 2**shadow.looks:,} answers."


def draw_charts(points: Sequence[ShadowPoint]) -> dict[str, Any]:
    """Two figures for charts.js, by the number of answers; oldest first."""
    kept = [point for point in points if point.agreement is not None]
    x = {"label": "answers", "whole": True, "values": [point.answered for point in kept]}
    marks = [{"label": f"look {point.look}", "x": point.answered} for point in kept if point.look is not None]
    agreement = {
        "title": "Agreement",
        "help": "The share of decisions in which the candidate would do the same; of rankings, put it first.",
        "x": x,
        "y": {"label": "share", "min": 0, "max": 1, "decimals": 2},
        "series": [
            {
                "label": "agreement",
                "values": [point.agreement for point in kept],
                "low": [point.agreement_low for point in kept],
                "high": [point.agreement_high for point in kept],
            }
        ],
    }
    difference = {
        "title": "Difference in reward",
        "help": "Doubly robust estimate of what the candidate would earn, minus what was earned; 95% interval.",
        "x": x,
        "y": {"label": "reward", "decimals": 2},
        "series": [
            {
                "label": "candidate − log",
                "values": [point.estimate for point in kept],
                "low": [point.low for point in kept],
                "high": [point.high for point in kept],
            }
        ],
        "lines": [{"label": "no difference", "y": 0}],
        "marks": marks,
    }
    told = any(point.estimate is not None for point in kept)
    return {"figures": [agreement, difference] if told else [agreement], "terminal": True}


def list_disagreements(shadow: Shadow) -> list[Disagreement]:
    """The latest, newest first. Three statements."""
    answers = list(shadow.answers.filter(agrees=False).order_by("-id")[:DISAGREEMENTS])
    decisions = Decision.objects.in_bulk([answer.decision_id for answer in answers])
    spec = current_reward_spec(shadow.agent)
    rewards: dict[uuid.UUID, float | None] = {}
    found = Reward.objects.filter(decision__in=list(decisions), spec=spec).order_by("version")
    for decision, value in found.values_list("decision_id", "value"):
        rewards[decision] = value
    return [
        Disagreement(
            decision=answer.decision_id,
            about=text_of(decisions[answer.decision_id].state),
            action=decisions[answer.decision_id].action,
            reward=rewards.get(answer.decision_id),
            pick=answer.pick,
            probability=max(answer.probabilities) if answer.probabilities else None,
            probability_of_action=answer.probabilities[answer.place] if answer.probabilities else None,
            answered_at=answer.answered_at,
        )
        for answer in answers
        if answer.decision_id in decisions
    ]


def list_failures(shadow: Shadow) -> list[ShadowAnswer]:
    """The latest decisions that it could not answer."""
    return list(shadow.answers.exclude(error="").order_by("-id")[:DISAGREEMENTS])

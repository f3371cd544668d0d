"""Choices: one of the options, or one of the actions that a structured agent's schema allows.

The model scores every option; the action is drawn from its probabilities after temperature and exploration.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from decisions.agents.choices import action_of, choices_of
from decisions.agents.current import CurrentAgent
from decisions.agents.prompts import PromptError, make_prompt
from decisions.gateway.exploration import acting_policy, draw_action, exploration_share, greedy_policy
from decisions.gateway.requests import DrawnAction, ModelReply, Rendering, ScoringPrompt, fault_of
from decisions.ingest.schemas import DecideItem
from decisions.models import ActionSpaceKind, AgentVersion
from workspaces.errors import FieldFault

Policy = Callable[[AgentVersion, Sequence[float]], tuple[float, ...]]
"""What acts, from the model's probabilities."""


def render(current: CurrentAgent, item: DecideItem) -> Rendering:
    """A `ways.Render`."""
    options, faults = _find_options(current.version, item)
    if options is None:
        return Rendering(None, faults)
    try:
        prompt = make_prompt(current.version, item.state, options)
    except PromptError as error:
        return Rendering(None, [*faults, fault_of(error)])
    return Rendering(ScoringPrompt(options, (prompt,)), faults)


def draw(reply: ModelReply, rng: random.Random) -> DrawnAction:
    """A `ways.Draw`."""
    return _draw(reply, rng, policy_of)


def draw_greedily(reply: ModelReply, rng: random.Random) -> DrawnAction:
    """A `ways.Draw`: the likeliest option, without temperature or exploration."""
    drawn = _draw(reply, rng, lambda _, probabilities: greedy_policy(probabilities))
    return replace(drawn, columns={**drawn.columns, "temperature": None, "epsilon": 0.0})


def _draw(reply: ModelReply, rng: random.Random, make_policy: Policy) -> DrawnAction:
    version, options = reply.request.current.version, reply.request.prompt.options
    assert reply.probabilities is not None
    policy = make_policy(version, reply.probabilities)
    draw, other = draw_action(policy, rng), other_policy(reply, make_policy)
    columns = {
        # Those of a structured action follow from its schema and the state.
        "options": list(options) if version.action_space == ActionSpaceKind.CHOICE else None,
        "alternatives": [
            {"action": action_of(version, option), "probability": probability}
            for option, probability in zip(options, policy, strict=True)
        ],
        "other_arm_propensity": other[draw.index] if other else None,
        **bounded_columns(version, reply.probabilities),
    }
    # A server that named an option has not said how sure it is.
    confidence = None if reply.picked else min(1.0, reply.probabilities[draw.index])
    return DrawnAction(reply, action_of(version, options[draw.index]), policy, draw.propensity, confidence, columns)


def policy_of(version: AgentVersion, probabilities: Sequence[float]) -> tuple[float, ...]:
    """What acts: the model's probabilities after the version's temperature and exploration, within its budget."""
    return acting_policy(
        probabilities,
        temperature=version.temperature,
        epsilon=version.epsilon,
        budget=version.exploration_budget,
    )


def bounded_columns(version: AgentVersion, probabilities: Sequence[float]) -> dict[str, float | None]:
    """Columns of a decision in which the budget left less exploration than the version's: `epsilon` is the share that
    it left, and no temperature alone says how the policy came about. Empty where the budget bound nothing."""
    if version.exploration_budget is None:
        return {}
    free = acting_policy(probabilities, temperature=version.temperature, epsilon=version.epsilon)
    share = exploration_share(probabilities, free, version.exploration_budget)
    return {} if share == 1.0 else {"temperature": None, "epsilon": share * version.epsilon}


def other_policy(reply: ModelReply, make_policy: Policy = policy_of) -> tuple[float, ...] | None:
    """What would act in the other arm, with that arm's temperature and exploration; None where it was not asked."""
    other = reply.request.other
    return make_policy(other.current.version, reply.other) if other is not None and reply.other else None


def offered_options(version: AgentVersion, item: DecideItem) -> tuple[tuple[str, ...] | None, list[FieldFault]]:
    """The item's options, or its version's, and their faults; None where there are none."""
    faults = []
    if version.options is not None and item.options not in (None, version.options):
        faults.append(FieldFault("options", "differ from those of the agent's version", "the same, or none"))
    options = item.options if item.options is not None else version.options
    if options is None:
        faults.append(FieldFault("options", "is missing", "options, because the agent's version has none"))
        return None, faults
    if len(options) < 2:
        faults.append(FieldFault("options", "is one option", "two or more"))
    if len(set(options)) != len(options):
        faults.append(FieldFault("options", "repeats an option", "each option once"))
    return tuple(options), faults


def _find_options(version: AgentVersion, item: DecideItem) -> tuple[tuple[str, ...] | None, list[FieldFault]]:
    """What is chosen from, and its faults; None where nothing can be."""
    if version.action_space == ActionSpaceKind.CHOICE:
        return offered_options(version, item)
    faults = []
    if item.options is not None:
        faults.append(FieldFault("options", "are given for a structured action", "none: its schema defines them"))
    choices = choices_of(version, item.state)
    if choices.options is None:
        faults.append(FieldFault("state", f"leaves nothing to choose: the action {choices.reason}"))
    return choices.options, faults

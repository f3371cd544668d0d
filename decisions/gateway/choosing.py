"""Choices: one of the options, or one of the actions that a structured agent's schema allows.

The model scores every option; the action is drawn from its probabilities after temperature and exploration.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from decisions.agents.choices import action_of, choices_of
from decisions.agents.current import CurrentAgent
from decisions.agents.prompts import make_prompt
from decisions.gateway.exploration import acting_policy, draw_action, greedy_policy
from decisions.gateway.questions import Act, Reply, Scoring, Wanted
from decisions.ingest.schemas import DecideItem
from decisions.models import ActionSpaceKind, AgentVersion
from workspaces.errors import FieldFault


def want(current: CurrentAgent, item: DecideItem, path: str, faults: list[FieldFault]) -> Wanted | None:
    """A `questions.Want`."""
    options = _find_options(current.version, item, path, faults)
    if options is None:
        return None
    prompt = make_prompt(current.version, item.state, options)
    return Wanted(options, Scoring((prompt,), options))


Policy = Callable[[AgentVersion, Sequence[float]], tuple[float, ...]]
"""What acts, from the model's probabilities."""


def act(current: CurrentAgent, reply: Reply, rng: random.Random) -> Act:
    """A `questions.Do`."""
    return _act(current, reply, rng, policy_of)


def act_greedily(current: CurrentAgent, reply: Reply, rng: random.Random) -> Act:
    """A `questions.Do`: the likeliest option, without temperature or exploration."""
    done = _act(current, reply, rng, lambda _, probabilities: greedy_policy(probabilities))
    return replace(done, columns={**done.columns, "temperature": None, "epsilon": 0.0})


def _act(current: CurrentAgent, reply: Reply, rng: random.Random, make_policy: Policy) -> Act:
    version, options = current.version, reply.question.wanted.options
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
    }
    # A server that named an option has not said how sure it is.
    confidence = None if reply.picked else min(1.0, reply.probabilities[draw.index])
    return Act(action_of(version, options[draw.index]), policy, draw.propensity, confidence, columns)


def policy_of(version: AgentVersion, probabilities: Sequence[float]) -> tuple[float, ...]:
    """What acts: the model's probabilities after the version's temperature and exploration."""
    return acting_policy(probabilities, temperature=version.temperature, epsilon=version.epsilon)


def other_policy(reply: Reply, make_policy: Policy = policy_of) -> tuple[float, ...] | None:
    """What would act in the other arm, with that arm's temperature and exploration; None where it was not asked."""
    other = reply.question.other
    return make_policy(other.current.version, reply.other) if other is not None and reply.other else None


def offered_options(
    version: AgentVersion, item: DecideItem, path: str, faults: list[FieldFault]
) -> tuple[str, ...] | None:
    """The item's options, or its version's; None, with its fault added, where they are none or unlike the version's."""
    if version.options is not None and item.options not in (None, version.options):
        faults.append(FieldFault(f"{path}options", "differ from those of the agent's version", "the same, or none"))
    options = item.options if item.options is not None else version.options
    if options is None:
        faults.append(FieldFault(f"{path}options", "is missing", "options, because the agent's version has none"))
        return None
    if len(options) < 2:
        faults.append(FieldFault(f"{path}options", "is one option", "two or more"))
    if len(set(options)) != len(options):
        faults.append(FieldFault(f"{path}options", "repeats an option", "each option once"))
    return tuple(options)


def _find_options(
    version: AgentVersion, item: DecideItem, path: str, faults: list[FieldFault]
) -> tuple[str, ...] | None:
    """What is chosen from; None, with its fault added, where nothing can be."""
    if version.action_space == ActionSpaceKind.CHOICE:
        return offered_options(version, item, path, faults)
    if item.options is not None:
        faults.append(
            FieldFault(f"{path}options", "are given for a structured action", "none: its schema defines them")
        )
    choices = choices_of(version, item.state)
    if choices.options is None:
        faults.append(FieldFault(f"{path}state", f"leaves nothing to choose: the action {choices.reason}"))
    return choices.options

"""The reward of an action that a model has just chosen, by components of a reward spec. No torch.

Methods that make fresh decisions use it in the engine, and evaluation suites outside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from decisions.rewards.components import ComponentError, Facts, read_json
from decisions.rewards.components.rules import component_of
from decisions.rewards.valuing import total
from training.engine.spec.run_spec import LEARNED, RewardComponent

KEYS = {"arguments", "name"}
"""Fields of a call of a tool in a completion."""


def read_value(completion: str) -> Any:
    """What a completion decides as a value: its JSON, or the calls of tools below its words as completions of rows have
    them (training.engine.rows.calls.as_completion); None of words alone."""
    if (whole := read_json(completion)) is not None:
        return whole
    last = read_json(completion.rpartition("\n")[2])
    is_calls = isinstance(last, list) and last and all(isinstance(one, dict) and one.keys() == KEYS for one in last)
    return last if is_calls else None


def facts_of_text(text: str, answer: str, confidence: float | None = None) -> Facts:
    """What a reward component sees of a fresh text: the value where the known answer is JSON, or calls of tools, else
    the text."""
    meant = read_value(answer)
    if meant is None:
        return Facts(action=text.strip(), answer=answer.strip(), completion=text, confidence=confidence)
    said = read_value(text)
    return Facts(action=text if said is None else said, answer=meant, completion=text, confidence=confidence)


class RewardFunction:
    """The spec's reward: the weighted sum of its components on a fresh decision.

    `source`: where the reward model is that gives the value of the component `model`; None without one. Whoever has
    torch asks it about many texts at once (training.engine.methods.learned_reward).
    """

    def __init__(self, components: Sequence[RewardComponent]) -> None:
        """Raises KeyError for a component that is not installed, InvalidRule; `find_reward_faults` looked before."""
        self._lines = []
        self.source = next((component.source for component in components if component.name == LEARNED), None)
        for component in components:
            if component.name == LEARNED:
                continue
            known = component_of(component.model_dump())
            self._lines.append((component.name, known.function, {**known.parameters, **component.parameters}))
        self._weights = {component.name: component.weight for component in components}

    def __call__(self, facts: Facts, learned: float | None = None) -> float:
        """`learned`: what the reward model gives. Raises ComponentError where a component fails or none has a value: a
        failure is never 0."""
        values: dict[str, float] = {} if learned is None else {LEARNED: learned}
        for name, function, parameters in self._lines:
            value = function(facts, parameters)
            if value is None:
                continue
            if not math.isfinite(value):
                raise ComponentError(f"{name} gave {value}, which is not a number to learn from")
            values[name] = value
        if not values:
            raise ComponentError(f"none of {', '.join(self._weights)} has a value for a new decision")
        return total(values, self._weights)

"""How far a candidate agrees with what was done, by kind of action. PURE.

`training.shadows.asking` calls it for each answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from decisions.agents.canonical import canonical
from decisions.agents.chat_actions import CHATTING
from decisions.agents.choices import Version, option_of
from decisions.rewards.components import read_json
from training.engine.spec.compared import PLAIN, Compared


def is_same_action(version: Version, one: Any, other: Any, compared: Compared = PLAIN) -> bool:
    """Whether two actions that were written are the same: JSON by its value, tool calls by their names and arguments in
    their order, whatever their ids, other texts without the space around them. What accompanies or explains a
    structured action (`compared`) does not count."""
    return _plain(version, one, compared) == _plain(version, other, compared)


def _plain(version: Version, action: Any, compared: Compared) -> str:
    if version.action_space in CHATTING and isinstance(action, list):
        return canonical([{"name": call.get("name"), "arguments": call.get("arguments")} for call in action])
    if isinstance(action, str):
        told = read_json(action)
        return action.strip() if told is None else canonical(compared.find_decided(told))
    decided = compared.find_decided(action)
    return option_of(version, decided) or canonical(decided)


def kendall_tau(probabilities: Sequence[float], places: Sequence[int]) -> float:
    """Kendall's τ between the order that was done and falling probability, from −1 to 1.

    `probabilities`: of each of K ≥ 2 options. `places`: the options in the order that was done, perhaps not all; what
    was left out stands behind them. Of the pairs of options that this order decides: those that the probabilities put
    in the same order, minus the others, divided by all. Equal probabilities decide nothing.

    Kendall, "A new measure of rank correlation", Biometrika 1938.
    """
    given = np.asarray(probabilities, np.float64)
    left = np.ones(given.size, dtype=bool)
    pairs, sum_of_signs = 0, 0.0
    for place in places:
        left[place] = False
        behind = given[left]
        pairs += behind.size
        sum_of_signs += float(np.sign(given[place] - behind).sum())
    return sum_of_signs / pairs

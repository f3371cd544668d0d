"""The reward specs that agents begin with, by kind. PURE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from decisions.rewards.components import COMPONENTS, Parameter


@dataclass(frozen=True, slots=True)
class Preset:
    """Weights by component. The sum of value · weight is clamped to ±`clamp`, then mapped from [low, high] to [0, 1].
    `unknown`: what a component without a value does to the sum (`decisions.rewards.valuing.UNKNOWN`). `parameters` by
    component, where they are not its defaults. `training_low`: the raw reward that is 0 to training; None: what a wrong
    action earns."""

    weights: Mapping[str, float]
    clamp: float = 5.0
    low: float = -2.0
    high: float = 2.0
    unknown: str = "left_out"
    parameters: Mapping[str, Mapping[str, Parameter]] = field(default_factory=dict)
    training_low: float | None = None


def own(prefix: str, *shared: str) -> Preset:
    """The shared components and all with this prefix, with the weights of the table."""
    return Preset({n: one.weight for n, one in COMPONENTS.own.items() if n in shared or n.startswith(f"{prefix}.")})


VERDICT_ONLY = Preset({"verdict": COMPONENTS["verdict"].weight})
PRESETS: Mapping[str, Preset] = {
    "FILER": own("filer", "verdict", "calibration"),
    "LIBRARIAN": own("librarian", "verdict"),
    "PRIORITIZER": own("prioritizer"),
    "STORER": own("storer", "verdict"),
    "RETRIEVER": own("retriever"),
    "GUARDRAIL": VERDICT_ONLY,
    "CUSTOM": VERDICT_ONLY,
}
"""By kind of agent. PRIORITIZER and RETRIEVER have an acceptance of their own in place of `verdict`."""
CHOOSER = Preset(
    {**VERDICT_ONLY.weights, "episode.outcome": 1.0},
    low=-4.0,
    high=4.0,
    unknown="renormalised",
    parameters={"episode.outcome": {"metric": "score"}},
    training_low=0.0,
)
"""For an agent that chooses among options given with each decision. What it does in an environment is worth the score
of the episode, what a person judged is worth the verdict, and both together their mean."""
_TRACES = own("trace").weights
_MOST = sum(_TRACES.values())
TRACES = Preset(_TRACES, clamp=_MOST, low=0.0, high=_MOST, unknown="renormalised")
"""For an agent that only sends traces: nobody has to say anything. All its components lie in [0, 1], so the reward is
the weighted mean of those that are known."""

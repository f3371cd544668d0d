"""Rewards on the scale that training reads, [0, 1], by a reward spec."""

from __future__ import annotations

from decisions.models import RewardSpec
from decisions.rewards.components import COMPONENTS, VERDICT_VALUES
from decisions.rewards.valuing import normalise, total


def reward_if(spec: RewardSpec, verdict: str) -> float:
    """What the spec gives, in [0, 1], to a decision of which only this verdict is known: by `verdict` and every
    component like `prioritizer.acceptance`, whose parameters name the verdicts. Where no component of the spec reads
    verdicts, its signal decides: right for confirmed, wrong for corrected."""
    values: dict[str, float] = {}
    for component in spec.components:
        known = COMPONENTS.get(component["name"])
        if known is None:
            continue
        parameters = {**known.parameters, **component.get("parameters", {})}
        if component["name"] == "verdict":
            values["verdict"] = VERDICT_VALUES[verdict]
        elif known.metrics == ("verdict",) and verdict in parameters:
            values[component["name"]] = float(parameters[verdict])
        elif component["name"] == spec.signal and (ends := known.right_and_wrong(parameters)) is not None:
            by_signal = dict(zip(("confirmed", "corrected"), ends, strict=True))
            if verdict in by_signal:
                values[spec.signal] = by_signal[verdict]
    weights = {component["name"]: component["weight"] for component in spec.components}
    raw = total(values, weights, clamp=spec.clamp)
    return normalise(raw, low=spec.low, high=spec.high)


def training_scale(spec: RewardSpec, raw: float) -> float:
    """A raw reward on the scale that training reads, [0, 1]."""
    return normalise(raw, low=spec.training_low, high=spec.training_high)


def right_of(spec: RewardSpec, signal: float | None) -> float | None:
    """What the value of the spec's signal says: 1 right, 0 wrong, between them in proportion; None where it is not
    known, or the spec has no signal."""
    if signal is None:
        return None
    told = next(component for component in spec.components if component["name"] == spec.signal)
    ends = COMPONENTS[spec.signal].right_and_wrong(told.get("parameters", {}))
    assert ends is not None, "a spec's signal says right and wrong"
    right, wrong = ends
    return normalise(signal, low=wrong, high=right)

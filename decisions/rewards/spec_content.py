"""What a reward spec says, as one value: read from JSON, YAML or a form, checked, completed and compared. PURE.

The services of `specs` and `revising` take a SpecContent; pages, the API and the command make one with `read_content`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec

from decisions.errors import InvalidRewardSpec
from decisions.rewards.components import COMPONENTS, FRESH_ONLY, Component
from decisions.rewards.components.component import LARGEST, describe_range
from decisions.rewards.components.defaults import Preset
from decisions.rewards.components.rules import InvalidRule, rule_component
from decisions.rewards.credit import SCHEMES
from decisions.rewards.valuing import UNKNOWN, raw_range
from workspaces.errors import FieldFault

# Weights that keep sums and products far from the ends of a float8.
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-6, 1e6
LARGEST_REWARD = 1e6
LONGEST_WINDOW_DAYS = 3650
MOST_COMPONENTS = 200
MOST_JUDGES, LONGEST_METRIC = 20, 64
RULE_NAME = re.compile(r"rule\.[a-z][a-z0-9_]{0,59}")
Window = float | msgspec.UnsetType | None


@dataclass(frozen=True, slots=True)
class RuleSetup:
    """A rule (`decisions.rewards.components.rules`) and the range that its value keeps."""

    text: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ComponentSetup:
    """One component of a spec. `window_days` and `missing` are the component's own unless given; None takes them
    away. Parameters that are left out have their defaults. With a `rule` it is the spec's own, and its name begins with
    `rule.`."""

    name: str
    weight: float = 1.0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    window_days: Window = msgspec.UNSET
    missing: Window = msgspec.UNSET
    rule: RuleSetup | None = None

    @property
    def component(self) -> Component | None:
        """None where it is not installed, or its rule is none."""
        if self.rule is None:
            return find_component(self.name)
        try:
            return rule_component(self.name, self.rule.text, float(self.rule.low), float(self.rule.high))
        except InvalidRule:
            return None


@dataclass(frozen=True, slots=True)
class SpecContent:
    """Everything that a reward spec says; RewardSpec has the meaning of each field.

    The weighted sum of the components is clamped to ±`clamp`; [`low`, `high`] is mapped to [0, 1]. `unknown` is one of
    UNKNOWN. `credit` is one of SCHEMES, with a `discount` in (0, 1]. `signal` left out is the first component that says
    right or wrong; empty is none. The training range left out follows from the weights. With `judges`, metrics, judge
    models count only by those, and only while they are calibrated; None counts all feedback.
    """

    components: Sequence[ComponentSetup]
    clamp: float = 5.0
    low: float = -2.0
    high: float = 2.0
    unknown: str = "left_out"
    credit: str = "equal"
    discount: float = 1.0
    signal: str | msgspec.UnsetType = msgspec.UNSET
    training_low: float | msgspec.UnsetType = msgspec.UNSET
    training_high: float | msgspec.UnsetType = msgspec.UNSET
    judges: tuple[str, ...] | None = None

    @property
    def names(self) -> list[str]:
        return [component.name for component in self.components]


@dataclass(frozen=True, slots=True)
class Change:
    """A field that differs, such as `components.verdict.weight`; None on the side that lacks it. `part`: the component
    or the field of the spec that it belongs to, such as `components.verdict`."""

    field: str
    before: Any
    after: Any
    part: str


TRAINING = ("training_low", "training_high")
READ_ONLY = frozenset({"id", "number", "spec_hash", "created_at", "changes", "judges_left_out"})
"""What the API answers besides the content: it may be sent back, and says nothing."""
_CONTENT: Mapping[str, Any] = {
    "clamp": float,
    "low": float,
    "high": float,
    "unknown": str,
    "credit": str,
    "discount": float,
    "signal": str | None,
    "training_low": float,
    "training_high": float,
    "judges": tuple[str, ...] | None,
}
_COMPONENT: Mapping[str, Any] = {
    "name": str,
    "weight": float,
    "parameters": dict[str, float | str | bool],
    "window_days": float | None,
    "missing": float | None,
    "rule": RuleSetup,
}
_TYPES = {
    float: "a number",
    str: "text",
    str | None: "text",
    float | None: "a number, or null",
    tuple[str, ...] | None: "a list of metrics, or null",
    RuleSetup: "an object with text, low and high",
}


def find_component(name: str) -> Component | None:
    """The component that a spec may hold under this name; None for an unknown one and for those of fresh decisions."""
    return None if name in FRESH_ONLY else COMPONENTS.get(name)


def can_be_signal(component: Component | None) -> bool:
    """Whether the component says that an action was right, or that it was wrong."""
    return component is not None and component.right_and_wrong({}) is not None


def preset_content(preset: Preset) -> SpecContent:
    """Complete."""
    components = tuple(
        ComponentSetup(name, weight, preset.parameters.get(name, {})) for name, weight in preset.weights.items()
    )
    content = SpecContent(components, preset.clamp, preset.low, preset.high, preset.unknown)
    if preset.training_low is not None:
        content = replace(content, training_low=preset.training_low)
    return complete(content)


def read_content(told: Any) -> SpecContent:
    """From JSON or YAML, as decoded. Raises InvalidRewardSpec with every fault, of types and of values."""
    if not isinstance(told, Mapping):
        fault = FieldFault("components", "is missing", "a list of components")
        raise InvalidRewardSpec("This is not a reward spec.", faults=[fault])
    faults: list[FieldFault] = []
    content = _read(told, faults)
    heard = {fault.field for fault in faults}
    # A component that is no object is told once.
    faults += [one for one in check_content(content) if not {one.field, one.field.rpartition(".")[0]} & heard]
    if faults:
        raise InvalidRewardSpec("The reward spec is invalid.", faults=faults)
    return content


def _read(told: Mapping[Any, Any], faults: list[FieldFault]) -> SpecContent:
    """What is not usable is noted, and left out of what is read."""
    values = _convert({name: told[name] for name in told if name not in READ_ONLY}, "", _CONTENT, faults)
    listed = told.get("components")
    components = []
    if not isinstance(listed, list):
        reason = "is missing" if listed is None else "is not a list"
        faults.append(FieldFault("components", reason, "a list of components"))
        listed = []
    for index, one in enumerate(listed[: MOST_COMPONENTS + 1]):
        place = f"components[{index}]"
        if not isinstance(one, Mapping):
            faults.append(FieldFault(place, "is not an object", "an object with name and weight"))
            one = {"name": ""}
        row = _convert(one, f"{place}.", _COMPONENT, faults)
        if "name" not in one:
            faults.append(FieldFault(f"{place}.name", "is missing", "a component's name"))
        # An unusable one keeps its place, by which the faults of the others are told.
        components.append(ComponentSetup(**{"name": "", **row}))
    if values.get("signal", "") is None:
        values["signal"] = ""
    return SpecContent(tuple(components), **values)


def _convert(
    told: Mapping[Any, Any], prefix: str, types: Mapping[str, Any], faults: list[FieldFault]
) -> dict[str, Any]:
    found = {}
    for name, value in told.items():
        if name not in types:
            if prefix or name != "components":
                known = ", ".join(types if prefix else ("components", *types))
                faults.append(FieldFault(f"{prefix}{str(name)[:100]}", "is unknown", known))
            continue
        try:
            found[name] = msgspec.convert(value, types[name])
        except msgspec.ValidationError:
            wanted = _TYPES.get(types[name], "an object of numbers, texts and true or false")
            faults.append(FieldFault(f"{prefix}{name}", f"{str(value)[:40]!r} has the wrong type", wanted))
    return found


def check_content(content: SpecContent) -> list[FieldFault]:
    """Every fault, with its field, the reason and what would be right; empty where it is usable."""
    faults, names = [], content.names
    if not 0 < len(names) <= MOST_COMPONENTS:
        reason = f"{len(names)} given" if names else "none given"
        faults.append(FieldFault("components", reason, f"1 to {MOST_COMPONENTS} components"))
    for index, component in enumerate(content.components):
        if component.name and names.index(component.name) != index:
            faults.append(
                FieldFault(f"components[{index}].name", f"{component.name} appears twice", "each component once")
            )
        faults += _component_faults(component, f"components[{index}]")
    if not 0 < content.clamp <= LARGEST_REWARD:
        faults.append(FieldFault("clamp", f"{content.clamp} is out of range", f"above 0, up to {LARGEST_REWARD:g}"))
    faults += _range_faults("low", content.low, "high", content.high)
    if content.unknown not in UNKNOWN:
        faults.append(FieldFault("unknown", f"{content.unknown[:40]!r} is unknown", ", ".join(UNKNOWN)))
    if content.credit not in SCHEMES:
        faults.append(FieldFault("credit", f"{content.credit[:40]!r} is unknown", ", ".join(SCHEMES)))
    if not 0 < content.discount <= 1:
        faults.append(FieldFault("discount", f"{content.discount} is out of range", "above 0, up to 1"))
    faults += _judge_faults(content.judges or ())
    if not faults:  # else neither the range nor what can be the signal is known
        full = complete(content)
        assert isinstance(full.training_low, float) and isinstance(full.training_high, float)
        faults += _signal_faults(full)
        faults += _range_faults("training_low", full.training_low, "training_high", full.training_high)
    return faults


def _range_faults(low_name: str, low: float, high_name: str, high: float) -> Iterator[FieldFault]:
    bounds = f"-{LARGEST_REWARD:g} to {LARGEST_REWARD:g}"
    odd = [(name, value) for name, value in ((low_name, low), (high_name, high)) if not abs(value) <= LARGEST_REWARD]
    for name, value in odd:
        yield FieldFault(name, f"{value} is out of range", bounds)
    if not odd and not low < high:
        yield FieldFault(high_name, f"{high:g} is not above {low_name}", f"more than {low:g}")


def _judge_faults(judges: Sequence[str]) -> Iterator[FieldFault]:
    if len(judges) > MOST_JUDGES:
        yield FieldFault("judges", f"{len(judges)} given", f"at most {MOST_JUDGES} judges")
    for place, name in enumerate(judges):
        if not 0 < len(name) <= LONGEST_METRIC or "\0" in name:
            right = f"the metric of a judge, 1 to {LONGEST_METRIC} characters"
            yield FieldFault(f"judges[{place}]", "is empty or too long", right)
        elif judges.index(name) != place:
            yield FieldFault(f"judges[{place}]", f"{name} appears twice", "each judge once")


def _signal_faults(content: SpecContent) -> Iterator[FieldFault]:
    if content.signal:
        able = [one.name for one in content.components if can_be_signal(one.component)]
        if content.signal not in able:
            reason = f"{content.signal!r} is not a component of this spec that says right or wrong"
            yield FieldFault("signal", reason, ", ".join(able) or "empty, as none of these components says it")


def _component_faults(setup: ComponentSetup, field: str) -> Iterator[FieldFault]:
    if setup.rule is not None:
        try:
            rule_component(setup.name, setup.rule.text, setup.rule.low, setup.rule.high)
        except InvalidRule as error:
            yield FieldFault(f"{field}.rule", f"column {error.column}: {error.fault}", error.wanted)
            return
        if not RULE_NAME.fullmatch(setup.name):
            right = "rule. and small letters, digits or _, such as rule.quick"
            yield FieldFault(f"{field}.name", f"{setup.name[:80]!r} is not a name for a rule", right)
    known = setup.component
    if known is None:
        reason = f"{setup.name} is only for new decisions" if setup.name in FRESH_ONLY else f"{setup.name!r} is unknown"
        yield FieldFault(f"{field}.name", reason, ", ".join(name for name in COMPONENTS if find_component(name)))
        return
    if setup.weight != 0 and not SMALLEST_WEIGHT <= abs(setup.weight) <= LARGEST_WEIGHT:
        right = f"0, or from ±{SMALLEST_WEIGHT:g} to ±{LARGEST_WEIGHT:g}"
        yield FieldFault(f"{field}.weight", f"{setup.weight} is out of range", right)
    parameters = list(_parameter_faults(setup, known, field))
    yield from parameters
    window = known.window_days if setup.window_days is msgspec.UNSET else setup.window_days
    missing = known.missing if setup.missing is msgspec.UNSET else setup.missing
    if window is not None and not 0 < window <= LONGEST_WINDOW_DAYS:
        right = f"days above 0, up to {LONGEST_WINDOW_DAYS}"
        yield FieldFault(f"{field}.window_days", f"{window} is out of range", right)
    if missing is not None and window is None:
        yield FieldFault(f"{field}.missing", "given without a window", "window_days, after which missing is final")
    elif missing is not None and not parameters:
        low, high = known.attainable(setup.parameters)
        if not low <= missing <= high:
            reason = f"{missing} is out of the component's range"
            yield FieldFault(f"{field}.missing", reason, describe_range(low, high))


def _parameter_faults(setup: ComponentSetup, known: Component, field: str) -> Iterator[FieldFault]:
    for name, value in setup.parameters.items():
        default = known.parameters.get(name)
        if default is None:
            right = ", ".join(known.parameters) or f"{setup.name} has no parameters"
            yield FieldFault(f"{field}.parameters.{name[:100]}", "is unknown", right)
        elif _is_number(default) and not (_is_number(value) and abs(value) <= LARGEST):
            right = f"a number from -{LARGEST:g} to {LARGEST:g}, such as {default}"
            yield FieldFault(f"{field}.parameters.{name}", f"{str(value)[:40]!r} cannot be used", right)
        elif not _is_number(default) and type(value) is not type(default):
            right = "true or false" if isinstance(default, bool) else "text"
            yield FieldFault(f"{field}.parameters.{name}", f"{str(value)[:40]!r} has the wrong type", right)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def complete(content: SpecContent) -> SpecContent:
    """With everything that was left out. A spec is kept so: a default that changes later changes no spec.

    Components that are not installed any more stay as they are.
    """
    components = tuple(_complete_component(one) for one in content.components)
    signal = content.signal
    if signal is msgspec.UNSET:
        signal = next((one.name for one in content.components if can_be_signal(one.component)), "")
    full = replace(content, components=components, signal=signal)
    low, high = training_range(full)
    return replace(
        full,
        training_low=low if full.training_low is msgspec.UNSET else full.training_low,
        training_high=high if full.training_high is msgspec.UNSET else full.training_high,
    )


def _complete_component(setup: ComponentSetup) -> ComponentSetup:
    known = setup.component
    if known is None:
        return setup
    return replace(
        setup,
        weight=float(setup.weight),
        parameters={**known.parameters, **setup.parameters},
        window_days=known.window_days if setup.window_days is msgspec.UNSET else setup.window_days,
        missing=known.missing if setup.missing is msgspec.UNSET else setup.missing,
    )


def training_range(content: SpecContent) -> tuple[float, float]:
    """Raw rewards that are 0 and 1 to training: what a wrong action earns, and the most that an action can earn. Where
    nothing says what is wrong, or right earns less, all that is attainable. Raw, of a content whose signal is known."""
    setups = [(one, known) for one in content.components if (known := one.component) is not None]
    if not setups:
        return float(content.low), float(content.high)
    stored = stored_components(replace(content, components=[one for one, _ in setups]))
    low, high = raw_range(stored, clamp=content.clamp, unknown=content.unknown)
    for one, known in setups:
        ends = known.right_and_wrong(one.parameters)
        if one.name == content.signal and ends is not None and one.weight > 0:
            low = max(-content.clamp, one.weight * ends[1])
    return (low, high) if low < high else (float(content.low), float(content.high))


def stored_components(content: SpecContent) -> list[dict[str, Any]]:
    """As RewardSpec.components holds them, of a complete content."""
    return [
        {"name": one.name, "weight": one.weight, "parameters": dict(one.parameters)}
        | ({} if one.rule is None else {"rule": asdict(one.rule)})
        | {
            name: value
            for name, value in (("window_days", one.window_days), ("missing", one.missing))
            if value is not msgspec.UNSET
        }
        for one in content.components
    ]


def setup_of(told: Mapping[str, Any]) -> ComponentSetup:
    """Of one component as it is stored."""
    rule = told.get("rule")
    values = {name: told[name] for name in ("name", "weight", "parameters", "window_days", "missing") if name in told}
    return ComponentSetup(**values, rule=None if rule is None else RuleSetup(**rule))


def plain_content(content: SpecContent) -> dict[str, Any]:
    """As JSON or YAML, of a complete content; `read_content` reads it back."""
    told = {"components": stored_components(content), **{name: getattr(content, name) for name in _CONTENT}}
    return told | {"judges": None if content.judges is None else list(content.judges)}


def editable_content(content: SpecContent) -> dict[str, Any]:
    """As `plain_content`, for a person who edits it: without the training range where that follows from the weights,
    so that it follows the edited ones, too; and without empty parts."""
    told = plain_content(content)
    if content.judges is None:
        del told["judges"]
    if (content.training_low, content.training_high) == training_range(content):
        for name in TRAINING:
            del told[name]
    for one in told["components"]:
        if not one["parameters"]:
            del one["parameters"]
    return told


def compare_contents(old: SpecContent, new: SpecContent) -> list[Change]:
    """Fields that differ between two complete contents. The order of components says nothing."""
    before = {one["name"]: one for one in stored_components(old)}
    after = {one["name"]: one for one in stored_components(new)}
    changes = []
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in before or name not in after:
            part = f"components.{name}"
            changes.append(Change(part, before.get(name), after.get(name), part))
        else:
            changes += _compare(before[name], after[name], f"components.{name}.", part=f"components.{name}")
    first, second = (
        {key: value for key, value in plain_content(one).items() if key != "components"} for one in (old, new)
    )
    return [*changes, *_compare(first, second)]


def _compare(
    before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "", *, part: str = ""
) -> Iterator[Change]:
    for name in dict.fromkeys([*before, *after]):
        first, second = before.get(name), after.get(name)
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            yield from _compare(first, second, f"{prefix}{name}.", part=part)
        elif first != second:
            yield Change(f"{prefix}{name}", first, second, part or name)

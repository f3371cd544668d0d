"""The form that changes a reward spec: every component with its weight, window and parameters, in readable form.

It reads what the API takes; `decisions.rewards.spec_content.check_content` checks it, and its faults are shown beside
their fields.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from django import forms

from decisions.queries.reward_specs import ALL_COUNTS, CREDIT_TITLES, TITLES, UNKNOWN_TITLES
from decisions.rewards.components import COMPONENTS, Component, Parameter
from decisions.rewards.components.component import describe_range
from decisions.rewards.components.defaults import PRESETS, VERDICT_ONLY
from decisions.rewards.credit import SCHEMES
from decisions.rewards.spec_content import (
    TRAINING,
    ComponentSetup,
    RuleSetup,
    SpecContent,
    can_be_signal,
    find_component,
    plain_content,
    training_range,
)
from decisions.rewards.valuing import UNKNOWN
from workspaces.errors import FieldFault

OF_COMPONENT = re.compile(r"components\[(\d+)\]\.?(\w*)\.?(.*)")
PREFIXES = {"name": "use", "weight": "weight", "window_days": "window", "missing": "missing"}
RULE_PREFIXES = PREFIXES | {"name": "rule", "rule": "text"}
RULE = re.compile(r"rule-(\d{1,2})")
MOST_RULES = 50
SCALE = ("low", "high", "clamp", "unknown")
EPISODES = ("credit", "discount")
FOR_TRAINING = ("signal", *TRAINING)
JUDGING = ("judged", "judges")


@dataclass(frozen=True, slots=True)
class Row:
    """One component of the form. `open`: its details hold a fault, or differ from the defaults."""

    component: Component
    use: forms.BoundField
    weight: forms.BoundField
    details: Sequence[forms.BoundField]
    open: bool


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule of the spec's own, or room for a new one, which is `empty`."""

    text: forms.BoundField
    fields: Sequence[forms.BoundField]
    empty: bool


def _number(label: str, help_text: str = "", *, required: bool = False) -> forms.FloatField:
    widget = forms.NumberInput(attrs={"step": "any"})
    return forms.FloatField(label=label, required=required, widget=widget, help_text=help_text)


class RewardSpecForm(forms.Form):
    """`base` is the number of the version that was shown, `seen` the digest of the changes that were (digest_of)."""

    base = forms.IntegerField(widget=forms.HiddenInput, min_value=1, max_value=2**31 - 1)
    seen = forms.CharField(widget=forms.HiddenInput, required=False, max_length=64)
    low = _number(TITLES["low"], "Raw rewards are mapped linearly to 0 to 1.", required=True)
    high = _number(TITLES["high"], required=True)
    clamp = _number(TITLES["clamp"], "The weighted sum stays within ± this.", required=True)
    unknown = forms.ChoiceField(
        label=TITLES["unknown"],
        choices=list(UNKNOWN_TITLES.items()),
        help_text=" ".join(f"{UNKNOWN_TITLES[name]}: {says}" for name, says in UNKNOWN.items()),
    )
    credit = forms.ChoiceField(label=TITLES["credit"], choices=[(name, CREDIT_TITLES[name]) for name in SCHEMES])
    discount = _number(TITLES["discount"], "Above 0, up to 1. For each later decision.", required=True)
    signal = forms.ChoiceField(
        label=TITLES["signal"],
        required=False,
        help_text="The component that says it, for methods that learn from right and wrong.",
    )
    judged = forms.ChoiceField(
        label=TITLES["judges"],
        choices=[("all", ALL_COUNTS), ("named", "Only calibrated judges count")],
        help_text="Judge models are programs whose feedback has the source llm.",
    )
    judges = forms.CharField(
        label="Judges that count",
        required=False,
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text="A metric on each line. A judge counts while it is calibrated. Empty: no judge model counts.",
    )
    training_low = _number(TITLES["training_low"], "Leave empty to calculate it from the weights.")
    training_high = _number(TITLES["training_high"], "Leave empty to calculate it from the weights.")

    def __init__(self, kind: str, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kind = kind
        self.names = [name for name in COMPONENTS if find_component(name) is not None]
        able = [name for name in self.names if can_be_signal(COMPONENTS[name])]
        self.fields["signal"].choices = [("", "None"), *((name, name) for name in able)]  # type: ignore[attr-defined]
        self.fields["credit"].help_text = " ".join(f"{CREDIT_TITLES[name]}: {says}" for name, says in SCHEMES.items())
        for name in self.names:
            self._add_fields(COMPONENTS[name])
        given = {RULE.fullmatch(name) for name in (self.data if self.is_bound else self.initial)}
        places = [int(found[1]) for found in given if found is not None]
        self.rules = range(min(MOST_RULES, max(places, default=-1) + (1 if self.is_bound else 2)))
        for place in self.rules:
            self._add_rule(place)

    def _add_rule(self, place: int) -> None:
        """`rule-0` is its name, and the others are found by the same number."""
        number = place + 1
        self.fields[f"rule-{place}"] = forms.CharField(label=f"Name of rule {number}", required=False, max_length=64)
        self.fields[f"text-{place}"] = forms.CharField(
            label=f"Rule {number}",
            required=False,
            max_length=2000,
            widget=forms.TextInput(attrs={"class": "mono", "spellcheck": "false"}),
            help_text="One line over facts, such as 1 if measures.latency_ms &lt; 200 else -0.5.",
        )
        self.fields[f"least-{place}"] = _number(f"Smallest value of rule {number}")
        self.fields[f"most-{place}"] = _number(f"Largest value of rule {number}")
        self.fields[f"weight-{place}"] = _number(f"Weight of rule {number}")
        self.fields[f"window-{place}"] = _number(f"Window of rule {number}, days")
        self.fields[f"missing-{place}"] = _number(f"Missing value of rule {number}")

    def _add_fields(self, component: Component) -> None:
        name = component.name
        self.fields[f"use-{name}"] = forms.BooleanField(label=name, required=False)
        self.fields[f"weight-{name}"] = _number(f"Weight of {name}")
        self.fields[f"window-{name}"] = _number(
            f"Window of {name}, days", "After it, a missing value is final. Empty: it never is."
        )
        values = describe_range(*component.attainable()).replace("-", "−")
        says = f"Counts after the window: {values}. Empty: none counts."
        self.fields[f"missing-{name}"] = _number(f"Missing value of {name}", says)
        for parameter, default in component.parameters.items():
            self.fields[f"parameter-{name}-{parameter}"] = _parameter_field(component, parameter, default)

    def clean_judges(self) -> str:
        if self.cleaned_data["judges"].strip() and self.cleaned_data.get("judged") == "all":
            says = "All feedback counts; choose that only calibrated judges count, or leave it empty."
            raise forms.ValidationError(says)
        return str(self.cleaned_data["judges"])

    def read_content(self) -> SpecContent:
        """Of a valid form. `add_faults` reads the places of its components."""
        given = self.cleaned_data
        components = [self._read_component(COMPONENTS[name]) for name in self.names if given[f"use-{name}"]]
        self.read_rules = [place for place in self.rules if given[f"rule-{place}"] or given[f"text-{place}"]]
        components += [self._read_rule(place) for place in self.read_rules]
        values: dict[str, Any] = {name: given[name] for name in (*SCALE, *EPISODES, "signal")}
        values |= {name: msgspec.UNSET if given[name] is None else given[name] for name in TRAINING}
        if given["judged"] == "named":
            values["judges"] = tuple(line.strip() for line in given["judges"].splitlines() if line.strip())
        return SpecContent(tuple(components), **values)

    def _read_rule(self, place: int) -> ComponentSetup:
        def number(name: str, default: float) -> float:
            value = self.cleaned_data[f"{name}-{place}"]
            return default if value is None else float(value)

        given = self.cleaned_data
        return ComponentSetup(
            f"rule.{given[f'rule-{place}'].removeprefix('rule.')}",
            number("weight", 1.0),
            window_days=given[f"window-{place}"],
            missing=given[f"missing-{place}"],
            rule=RuleSetup(given[f"text-{place}"], number("least", 0.0), number("most", 1.0)),
        )

    def _read_component(self, component: Component) -> ComponentSetup:
        given, name = self.cleaned_data, component.name
        weight = given[f"weight-{name}"]
        parameters = {one: given[f"parameter-{name}-{one}"] for one in component.parameters}
        return ComponentSetup(
            name,
            component.weight if weight is None else weight,
            {one: value for one, value in parameters.items() if value is not None},
            given[f"window-{name}"],
            given[f"missing-{name}"],
        )

    def add_faults(self, faults: Sequence[FieldFault], content: SpecContent) -> None:
        """Each beside its field."""
        for fault in faults:
            says = f"{fault.reason}; expected: {fault.expected}" if fault.expected else fault.reason
            place = self._place_of(fault.field, content)
            self.add_error(place if place in self.fields else None, says)

    def _place_of(self, field: str, content: SpecContent) -> str:
        if field.startswith("judges["):
            return "judges"
        found = OF_COMPONENT.fullmatch(field)
        if found is None:
            return field
        setup, name = content.components[int(found[1])], content.components[int(found[1])].name
        if setup.rule is not None:
            place = self.read_rules[int(found[1]) - len(content.components)]  # rules come last
            return f"{RULE_PREFIXES.get(found[2], '')}-{place}"
        return f"parameter-{name}-{found[3]}" if found[2] == "parameters" else f"{PREFIXES.get(found[2], '')}-{name}"

    @property
    def own_rows(self) -> list[Row]:
        """The components for this kind of agent, and those that are used."""
        return [self._row(name) for name in self.names if self._is_own(name)]

    @property
    def other_rows(self) -> list[Row]:
        return [self._row(name) for name in self.names if not self._is_own(name)]

    def _is_own(self, name: str) -> bool:
        preset = PRESETS.get(self.kind, VERDICT_ONLY)
        shared = "." not in name or name in preset.weights or name.startswith(f"{self.kind.lower()}.")
        return shared or bool(self[f"use-{name}"].value())

    def _row(self, name: str) -> Row:
        details = [self[f"window-{name}"], self[f"missing-{name}"]]
        details += [self[f"parameter-{name}-{one}"] for one in COMPONENTS[name].parameters]
        faulty = any(field.errors for field in details)
        return Row(COMPONENTS[name], self[f"use-{name}"], self[f"weight-{name}"], details, faulty)

    @property
    def rule_rows(self) -> list[RuleRow]:
        names = ("rule", "weight", "least", "most", "window", "missing")
        return [
            RuleRow(
                self[f"text-{place}"],
                [self[f"{name}-{place}"] for name in names],
                not self[f"rule-{place}"].value() and not self[f"text-{place}"].value(),
            )
            for place in self.rules
        ]

    @property
    def scale(self) -> list[forms.BoundField]:
        return [self[name] for name in SCALE]

    @property
    def episodes(self) -> list[forms.BoundField]:
        return [self[name] for name in EPISODES]

    @property
    def judging(self) -> list[forms.BoundField]:
        return [self[name] for name in JUDGING]

    @property
    def training(self) -> list[forms.BoundField]:
        return [self[name] for name in FOR_TRAINING]


def _parameter_field(component: Component, name: str, default: Parameter) -> forms.Field:
    label = f"{name.replace('_', ' ').capitalize()} of {component.name}"
    if isinstance(default, bool):
        return forms.BooleanField(label=label, required=False)
    if isinstance(default, str):
        return forms.CharField(label=label, required=False, max_length=2000, empty_value=None)
    return _number(label, f"{default:g} unless given.".replace("-", "−"))


def write_content(content: SpecContent) -> dict[str, Any]:
    """What the form shows of a complete content, and posts for it."""
    used = {one.name: one for one in content.components}
    values: dict[str, Any] = {name: getattr(content, name) for name in (*SCALE, *EPISODES, "signal")}
    automatic = training_range(content) == (content.training_low, content.training_high)
    values |= {name: None if automatic else getattr(content, name) for name in TRAINING}
    values |= {"judged": "all" if content.judges is None else "named", "judges": "\n".join(content.judges or ())}
    for place, one in enumerate(one for one in content.components if one.rule is not None):
        assert one.rule is not None
        values |= {f"rule-{place}": one.name.removeprefix("rule."), f"text-{place}": one.rule.text}
        values |= {f"least-{place}": one.rule.low, f"most-{place}": one.rule.high, f"weight-{place}": one.weight}
        values |= {f"window-{place}": one.window_days, f"missing-{place}": one.missing}
    for name in COMPONENTS:
        known = find_component(name)
        if known is None:
            continue
        given = used.get(name)
        values[f"use-{name}"] = given is not None
        values[f"weight-{name}"] = known.weight if given is None else given.weight
        values[f"window-{name}"] = known.window_days if given is None else given.window_days
        values[f"missing-{name}"] = known.missing if given is None else given.missing
        parameters: Mapping[str, Any] = known.parameters if given is None else given.parameters
        values |= {f"parameter-{name}-{one}": parameters.get(one) for one in known.parameters}
    return values


def digest_of(base: int, content: SpecContent) -> str:
    """Names a change of a version: only what was shown is made."""
    told = json.dumps([base, plain_content(content)], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()

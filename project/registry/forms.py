"""The form that starts an experiment: every bound of the rule with its default, in readable units.

It builds the same `ExperimentPlan` as the API's body; `start_experiment` checks it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms

from models_registry.experiments import ExperimentPlan
from models_registry.guardrails import DEFAULT_GUARDRAILS, GuardrailPlan
from models_registry.models import GuardrailMeasure, MissingPolicy
from workspaces.errors import FieldFault

UNITS: Mapping[str, float] = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|min|h|d)?\s*")
_plan = ExperimentPlan()
_defaults = {one.measure: one for one in DEFAULT_GUARDRAILS}


CONTRASTS = {
    "conditioned rescaled": "Conditioned and rescaled",
    "conditioned": "Conditioned",
    "rescaled": "Rescaled",
    "plain": "Plain",
}
"""How units are compared (docs/experiments.md): the fields of the plan that are on."""


@dataclass(frozen=True, slots=True)
class Preset:
    """First values of the form for one kind of experiment; what it leaves out has the plan's defaults."""

    key: str
    title: str
    says: str
    values: Mapping[str, Any]


PRESETS = (
    Preset(
        "usual",
        "Usual",
        "Half of the units meet the new version. A promotion takes at least a week and 500 units an arm.",
        {},
    ),
    Preset(
        "careful",
        "Careful",
        "A tenth of the units meet the new version: less is risked, and about three times as many units are needed. A "
        "version that is not better is promoted with a chance of at most one in 100.",
        {"treatment_share": "0.1", "promote_e": "100"},
    ),
    Preset(
        "quick",
        "Quick",
        "For feedback that comes within an hour. A promotion takes at least a day and 200 units an arm; the evidence "
        "that it needs stays the same.",
        {
            "exposure_window_seconds": "15 min",
            "attribution_window_seconds": "1 h",
            "min_units_per_arm": 200,
            "min_seconds": "1 d",
        },
    ),
)


def find_preset(key: str) -> Preset:
    """The usual one for a key that is not known."""
    return next((preset for preset in PRESETS if preset.key == key), PRESETS[0])


class DurationField(forms.CharField):
    """A length of time as people write it, `90 s`, `15 min`, `24 h` or `7 d`; cleaned to seconds."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        found = DURATION.fullmatch(text)
        if found is None:
            raise forms.ValidationError("Write a number with s, min, h or d.")
        return float(found[1]) * UNITS[found[2] or "s"]


def write_duration(seconds: float) -> str:
    """The shortest of these that is exact: 604800 → 7 d."""
    for unit, size in sorted(UNITS.items(), key=lambda pair: -pair[1]):
        if seconds and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def write_number(value: float | None) -> str:
    """40.0 → 40."""
    return "" if value is None else f"{value:g}"


class ExperimentForm(forms.Form):
    """Fields that are left empty take their defaults; an empty margin leaves its guardrail out."""

    name = forms.CharField(max_length=200, required=False, help_text="Empty: the names of the two versions.")
    treatment_share = forms.FloatField(
        label="Share of units for the new version",
        initial=write_number(_plan.treatment_share),
        help_text="Inside 0 to 1. 0.5 learns fastest; 0.1 risks less and takes about three times as many units.",
    )
    promote_e = forms.FloatField(
        label="Promote at E⁺ of",
        initial=write_number(_plan.promote_e),
        help_text="A version that is not better is promoted with a chance of at most one in this many.",
    )
    rollback_e = forms.FloatField(
        label="Roll back at E⁻ of",
        initial=write_number(_plan.rollback_e),
        help_text="A version that is not worse is rolled back with a chance of at most one in this many.",
    )
    min_units_per_arm = forms.IntegerField(
        label="Units an arm, at least",
        initial=_plan.min_units_per_arm,
        help_text="Units with an outcome, before a promotion.",
    )
    min_seconds = DurationField(
        label="Age, at least",
        initial=write_duration(_plan.min_seconds),
        help_text="Before a promotion. 7 d sees every weekday once.",
    )
    exposure_window_seconds = DurationField(
        label="Exposure window",
        initial=write_duration(_plan.exposure_window_seconds),
        help_text="Decisions of a unit that count, from its first one on.",
    )
    attribution_window_seconds = DurationField(
        label="Attribution window",
        initial=write_duration(_plan.attribution_window_seconds),
        help_text="How long to wait for their feedback.",
    )
    contrast = forms.ChoiceField(
        choices=list(CONTRASTS.items()),
        required=False,
        help_text="Conditioned: both versions are asked about every decision, and about a quarter of the units is "
        "enough. The page shows the plain contrast, too.",
    )
    missing = forms.ChoiceField(label="Units without a reward", choices=MissingPolicy.choices, initial=_plan.missing)
    error_rate = forms.FloatField(
        label="Error rate, worse by at most",
        required=False,
        initial=write_number(_defaults["error_rate"].margin),
        help_text="0.01 is one point. Empty: not watched.",
    )
    latency = forms.FloatField(
        label="Slow decisions, worse by at most",
        required=False,
        initial=write_number(_defaults["latency"].margin),
        help_text="The share over the budget. Empty: not watched.",
    )
    budget_ms = forms.FloatField(
        label="Budget of a decision, ms",
        required=False,
        initial=write_number(_defaults["latency"].budget_ms),
        help_text="What counts as slow.",
    )
    missing_feedback = forms.FloatField(
        label="Units without a reward, worse by at most",
        required=False,
        initial=write_number(_defaults["missing_feedback"].margin),
        help_text="So that no version wins by silence. Empty: not watched.",
    )
    guardrail_e = forms.FloatField(
        label="Each guardrail at E of",
        initial=write_number(_plan.guardrail_e),
        help_text="Evidence, before a promotion, that nothing above is worse by its margin.",
    )
    max_excess_failures = forms.FloatField(
        label="Roll back at excess failures of",
        initial=write_number(_plan.max_excess_failures),
        help_text="Share of failed requests beyond the champion's; 0.05 is five points.",
    )
    min_requests_for_failures = forms.IntegerField(
        label="Requests an arm, at least",
        initial=_plan.min_requests_for_failures,
        help_text="Before failures can roll back.",
    )

    RULE = ("treatment_share", "promote_e", "rollback_e", "min_units_per_arm", "min_seconds")
    WINDOWS = ("exposure_window_seconds", "attribution_window_seconds", "missing")
    GUARDRAILS = ("error_rate", "latency", "budget_ms", "missing_feedback", "guardrail_e")
    FAILURES = ("max_excess_failures", "min_requests_for_failures")

    def main_fields(self) -> list[Any]:
        """What stands open on the page."""
        return [self[name] for name in ("name", "treatment_share")]

    def groups(self) -> list[tuple[str, list[Any]]]:
        """The bounds, folded on the page, under their headings."""
        return [
            ("Rule", [self[name] for name in self.RULE if name != "treatment_share"]),
            ("What counts", [self[name] for name in (*self.WINDOWS, "contrast")]),
            ("Guardrails", [self[name] for name in self.GUARDRAILS]),
            ("Failures", [self[name] for name in self.FAILURES]),
        ]

    def has_folded_faults(self) -> bool:
        return any(field.errors for _, fields in self.groups() for field in fields)

    def read_plan(self) -> ExperimentPlan:
        """Of a valid form."""
        given = self.cleaned_data
        bounds = {name: given[name] for name in (*self.RULE, *self.WINDOWS, *self.FAILURES, "guardrail_e")}
        contrast = (given["contrast"] or next(iter(CONTRASTS))).split()
        bounds |= {name: name in contrast for name in ("conditioned", "rescaled")}
        return ExperimentPlan(guardrails=self._guardrails(), **bounds)

    def _guardrails(self) -> tuple[GuardrailPlan, ...]:
        given = self.cleaned_data
        return tuple(
            GuardrailPlan(measure, given[measure], given["budget_ms"] if measure == "latency" else None)
            for measure in GuardrailMeasure.values
            if given[measure] is not None
        )

    def add_faults(self, faults: Sequence[FieldFault]) -> None:
        """Each beside its field."""
        watched = [one.measure for one in self._guardrails()]
        for fault in faults:
            name = fault.field
            if found := re.fullmatch(r"guardrails\[(\d+)\]\.(\w+)", name):
                name = "budget_ms" if found[2] == "budget_ms" else watched[int(found[1])]
            says = f"{fault.reason}; expected: {fault.expected}" if fault.expected else fault.reason
            self.add_error(name if name in self.fields else None, says)

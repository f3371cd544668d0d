"""The form that starts an experiment: every bound of the rule with its default, in readable units.

It builds the same `ExperimentPlan` as the API's body; `start_experiment` checks it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django import forms

from decisions.models import AgentVersion
from models_registry.experiments.exploring import MEASURES
from models_registry.experiments.guardrails import BUDGETS, DEFAULT_GUARDRAILS, GuardrailPlan
from models_registry.experiments.log import LONGEST_REASON
from models_registry.experiments.plan import ExperimentPlan
from models_registry.models import GuardrailMeasure, MissingPolicy, ModelVersion
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

    def read_plan(self) -> ExperimentPlan:
        """What the form starts with."""
        unbound = ExperimentForm(initial=dict(self.values))
        form = ExperimentForm({name: unbound[name].value() for name in unbound.fields} | {"reason": self.title})
        form.is_valid()
        return form.read_plan()


PRESETS = (
    Preset(
        "usual",
        "Usual",
        "Half of the units get the new version. A promotion needs at least a week and 500 units per arm.",
        {},
    ),
    Preset(
        "careful",
        "Careful",
        "A tenth of the units get the new version. This risks less and needs about three times as many units. A "
        "version that is not better is promoted with a probability of at most 1 in 100.",
        {"treatment_share": "0.1", "promote_e": "100"},
    ),
    Preset(
        "quick",
        "Quick",
        "For feedback that arrives within an hour. A promotion needs at least a day, 200 units per arm and the same "
        "evidence.",
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


class SharesField(forms.CharField):
    """Shares as people write them, `0.25, 0.5`; cleaned to a tuple."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        try:
            return tuple(float(share) for share in re.split(r"[\s,]+", text.strip())) if text.strip() else ()
        except ValueError as error:
            raise forms.ValidationError("Enter numbers with commas, such as 0.25, 0.5.") from error


class NamesField(forms.CharField):
    """Names with commas; cleaned to a tuple."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        return tuple(name.strip() for name in text.split(",") if name.strip())


class DurationField(forms.CharField):
    """A length of time as people write it, `90 s`, `15 min`, `24 h` or `7 d`; cleaned to seconds."""

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        found = DURATION.fullmatch(text)
        if found is None:
            raise forms.ValidationError("Enter a number with s, min, h or d, such as 24 h.")
        return float(found[1]) * UNITS[found[2] or "s"]


class WindowField(DurationField):
    """A length of time, or `auto`, which is cleaned to None."""

    def clean(self, value: Any) -> Any:
        return None if str(value or "").strip() == "auto" else super().clean(value)


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

    name = forms.CharField(max_length=200, required=False, help_text="By default, the names of the versions.")
    reason = forms.CharField(
        max_length=LONGEST_REASON, help_text="Why this version is tried, in a sentence. The experiment's log keeps it."
    )
    also = forms.MultipleChoiceField(
        label="Try at the same time",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Each gets an equal part of the units, with a control of its own. A promotion needs as many times "
        "the evidence as there are versions.",
    )
    agent_version = forms.MultipleChoiceField(
        label="Agent versions",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Versions of one agent to try, with their prompt, options, exploration and limits. Only units of "
        "that agent take part then. Each is tried with each version of the model.",
    )
    treatment_share = forms.FloatField(
        label="Treatment share",
        initial=write_number(_plan.treatment_share),
        help_text="Share of units that get the new version, above 0 and below 1. 0.5 is fastest; 0.1 risks less and "
        "needs about three times as many units.",
    )
    smallest_effect = forms.FloatField(
        label="Smallest effect",
        initial=write_number(_plan.smallest_effect),
        help_text="The difference of mean rewards that is worth finding. The estimate of the time uses it, and so "
        "does giving up.",
    )
    ramp = SharesField(
        label="Shares of later phases",
        required=False,
        help_text="A ramp, such as 0.25, 0.5 after a first share of 0.05. Leave empty for one phase.",
    )
    ramp_units = forms.IntegerField(
        label="Units per phase",
        initial=_plan.ramp_units,
        help_text="Matured units that a phase of a ramp needs before the next one opens.",
    )
    ramp_e = forms.FloatField(
        label="Hold the ramp at E⁻",
        initial=write_number(_plan.ramp_e),
        help_text="The share stays where it is while the evidence of harm is at least this.",
    )
    promote_e = forms.FloatField(
        label="Promote at E⁺",
        initial=write_number(_plan.promote_e),
        help_text="A version that is not better is promoted with a probability of at most 1 in this number.",
    )
    rollback_e = forms.FloatField(
        label="Roll back at E⁻",
        initial=write_number(_plan.rollback_e),
        help_text="A version that is not worse is rolled back with a probability of at most 1 in this number.",
    )
    futility_e = forms.FloatField(
        label="Give up at E of futility",
        required=False,
        help_text="Usual: 20. The experiment ends undecided once the version is shown not to be better by the smallest "
        "effect, and nothing speaks for a difference. A version that is better by it is given up with a probability of "
        "at most 1 in this number, one that is better by less more often. Leave empty for never.",
    )
    min_units_per_arm = forms.IntegerField(
        label="Minimum units per arm",
        initial=_plan.min_units_per_arm,
        help_text="Units with an outcome that a promotion needs.",
    )
    min_seconds = DurationField(
        label="Minimum duration",
        initial=write_duration(_plan.min_seconds),
        help_text="A promotion waits for this time. 7 d covers every weekday once.",
    )
    exposure_window_seconds = DurationField(
        label="Exposure window",
        initial=write_duration(_plan.exposure_window_seconds),
        help_text="Decisions of a unit count for this time after its first decision.",
    )
    attribution_window_seconds = WindowField(
        label="Attribution window",
        initial=write_duration(_plan.attribution_window_seconds or 0.0),
        help_text="Feedback on these decisions counts for this time. auto: the time within which 95% of the decisions "
        "got their first feedback, from 1 to 30 d.",
    )
    contrast = forms.ChoiceField(
        choices=list(CONTRASTS.items()),
        required=False,
        help_text="Conditioned: both versions are asked about every decision, which needs about a quarter of the "
        "units. The page also shows the plain contrast.",
    )
    missing = forms.ChoiceField(label="Units without a reward", choices=MissingPolicy.choices, initial=_plan.missing)
    error_rate = forms.FloatField(
        label="Error rate margin",
        required=False,
        initial=write_number(_defaults["error_rate"].margin),
        help_text="The error rate may get worse by less than this. 0.01 is one point. Leave empty for no guardrail.",
    )
    latency = forms.FloatField(
        label="Slow decisions margin",
        required=False,
        initial=write_number(_defaults["latency"].margin),
        help_text="The share of slow decisions may get worse by less than this. Leave empty for no guardrail.",
    )
    budget_ms = forms.FloatField(
        label="Time budget in ms",
        required=False,
        initial=write_number(_defaults["latency"].budget_ms),
        help_text="A decision that takes longer counts as slow.",
    )
    missing_feedback = forms.FloatField(
        label="Units without a reward margin",
        required=False,
        initial=write_number(_defaults["missing_feedback"].margin),
        help_text="The share of units without a reward may get worse by less than this. Leave empty for no guardrail.",
    )
    cost = forms.FloatField(
        label="Costly decisions margin",
        required=False,
        help_text="The share of decisions over the cost budget may get worse by less than this, such as 0.1. Leave "
        "empty for no guardrail. It needs a backend with prices.",
    )
    budget_cost = forms.FloatField(
        label="Cost budget per decision",
        required=False,
        help_text="A decision that costs more counts as costly. In the currency of the backend's prices.",
    )
    invalid_answers = forms.FloatField(
        label="Invalid answers margin",
        required=False,
        help_text="The share of answers that do not fit the action space may get worse by less than this, such as "
        "0.01. Leave empty for no guardrail.",
    )
    guardrail_e = forms.FloatField(
        label="Guardrail evidence",
        initial=write_number(_plan.guardrail_e),
        help_text="E that each guardrail needs before a promotion.",
    )
    max_excess_failures = forms.FloatField(
        label="Roll back at excess failures",
        initial=write_number(_plan.max_excess_failures),
        help_text="Share of failed requests above that of the champion. 0.05 is five points.",
    )
    min_requests_for_failures = forms.IntegerField(
        label="Minimum requests per arm",
        initial=_plan.min_requests_for_failures,
        help_text="Failures trigger a rollback only after this many requests.",
    )

    holdout_share = forms.FloatField(
        label="Holdout share",
        initial="0",
        help_text="Share of units that keep today's champion after a promotion, such as 0.05. They show what the "
        "change is worth later. 0 for none.",
    )
    holdout_seconds = DurationField(
        label="Holdout for", initial=write_duration(_plan.holdout_seconds), help_text="Up to 366 d."
    )
    secondary = NamesField(
        label="Secondary measures",
        required=False,
        initial=", ".join(_plan.secondary),
        help_text=f"They decide nothing. {', '.join(MEASURES)}, or names of reward components.",
    )
    slices = NamesField(
        label="Slices",
        required=False,
        help_text="Fields of the state by which the outcome is also shown, such as language. Choose fields with few "
        "values that name no person.",
    )

    _offered: Mapping[str, AgentVersion] = {}
    _beside: Mapping[str, ModelVersion] = {}

    RULE = ("treatment_share", "promote_e", "rollback_e", "futility_e", "min_units_per_arm", "min_seconds")
    WINDOWS = ("exposure_window_seconds", "attribution_window_seconds", "missing")
    GUARDRAILS = (
        *("error_rate", "latency", "budget_ms", "missing_feedback", "cost", "budget_cost", "invalid_answers"),
        "guardrail_e",
    )
    RAMP = ("ramp", "ramp_units", "ramp_e")
    EXPLORATORY = ("secondary", "slices")
    HOLDOUT = ("holdout_share", "holdout_seconds")
    FAILURES = ("max_excess_failures", "min_requests_for_failures")

    def main_fields(self) -> list[Any]:
        """What stands open on the page."""
        names = ["name", "reason", "treatment_share", "smallest_effect"]
        first, last = ["agent_version"] if self._offered else [], ["also"] if self._beside else []
        return [self[name] for name in (*first, *names, *last)]

    def offer(self, beside: Sequence[ModelVersion], versions: Mapping[AgentVersion, str]) -> None:
        """Versions of the model to try at the same time, and of agents, with what these differ in."""
        self._beside = {str(version.id): version for version in beside}
        self._offered = {str(version.id): version for version in versions}
        told = [(str(version.id), f"{version} (differs in: {changed})") for version, changed in versions.items()]
        cast(forms.MultipleChoiceField, self.fields["agent_version"]).choices = told
        cast(forms.MultipleChoiceField, self.fields["also"]).choices = [(k, str(v)) for k, v in self._beside.items()]

    def read_beside(self) -> list[ModelVersion]:
        """The versions of the model that were chosen, of a form that was checked."""
        return [self._beside[chosen] for chosen in self.cleaned_data.get("also", [])]

    def read_agent_versions(self) -> list[AgentVersion]:
        """Those that were chosen, of a form that was checked."""
        return [self._offered[chosen] for chosen in self.cleaned_data.get("agent_version", [])]

    def groups(self) -> list[tuple[str, list[Any]]]:
        """The bounds, folded on the page, under their headings."""
        return [
            ("Ramp", [self[name] for name in self.RAMP]),
            ("Evidence", [self[name] for name in self.RULE if name != "treatment_share"]),
            ("Outcomes", [self[name] for name in (*self.WINDOWS, "contrast")]),
            ("Guardrails", [self[name] for name in self.GUARDRAILS]),
            ("Failures", [self[name] for name in self.FAILURES]),
            ("Holdout", [self[name] for name in self.HOLDOUT]),
            ("Exploratory", [self[name] for name in self.EXPLORATORY]),
        ]

    def has_folded_faults(self) -> bool:
        return any(field.errors for _, fields in self.groups() for field in fields)

    def read_plan(self) -> ExperimentPlan:
        """Of a form that was checked; what is not valid has its default, so that the rest can be checked too."""
        given = self.cleaned_data
        groups = (self.RULE, self.RAMP, self.WINDOWS, self.FAILURES, self.HOLDOUT, self.EXPLORATORY)
        names = [name for group in groups for name in group] + ["guardrail_e", "smallest_effect"]
        bounds = {name: given[name] for name in names if name in given}
        contrast = (given.get("contrast") or next(iter(CONTRASTS))).split()
        bounds |= {name: name in contrast for name in ("conditioned", "rescaled")}
        return ExperimentPlan(guardrails=self._guardrails(), **bounds)

    def _guardrails(self) -> tuple[GuardrailPlan, ...]:
        given = self.cleaned_data
        budgets = {measure: name for measure, (name, *_) in BUDGETS.items()}
        return tuple(
            GuardrailPlan(
                measure, given[measure], **{budgets[measure]: given[budgets[measure]]} if measure in budgets else {}
            )
            for measure in GuardrailMeasure.values
            if given.get(measure) is not None and budgets.get(measure, measure) in given
        )

    def add_faults(self, faults: Sequence[FieldFault]) -> None:
        """Each beside its field."""
        watched = [one.measure for one in self._guardrails()]
        for fault in faults:
            name = fault.field
            if name == "treatment" or name.startswith(("treatments", "agent_versions")):
                name = "also" if self._beside else "agent_version" if self._offered else name
            if found := re.fullmatch(r"guardrails\[(\d+)\]\.(\w+)", name):
                name = found[2] if found[2].startswith("budget") else watched[int(found[1])]
            self.add_error(name if name in self.fields else None, fault.says)


class ShareForm(forms.Form):
    """Another share for a running experiment, and why."""

    treatment_share = forms.FloatField(label="Treatment share", help_text="Above 0 and below 1.")
    reason = forms.CharField(max_length=LONGEST_REASON, help_text="Why, in a sentence. The experiment's log keeps it.")

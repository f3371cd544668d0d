"""Serializers of the registry's endpoints."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from models_registry.experiments.evidence import read_comparison
from models_registry.experiments.exploring import MEASURES, Explored, list_explored
from models_registry.experiments.groups import FEWEST, MOST
from models_registry.experiments.guardrails import GuardrailPlan, list_guardrails
from models_registry.experiments.log import FIGURES, LONGEST_REASON
from models_registry.experiments.outlook import Outlook
from models_registry.experiments.plan import ExperimentPlan
from models_registry.models import (
    Experiment,
    ExperimentGroup,
    GateVerdict,
    GuardrailMeasure,
    Look,
    MissingPolicy,
    ModelVersion,
    Phase,
    RegisteredModel,
)
from models_registry.versions.gates import read_gate
from models_registry.versions.references import FORMS
from workspaces.http.bodies import StrictBody
from workspaces.notes import STATED_TAGS

SHARE = {"exclusiveMinimum": 0, "exclusiveMaximum": 1}


class VersionField(serializers.CharField):
    """A version, as `references.find_version` takes it."""

    def __init__(self, **options: Any) -> None:
        says = f"{options.pop('help_text', 'A model version')}: its ID, {FORMS}"
        super().__init__(max_length=200, help_text=says, **options)


class GateVerdictSerializer(serializers.ModelSerializer[GateVerdict]):
    """What one gate says. Without `refusals` it could answer, and the interval is of the difference."""

    against = serializers.SerializerMethodField(
        help_text="The version that it is compared with; null: whatever acted in the log"
    )

    class Meta:
        model = GateVerdict
        fields = ["kind", "passed", "refusals", "against", "estimate", "low", "high", "details", "created_at"]

    def get_against(self, verdict: GateVerdict) -> str | None:
        return str(verdict.against) if verdict.against else None


class GateSerializer(serializers.Serializer[Any]):
    """What the gates say together: `blocks` where they could answer and the version did not pass."""

    passed = serializers.BooleanField()
    blocks = serializers.BooleanField()
    verdicts = GateVerdictSerializer(many=True)


class ModelVersionSerializer(serializers.ModelSerializer[ModelVersion]):
    name = serializers.CharField(source="__str__")
    model = serializers.CharField(source="registered_model.name")
    digest = serializers.SerializerMethodField(help_text="Digest of its artifact; null for a remote model")
    acting_sha256 = serializers.CharField(
        read_only=True,
        help_text="SHA-256 of the weights that act, its base's among them, as episodes name it; empty if not known",
    )
    kind = serializers.CharField(read_only=True, help_text="model, adapter, reward_model, or remote")
    base_model = serializers.CharField(
        read_only=True, help_text="What its first ancestor was made from: tiny, a hub id or a folder's name"
    )
    aliases = serializers.SerializerMethodField()
    gate = serializers.SerializerMethodField()

    class Meta:
        model = ModelVersion
        fields = [
            "id",
            "name",
            "model",
            "number",
            "state",
            "kind",
            "digest",
            "acting_sha256",
            "remote_name",
            "base_model",
            "base",
            "parent",
            "method",
            "description",
            "metrics",
            "aliases",
            "gate",
            "tags",
            "notes",
            "approved_at",
            "approved_by",
            "approval_note",
            "created_at",
            "marked_at",
            "retired_at",
        ]

    @extend_schema_field(GateSerializer)
    def get_gate(self, version: ModelVersion) -> Any:
        return GateSerializer(read_gate(version)).data

    def get_digest(self, version: ModelVersion) -> str | None:
        return version.artifact.digest if version.artifact is not None else None

    def get_aliases(self, version: ModelVersion) -> list[str]:
        return sorted(alias.name for alias in version.aliases.all())


class RegisteredModelSerializer(serializers.ModelSerializer[RegisteredModel]):
    champion = serializers.SerializerMethodField()

    class Meta:
        model = RegisteredModel
        fields = ["id", "name", "description", "champion", "created_at"]

    def get_champion(self, model: RegisteredModel) -> str | None:
        return next((str(alias.version) for alias in model.aliases.all() if alias.name == "champion"), None)


class GuardrailSerializer(serializers.Serializer[Any]):
    """What must not get worse, and by how much it may."""

    measure = serializers.ChoiceField(choices=GuardrailMeasure.choices)
    margin = serializers.FloatField(help_text="By how much the mean may get worse; 0.01 is one point")
    budget_ms = serializers.FloatField(
        required=False, help_text="For latency: a decision that takes longer is too slow"
    )
    budget_cost = serializers.FloatField(
        required=False,
        help_text="For cost: a decision that costs more is too expensive, in the currency of the backends' prices",
    )


class GuardrailEvidenceSerializer(GuardrailSerializer):
    """A guardrail and what is known of it. `estimate` is treatment minus control, positive is worse."""

    units = serializers.IntegerField()
    estimate = serializers.FloatField()
    log_e_non_inferior = serializers.FloatField(help_text="Natural logarithm; promotion needs log(guardrail_e)")
    log_e_harm = serializers.FloatField(help_text="Natural logarithm; rolled back at log(harm_e)")
    harm_e = serializers.FloatField(help_text="rollback_e times the number of guardrails")


class PhaseSerializer(serializers.ModelSerializer[Phase]):
    units = serializers.SerializerMethodField(help_text="Matured units by arm")

    class Meta:
        model = Phase
        fields = ["number", "treatment_share", "attribution_window_seconds", "units", "started_at", "ended_at"]

    @extend_schema_field({"type": "object", "additionalProperties": {"type": "integer"}})
    def get_units(self, phase: Phase) -> Any:
        return phase.settled


class ExperimentSerializer(serializers.ModelSerializer[Experiment]):
    model = serializers.CharField(source="registered_model.name")
    variants = serializers.SerializerMethodField()
    agent_versions = serializers.SerializerMethodField(
        help_text="By arm, if the experiment compares versions of one agent; else empty"
    )
    phases = serializers.SerializerMethodField()
    ramp = serializers.ListField(child=serializers.FloatField(), help_text="Shares of the phases after the first")
    guardrails = serializers.SerializerMethodField()
    promoted_version = serializers.SerializerMethodField(
        help_text="Version that was promoted by hand, which stopped the experiment"
    )
    units_share = serializers.SerializerMethodField(
        help_text="Part of the units that only this experiment gets: 1, or 1/k in a group of k experiments"
    )

    class Meta:
        model = Experiment
        fields = [
            "id",
            "name",
            "group",
            "units_share",
            "model",
            "state",
            "variants",
            "agent_versions",
            "phases",
            "ramp",
            "ramp_units",
            "ramp_e",
            "attribution_auto",
            "promote_e",
            "rollback_e",
            "min_units_per_arm",
            "min_seconds",
            "exposure_window_seconds",
            "missing",
            "guardrails",
            "guardrail_e",
            "max_excess_failures",
            "min_requests_for_failures",
            "conditioned",
            "rescaled",
            "outcome_low",
            "outcome_high",
            "units_control",
            "units_treatment",
            "units_conditioned",
            "log_e_plus",
            "log_e_minus",
            "log_e_futile",
            "estimate",
            "low",
            "high",
            "plain_log_e_plus",
            "plain_log_e_minus",
            "plain_estimate",
            "plain_low",
            "plain_high",
            "sample_ratio_mismatch",
            "requests_control",
            "failed_control",
            "requests_treatment",
            "failed_treatment",
            "verdict",
            "secondary",
            "slices",
            "holdout_share",
            "holdout_seconds",
            "smallest_effect",
            "futility_e",
            "expected_seconds",
            "started_at",
            "ended_at",
            "ended_by",
            "promoted_version",
        ]

    def get_promoted_version(self, experiment: Experiment) -> str | None:
        return str(experiment.promoted_version) if experiment.promoted_version else None

    def get_units_share(self, experiment: Experiment) -> float:
        return experiment.lane_high - experiment.lane_low

    def get_variants(self, experiment: Experiment) -> dict[str, str]:
        return {variant.arm: str(variant.version) for variant in experiment.variants.all()}

    def get_agent_versions(self, experiment: Experiment) -> dict[str, str]:
        return {variant.arm: variant.setup for variant in experiment.variants.all() if variant.setup}

    @extend_schema_field(PhaseSerializer(many=True))
    def get_phases(self, experiment: Experiment) -> Any:
        return PhaseSerializer(sorted(experiment.phases.all(), key=lambda phase: phase.number), many=True).data

    @extend_schema_field(GuardrailEvidenceSerializer(many=True))
    def get_guardrails(self, experiment: Experiment) -> list[dict[str, Any]]:
        return [
            {**plan.as_stored(), **evidence, "harm_e": harm_e} for plan, evidence, harm_e in list_guardrails(experiment)
        ]


class ExploredSerializer(serializers.Serializer[Any]):
    """A difference that decides nothing. The intervals of all of them hold together with 95%, at any time."""

    name = serializers.CharField(help_text="A measure, or a field of the state")
    value = serializers.CharField(
        allow_null=True, help_text="Value of the field; the row is then the outcome of that slice"
    )
    units_control = serializers.IntegerField()
    units_treatment = serializers.IntegerField()
    mean_control = serializers.FloatField(allow_null=True)
    mean_treatment = serializers.FloatField(allow_null=True)
    estimate = serializers.FloatField(allow_null=True, help_text="Treatment minus control; null below 50 units per arm")
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)

    def to_representation(self, explored: Explored) -> dict[str, Any]:
        tally, interval = explored.tally, explored.interval
        control, treatment = tally.means
        return {
            "name": explored.name,
            "value": explored.value,
            "units_control": tally.units - tally.treated,
            "units_treatment": tally.treated,
            "mean_control": control,
            "mean_treatment": treatment,
            "estimate": interval.mean if interval else None,
            "low": interval.low if interval else None,
            "high": interval.high if interval else None,
        }


class ExperimentDetailSerializer(ExperimentSerializer):
    exploratory = serializers.SerializerMethodField(help_text="Secondary measures and slices")

    class Meta(ExperimentSerializer.Meta):
        fields = [*ExperimentSerializer.Meta.fields, "exploratory"]

    @extend_schema_field(ExploredSerializer(many=True))
    def get_exploratory(self, experiment: Experiment) -> Any:
        return ExploredSerializer(list_explored(experiment, read_comparison(experiment).explored), many=True).data


class ExperimentGroupSerializer(serializers.ModelSerializer[ExperimentGroup]):
    model = serializers.CharField(source="registered_model.name")
    experiments = ExperimentSerializer(many=True)

    class Meta:
        model = ExperimentGroup
        fields = ["id", "name", "model", "started_at", "ended_at", "experiments"]


class LookSerializer(serializers.ModelSerializer[Look]):
    """A row of the log. The figures are those of that moment; logarithms are natural."""

    reasons = serializers.ListField(
        child=serializers.CharField(), help_text="What was shown or missing, or the reason that was given"
    )
    guardrails = serializers.DictField(help_text="By measure: units, estimate, log_e_non_inferior and log_e_harm")

    class Meta:
        model = Look
        fields = ["id", "at", "action", "by", "reasons", "phase", "treatment_share", *FIGURES, "guardrails"]


@extend_schema_field({"oneOf": [{"type": "number", "format": "double"}, {"type": "string", "enum": ["auto"]}]})
class WindowField(serializers.FloatField):
    """Seconds, or `auto`, which becomes None."""

    def to_internal_value(self, data: Any) -> Any:
        return None if data == "auto" else super().to_internal_value(data)


class ShareSerializer(StrictBody):
    stated = {"treatment_share": SHARE}
    treatment_share = serializers.FloatField(help_text="P(treatment) from now on, inside (0, 1)")
    reason = serializers.CharField(
        max_length=LONGEST_REASON, help_text="Why; recorded in the experiment's log and the audit log"
    )


class VersionNoteSerializer(StrictBody):
    """What is left out stays as it is."""

    stated = {"tags": STATED_TAGS}
    tags = serializers.ListField(child=serializers.CharField(max_length=50), required=False)
    notes = serializers.CharField(max_length=5000, required=False, allow_blank=True)


class ReasonSerializer(StrictBody):
    reason = serializers.CharField(
        max_length=LONGEST_REASON, help_text="Why; recorded in the experiment's log and the audit log"
    )


class BoundsSerializer(StrictBody):
    """Bounds that are left out take their defaults (docs/experiments.md)."""

    treatment_share = serializers.FloatField(required=False)
    ramp = serializers.ListField(
        child=serializers.FloatField(),
        required=False,
        max_length=20,
        help_text="Treatment shares of later phases, each larger than the last",
    )
    ramp_units = serializers.IntegerField(required=False, help_text="Matured units that a phase needs")
    ramp_e = serializers.FloatField(required=False, help_text="E of harm at which the share no longer grows")
    attribution_window_seconds = WindowField(
        required=False, help_text="Seconds, or auto: set at the start of each phase by how long feedback takes"
    )
    exposure_window_seconds = serializers.FloatField(required=False)
    promote_e = serializers.FloatField(required=False)
    rollback_e = serializers.FloatField(required=False)
    min_units_per_arm = serializers.IntegerField(required=False)
    min_seconds = serializers.FloatField(required=False)
    missing = serializers.ChoiceField(choices=MissingPolicy.choices, required=False)
    guardrails = GuardrailSerializer(many=True, required=False)
    guardrail_e = serializers.FloatField(required=False)
    max_excess_failures = serializers.FloatField(required=False)
    min_requests_for_failures = serializers.IntegerField(required=False)
    conditioned = serializers.BooleanField(
        required=False, help_text="Ask both arms about every decision and condition the contrast; on by default"
    )
    rescaled = serializers.BooleanField(
        required=False, help_text="Scale outcomes to the range that the reward spec can give; on by default"
    )
    secondary = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="Measures that do not affect promotion: " + ", ".join(MEASURES) + ", or names of reward components",
    )
    slices = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="Fields of the state by which outcomes are split"
    )
    holdout_share = serializers.FloatField(
        required=False,
        help_text="Share of the units that keeps today's champion after a promotion; default: 0",
    )
    holdout_seconds = serializers.FloatField(required=False, help_text="How long the holdout lasts; default: 28 days")
    smallest_effect = serializers.FloatField(
        required=False, help_text="The difference of mean rewards worth finding; the estimate and futility assume it"
    )
    futility_e = serializers.FloatField(
        required=False,
        allow_null=True,
        help_text="Evidence that it is not better by smallest_effect, at which it ends as futile, usually"
        " 20; default: null, never",
    )

    def read_plan(self) -> ExperimentPlan:
        """Of a body that is valid."""
        given = {name: value for name, value in self.validated_data.items() if name in ExperimentPlan.__slots__}
        if "guardrails" in given:
            given["guardrails"] = tuple(GuardrailPlan(**guardrail) for guardrail in given["guardrails"])
        given |= {name: tuple(given[name]) for name in ("ramp", "secondary", "slices") if name in given}
        return ExperimentPlan(**given)


class PlanSerializer(BoundsSerializer):
    """Bounds that are left out take their defaults (docs/experiments.md)."""

    treatment = VersionField(help_text="The version to try against the champion")


class StartSerializer(BoundsSerializer):
    """Bounds that are left out take their defaults (docs/experiments.md)."""

    reason = serializers.CharField(max_length=LONGEST_REASON, help_text="Why it is tried; the first entry in its log")
    name = serializers.CharField(max_length=200, required=False, default="", allow_blank=True)


class ExperimentStartSerializer(StartSerializer, PlanSerializer):
    """Bounds that are left out take their defaults (docs/experiments.md)."""


class GroupStartSerializer(StartSerializer):
    """Bounds hold for each of the experiments; those that are left out take their defaults (docs/experiments.md)."""

    stated = {"treatments": {"minItems": FEWEST, "items": {"minLength": 1, "pattern": r"\S"}}}
    treatments = serializers.ListField(
        child=VersionField(), max_length=MOST, help_text=f"{FEWEST} to {MOST} versions to try against the champion"
    )


class EstimateSerializer(PlanSerializer):
    """Bounds that are left out take their defaults (docs/experiments.md)."""

    agent = serializers.SlugField(
        required=False,
        help_text="The agent whose versions the experiment compares: only its units take part. Default: every agent of"
        " the model",
    )


class ExpectedPhaseSerializer(serializers.Serializer[Any]):
    treatment_share = serializers.FloatField()
    opens_after_seconds = serializers.FloatField()


class OutlookSerializer(serializers.Serializer[Any]):
    """How long an experiment may take, and what that assumes."""

    seconds = serializers.FloatField(allow_null=True, help_text="Expected time until a promotion; null if not known")
    units = serializers.IntegerField(allow_null=True, help_text="Units that meet an arm until then")
    slowest = serializers.CharField(
        help_text="What takes longest: evidence, units_per_arm, duration, or a guardrail's measure"
    )
    phases = serializers.SerializerMethodField()
    new_units_a_day = serializers.FloatField(allow_null=True)
    rewarded_share = serializers.FloatField(
        allow_null=True, help_text="Share of decisions with feedback within the window"
    )
    reward_deviation = serializers.FloatField(allow_null=True, help_text="Standard deviation of a unit's reward")
    says = serializers.CharField()
    assumes = serializers.CharField()

    @extend_schema_field(ExpectedPhaseSerializer(many=True))
    def get_phases(self, outlook: Outlook) -> list[dict[str, float]]:
        return [{"treatment_share": share, "opens_after_seconds": seconds} for share, seconds in outlook.phases]

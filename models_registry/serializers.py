"""What the registry's endpoints answer."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from models_registry.models import Experiment, ModelVersion, RegisteredModel


class ModelVersionSerializer(serializers.ModelSerializer[ModelVersion]):
    name = serializers.CharField(source="__str__")
    model = serializers.CharField(source="registered_model.name")
    digest = serializers.CharField(source="artifact.digest")
    kind = serializers.CharField(source="artifact.kind")
    aliases = serializers.SerializerMethodField()

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
            "base",
            "parent",
            "method",
            "description",
            "metrics",
            "aliases",
            "created_at",
        ]

    def get_aliases(self, version: ModelVersion) -> list[str]:
        return sorted(alias.name for alias in version.aliases.all())


class RegisteredModelSerializer(serializers.ModelSerializer[RegisteredModel]):
    champion = serializers.SerializerMethodField()

    class Meta:
        model = RegisteredModel
        fields = ["id", "name", "description", "champion", "created_at"]

    def get_champion(self, model: RegisteredModel) -> str | None:
        return next((str(alias.version) for alias in model.aliases.all() if alias.name == "champion"), None)


class ExperimentSerializer(serializers.ModelSerializer[Experiment]):
    model = serializers.CharField(source="registered_model.name")
    variants = serializers.SerializerMethodField()

    class Meta:
        model = Experiment
        fields = [
            "id",
            "name",
            "model",
            "state",
            "variants",
            "promote_e",
            "rollback_e",
            "min_units_per_arm",
            "min_seconds",
            "exposure_window_seconds",
            "missing",
            "units_control",
            "units_treatment",
            "log_e_plus",
            "log_e_minus",
            "estimate",
            "low",
            "high",
            "sample_ratio_mismatch",
            "verdict",
            "started_at",
            "ended_at",
        ]

    def get_variants(self, experiment: Experiment) -> dict[str, str]:
        return {variant.arm: str(variant.version) for variant in experiment.variants.all()}


class ExperimentStartSerializer(serializers.Serializer[Any]):
    """Bounds that are left out take their defaults (docs/experiments.md)."""

    treatment = serializers.UUIDField(help_text="Id of the model version to try against the champion")
    name = serializers.CharField(max_length=200, required=False, default="", allow_blank=True)
    treatment_share = serializers.FloatField(required=False)
    attribution_window_seconds = serializers.FloatField(required=False)
    exposure_window_seconds = serializers.FloatField(required=False)
    promote_e = serializers.FloatField(required=False)
    rollback_e = serializers.FloatField(required=False)
    min_units_per_arm = serializers.IntegerField(required=False)
    min_seconds = serializers.FloatField(required=False)
    missing = serializers.ChoiceField(choices=["exclude", "zero"], required=False)

"""Serializers of judges and their calibrations."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from decisions.judges.calibrating import LONGEST_METRIC
from decisions.models import JudgeCalibration, JudgeSource
from workspaces.serializers import StrictBody


class JudgeBody(StrictBody):
    metric = serializers.CharField(max_length=LONGEST_METRIC, help_text="Of the judge's feedback")
    source = serializers.ChoiceField(  # type: ignore[assignment]
        choices=JudgeSource.choices, default=JudgeSource.LLM, help_text="Of the judge's feedback"
    )


class JudgeNameSerializer(serializers.Serializer[Any]):
    metric = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]


class EstimateSerializer(serializers.Serializer[Any]):
    mean = serializers.FloatField()
    low = serializers.FloatField(help_text="Of the 95% interval")
    high = serializers.FloatField()
    n = serializers.IntegerField(help_text="Decisions")
    clusters = serializers.IntegerField(help_text="Units that they are of")


class SliceBiasSerializer(serializers.Serializer[Any]):
    cut = serializers.CharField(help_text="version or action")
    part = serializers.CharField()
    labels = serializers.IntegerField()
    error = EstimateSerializer(help_text="Score minus label; the interval holds for all slices together")
    apart = EstimateSerializer(help_text="That minus the same of the other decisions")
    p = serializers.FloatField(help_text="Of no difference to the others, by Holm")


class AssessmentSerializer(serializers.Serializer[Any]):
    """What a judge is worth beside people."""

    scores = serializers.IntegerField()
    labels = serializers.IntegerField()
    units = serializers.IntegerField(help_text="Among the labels")
    corrected = EstimateSerializer(help_text="What people would say on average of all scored decisions")
    labels_only = EstimateSerializer(help_text="The same, from the labels alone")
    judged = EstimateSerializer(help_text="Mean of the judge's scores")
    tuning = serializers.FloatField(help_text="λ: how much of the judge the corrected mean uses; 0 is labels alone")
    alpha = EstimateSerializer(help_text="Krippendorff's α of scores and labels")
    bias = EstimateSerializer(help_text="Score minus label")
    selected = EstimateSerializer(help_text="The judge's mean of labelled decisions minus that of the others")
    by_length = EstimateSerializer(allow_null=True, help_text="Growth of score minus label when a text doubles")
    by_place = EstimateSerializer(
        allow_null=True, help_text="Score minus label of what stood first, minus that of what stood later"
    )
    by_slice = SliceBiasSerializer(many=True)


class DriftSerializer(serializers.Serializer[Any]):
    """Recent labels against those before."""

    old = serializers.IntegerField(help_text="Labels")
    new = serializers.IntegerField()
    error = EstimateSerializer(help_text="Change of score minus label")
    size = EstimateSerializer(help_text="Change of its size")
    p = serializers.FloatField(help_text="Of no change, by Holm; below 0.01 the judge has drifted")


class CalibrationSerializer(serializers.ModelSerializer[JudgeCalibration]):
    people_metric = serializers.CharField(help_text="Of people's feedback that it is compared with")
    since = serializers.DateTimeField(help_text="Scores that arrived later are measured")
    scores = serializers.IntegerField(help_text="Decisions with a score")
    labels = serializers.IntegerField(help_text="Those of them that people judged, too")
    reasons = serializers.ListField(child=serializers.CharField(), help_text="Why it is not calibrated")
    warnings = serializers.ListField(child=serializers.CharField(), help_text="Biases that are more than chance")
    assessment = AssessmentSerializer(allow_null=True, help_text="Null with too few labels for a number")
    drift = DriftSerializer(allow_null=True, help_text="Null with too few labels to compare")

    class Meta:
        model = JudgeCalibration
        fields = [
            "id", "metric", "source", "people_metric", "verdict", "since", "until", "scores", "labels", "reasons",
            "warnings", "assessment", "drift", "made_by", "made_at",
        ]  # fmt: skip


class JudgesSerializer(serializers.Serializer[Any]):
    results = CalibrationSerializer(many=True, help_text="The newest calibration of each judge")
    uncalibrated = JudgeNameSerializer(
        many=True, help_text="Judge models that scored the newest decisions and were never calibrated"
    )

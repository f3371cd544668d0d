"""Serializers of judges and their calibrations."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from decisions.judges.calibrating import LONGEST_METRIC
from decisions.models import JudgeCalibration, JudgeSource
from workspaces.http.bodies import StrictBody


class JudgeBody(StrictBody):
    metric = serializers.CharField(max_length=LONGEST_METRIC, help_text="Metric of the judge's feedback")
    source = serializers.ChoiceField(  # type: ignore[assignment]
        choices=JudgeSource.choices, default=JudgeSource.LLM, help_text="Source of the judge's feedback"
    )


class JudgeNameSerializer(serializers.Serializer[Any]):
    metric = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]


class EstimateSerializer(serializers.Serializer[Any]):
    mean = serializers.FloatField()
    low = serializers.FloatField(help_text="Lower end of the 95% interval")
    high = serializers.FloatField()
    n = serializers.IntegerField(help_text="Decisions")
    clusters = serializers.IntegerField(help_text="Units of these decisions")


class SliceBiasSerializer(serializers.Serializer[Any]):
    cut = serializers.CharField(help_text="version or action")
    part = serializers.CharField()
    labels = serializers.IntegerField()
    error = EstimateSerializer(help_text="Score minus label; the interval holds for all slices together")
    apart = EstimateSerializer(help_text="`error` minus that of the other decisions")
    p = serializers.FloatField(help_text="p-value of no difference from the others, adjusted by Holm")


class AssessmentSerializer(serializers.Serializer[Any]):
    """What a judge is worth beside people."""

    scores = serializers.IntegerField()
    labels = serializers.IntegerField()
    units = serializers.IntegerField(help_text="Units with labels")
    corrected = EstimateSerializer(help_text="Estimated mean label of all scored decisions")
    labels_only = EstimateSerializer(help_text="The same from the labels alone")
    judged = EstimateSerializer(help_text="Mean of the judge's scores")
    tuning = serializers.FloatField(
        help_text="λ, the weight of the judge's scores in the corrected mean; 0: labels alone"
    )
    alpha = EstimateSerializer(help_text="Krippendorff's α of scores and labels")
    bias = EstimateSerializer(help_text="Score minus label")
    selected = EstimateSerializer(help_text="The judge's mean score of labelled decisions minus that of the others")
    by_length = EstimateSerializer(
        allow_null=True, help_text="Change of score minus label when a text is twice as long"
    )
    by_place = EstimateSerializer(
        allow_null=True, help_text="Score minus label of options listed first, minus that of options listed later"
    )
    by_slice = SliceBiasSerializer(many=True)


class DriftSerializer(serializers.Serializer[Any]):
    """Recent labels against those before."""

    old = serializers.IntegerField(help_text="Number of earlier labels")
    new = serializers.IntegerField()
    error = EstimateSerializer(help_text="Change of score minus label")
    size = EstimateSerializer(help_text="Change of its absolute value")
    p = serializers.FloatField(help_text="p-value of no change, adjusted by Holm; below 0.01 the judge has drifted")


class CalibrationSerializer(serializers.ModelSerializer[JudgeCalibration]):
    people_metric = serializers.CharField(help_text="Metric of people's feedback that the judge is compared with")
    since = serializers.DateTimeField(help_text="Only scores that arrived after this are measured")
    scores = serializers.IntegerField(help_text="Decisions with a score")
    labels = serializers.IntegerField(help_text="How many of them people labelled too")
    reasons = serializers.ListField(child=serializers.CharField(), help_text="Why it is not calibrated")
    warnings = serializers.ListField(child=serializers.CharField(), help_text="Biases that chance does not explain")
    assessment = AssessmentSerializer(allow_null=True, help_text="Null if there are too few labels")
    drift = DriftSerializer(allow_null=True, help_text="Null if there are too few labels to compare")

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

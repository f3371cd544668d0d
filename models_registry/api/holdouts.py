"""/api/v1/holdouts: units that keep a version while everybody else gets what is promoted."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from models_registry.api.serializers import ReasonSerializer, VersionField
from models_registry.experiments.holdouts import end_holdout, read_figures, start_holdout
from models_registry.experiments.ledger import Sums
from models_registry.experiments.log import LONGEST_REASON
from models_registry.models import Holdout
from models_registry.models.holdout_bounds import HOLDOUT_SECONDS, LARGEST_SHARE
from models_registry.statistics.holdouts import compare_arms
from models_registry.versions.references import find_version
from workspaces.http.bodies import StrictBody
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.models import Scope


class ComparisonSerializer(serializers.Serializer[Any]):
    """Units with a reward, and their mean rewards. The interval holds with 95%, at any time."""

    units_served = serializers.IntegerField()
    units_held = serializers.IntegerField()
    mean_served = serializers.FloatField(allow_null=True)
    mean_held = serializers.FloatField(allow_null=True)
    estimate = serializers.FloatField(allow_null=True, help_text="Served minus held; null below 50 units in either")
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)


class WeekSerializer(ComparisonSerializer):
    week = serializers.IntegerField(help_text="Weeks since the start: 0 is the first")


def compare_sums(sums: Sums) -> dict[str, Any]:
    interval = compare_arms(sums.served, sums.held)
    return {
        "units_served": sums.served.units,
        "units_held": sums.held.units,
        "mean_served": sums.served.mean,
        "mean_held": sums.held.mean,
        "estimate": interval.mean if interval else None,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
    }


class HoldoutSerializer(ComparisonSerializer):
    """The figures are of the whole time, as they were counted at `counted_at`, an hour ago at most while it runs."""

    id = serializers.UUIDField()
    model = serializers.CharField()
    version = serializers.CharField(help_text="The version that the held units keep")
    share = serializers.FloatField()
    reason = serializers.CharField()
    started_by = serializers.CharField()
    started_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    end_reason = serializers.CharField(help_text="Empty if it ended on time")
    counted_at = serializers.DateTimeField(allow_null=True)
    weeks = WeekSerializer(many=True)

    def to_representation(self, holdout: Holdout) -> dict[str, Any]:
        whole, weeks = read_figures(holdout)
        shown = dict(compare_sums(whole))
        for name in ("id", "share", "reason", "started_by", "started_at", "ends_at", "ended_at", "end_reason"):
            shown[name] = getattr(holdout, name)
        return {
            **shown,
            "model": holdout.registered_model.name,
            "version": str(holdout.version),
            "counted_at": holdout.counted_at,
            "weeks": [{"week": one.week} | compare_sums(one) for one in weeks],
        }


class HoldoutStartSerializer(StrictBody):
    version = VersionField(help_text="The version that the held units keep, usually the champion")
    share = serializers.FloatField(help_text=f"Share of its model's units, above 0, up to {LARGEST_SHARE:g}")
    seconds = serializers.FloatField(required=False, default=HOLDOUT_SECONDS, help_text="Default: 28 days")
    reason = serializers.CharField(max_length=LONGEST_REASON, help_text="Why; recorded in the audit log")


class HoldoutQuery(generics.GenericAPIView[Holdout]):
    def get_queryset(self) -> Any:
        holdouts = Holdout.objects.for_workspace(acting(self.request).workspace)
        return holdouts.select_related("registered_model", "version__registered_model")

    def answer(self, pk: UUID, status: int = 200) -> Response:
        return Response(HoldoutSerializer(self.get_queryset().get(pk=pk)).data, status=status)


class HoldoutList(HoldoutQuery, generics.ListAPIView[Holdout]):
    """Lists holdouts, newest first, with the difference between the units that are served and those that are held."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = HoldoutSerializer

    @extend_schema(
        operation_id="start_holdout",
        request=HoldoutStartSerializer,
        responses={"201": HoldoutSerializer, "404": ErrorSerializer},
    )
    def post(self, request: Request) -> Response:
        """Keeps a version for a share of its model's units, whatever is promoted meanwhile."""
        given = HoldoutStartSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        fields = dict(given.validated_data)
        version = find_version(acting(request).workspace, fields.pop("version"), field="version")
        return self.answer(start_holdout(by=acting(request), version=version, **fields).pk, 201)


class HoldoutDetail(HoldoutQuery, generics.RetrieveAPIView[Holdout]):
    """Reads one holdout, by week and as a whole."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = HoldoutSerializer


class HoldoutEnd(HoldoutQuery):
    """Ends a holdout before its time: its units get the champion."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="end_holdout", request=ReasonSerializer, responses={"200": HoldoutSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        holdout = generics.get_object_or_404(self.get_queryset(), pk=pk)
        given = ReasonSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        end_holdout(by=acting(request), holdout=holdout, reason=given.validated_data["reason"])
        return self.answer(pk)

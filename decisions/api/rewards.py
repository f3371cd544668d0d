"""/api/v1/rewards: calculates rewards now instead of at the daily hour."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response

from decisions.api.serializers.rewards import CalculationSerializer
from decisions.rewards.queueing import find_calculations, request_calculation
from jobs.models import Job
from workspaces.http.permissions import acting
from workspaces.models import Scope


class CalculationList(generics.ListAPIView[Job]):
    """Lists the calculations of rewards that people or programs requested, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = CalculationSerializer

    def get_queryset(self) -> Any:
        return find_calculations(acting(self.request).workspace)

    @extend_schema(operation_id="calculate_rewards", request=None, responses={"202": CalculationSerializer})
    def post(self, request: Request) -> Response:
        """Queues a calculation of all waiting rewards. While one is queued or running, it answers with that one."""
        return Response(CalculationSerializer(request_calculation(by=acting(request))).data, status=202)

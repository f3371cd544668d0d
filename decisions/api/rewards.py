"""/api/v1/rewards: lists them, and calculates them now instead of at the daily hour."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response

from decisions.api.list_places import find_place
from decisions.api.list_queries import RewardQuery
from decisions.api.serializers.feedback import ListedRewardSerializer
from decisions.api.serializers.rewards import CalculationSerializer
from decisions.models import Reward
from decisions.queries.reward_list import PLACE, find_rewards
from decisions.rewards.queueing import find_calculations, request_calculation
from jobs.models import Job
from workspaces.http.pagination import NewestFirst
from workspaces.http.permissions import acting
from workspaces.http.queries import list_query
from workspaces.models import Scope


class NewestDecisionsFirst(NewestFirst):
    """Rewards have no id of their own: their place in a list is that of their decision, then of spec and version."""

    ordering = f"-{PLACE}"
    id_column = "decision_id"

    def read_position(self, position: str) -> uuid.UUID:
        decision, spec, version = position.split("/")
        uuid.UUID(spec), int(version)
        return uuid.UUID(decision)


class RewardList(generics.ListAPIView[Reward]):
    """Lists rewards by their decisions, newest first, with every version: late feedback makes a new one."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = ListedRewardSerializer
    query_class = RewardQuery
    pagination_class = NewestDecisionsFirst

    def get_queryset(self) -> Any:
        return find_rewards(acting(self.request).workspace, list_query(self), **find_place(self, again=True))


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

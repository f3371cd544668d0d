"""/api/v1/experiment-groups: several versions against the champion at the same time."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Prefetch
from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response

from models_registry.api.serializers import ExperimentGroupSerializer, GroupStartSerializer, ReasonSerializer
from models_registry.experiments.groups import start_group, stop_group
from models_registry.models import Experiment, ExperimentGroup
from models_registry.versions.references import find_version
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.models import Scope


def select_groups(groups: Any) -> Any:
    """With all that an answer says of them."""
    experiments = Experiment.objects.select_related("registered_model", "promoted_version__registered_model")
    experiments = experiments.prefetch_related("variants__version__registered_model", "phases").order_by("lane_low")
    return groups.select_related("registered_model").prefetch_related(Prefetch("experiments", queryset=experiments))


class GroupQuery(generics.GenericAPIView[ExperimentGroup]):
    def get_queryset(self) -> Any:
        return select_groups(ExperimentGroup.objects.for_workspace(acting(self.request).workspace))

    def answer(self, pk: UUID, status: int = 200) -> Response:
        return Response(ExperimentGroupSerializer(self.get_queryset().get(pk=pk)).data, status=status)


class GroupList(GroupQuery, generics.ListAPIView[ExperimentGroup]):
    """Lists groups of experiments, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = ExperimentGroupSerializer

    @extend_schema(
        operation_id="start_experiment_group",
        request=GroupStartSerializer,
        responses={"201": ExperimentGroupSerializer, "404": ErrorSerializer},
    )
    def post(self, request: Request) -> Response:
        """Starts an experiment of each version against the champion; each has an equal part of the units to itself."""
        given = GroupStartSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        fields = given.validated_data
        treatments = [
            find_version(acting(request).workspace, named, field=f"treatments[{index}]")
            for index, named in enumerate(fields["treatments"])
        ]
        named = {name: fields[name] for name in ("name", "reason")}
        group = start_group(by=acting(request), treatments=treatments, plan=given.read_plan(), **named)
        return self.answer(group.pk, 201)


class GroupDetail(GroupQuery, generics.RetrieveAPIView[ExperimentGroup]):
    """Reads one group with its experiments and their evidence so far."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = ExperimentGroupSerializer


class GroupStop(GroupQuery):
    """Stops the experiments of a group that still run; the champion serves everyone again."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="stop_experiment_group", request=ReasonSerializer, responses={"200": ExperimentGroupSerializer}
    )
    def post(self, request: Request, pk: UUID) -> Response:
        group = generics.get_object_or_404(self.get_queryset(), pk=pk)
        given = ReasonSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        stop_group(by=acting(request), group=group, reason=given.validated_data["reason"])
        return self.answer(pk)

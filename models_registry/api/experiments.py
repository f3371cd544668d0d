"""/api/v1: models, versions, aliases, experiments."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Prefetch
from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response

from models_registry.api.list_queries import ExperimentListQuery, VersionListQuery, find_models, narrow
from models_registry.api.serializers import (
    EstimateSerializer,
    ExperimentDetailSerializer,
    ExperimentSerializer,
    ExperimentStartSerializer,
    LookSerializer,
    ModelVersionSerializer,
    OutlookSerializer,
    ReasonSerializer,
    RegisteredModelSerializer,
    ShareSerializer,
    VersionNoteSerializer,
)
from models_registry.experiments.log import list_looks
from models_registry.experiments.outlook import estimate_verdict
from models_registry.experiments.phases import change_share
from models_registry.experiments.promotion import promote_version, stop_experiment
from models_registry.experiments.services import start_experiment
from models_registry.models import Experiment, GateVerdict, Look, ModelVersion, RegisteredModel
from models_registry.versions.notes import note_version
from models_registry.versions.references import find_version
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.http.queries import list_query
from workspaces.models import Scope


class ModelList(generics.ListAPIView[RegisteredModel]):
    """Lists models and their champions."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = RegisteredModelSerializer

    def get_queryset(self) -> Any:
        models = RegisteredModel.objects.for_workspace(acting(self.request).workspace)
        return models.prefetch_related("aliases__version__registered_model")


class VersionQuery(generics.GenericAPIView[ModelVersion]):
    def find_version(self) -> ModelVersion:
        """The one of the path, by its ID or a reference. Raises UnknownVersion."""
        return find_version(acting(self.request).workspace, self.kwargs["pk"])

    def answer(self, version: ModelVersion) -> Response:
        return Response(ModelVersionSerializer(self.get_queryset().get(pk=version.pk)).data)

    def get_queryset(self) -> Any:
        return (
            ModelVersion.objects.for_workspace(acting(self.request).workspace)
            .select_related("registered_model", "artifact")
            .prefetch_related(
                "aliases",
                Prefetch("gate_verdicts", queryset=GateVerdict.objects.select_related("against__registered_model")),
            )
        )


class VersionList(VersionQuery, generics.ListAPIView[ModelVersion]):
    """Lists the versions of all models, newest first."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = ModelVersionSerializer
    query_class = VersionListQuery

    def get_queryset(self) -> Any:
        query, versions = list_query(self), super().get_queryset()
        if "agent" in query:
            models = find_models(acting(self.request).workspace, query)
            versions = versions.filter(registered_model__in=models)
        return narrow(versions, query)


class VersionDetail(VersionQuery, generics.RetrieveAPIView[ModelVersion]):
    """Reads one version, by its ID or as `filer:7` or `filer@champion`."""

    scopes = {"GET": Scope.EXPORT_READ, "PATCH": Scope.ADMIN}
    serializer_class = ModelVersionSerializer

    @extend_schema(
        operation_id="note_version", request=VersionNoteSerializer, responses={"200": ModelVersionSerializer}
    )
    def patch(self, request: Request, pk: str) -> Response:
        """Replaces a version's tags or notes."""
        version, given = self.find_version(), VersionNoteSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        return self.answer(note_version(by=acting(request), version=version, **given.validated_data))

    def get_object(self) -> ModelVersion:
        found: ModelVersion = self.get_queryset().get(pk=self.find_version().pk)
        return found


class VersionPromote(VersionQuery):
    """Makes a version champion by hand, once the model server has loaded it, and stops a running experiment of its
    model.
    """

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="promote_version", request=ReasonSerializer, responses={"200": ModelVersionSerializer})
    def post(self, request: Request, pk: str) -> Response:
        version = self.find_version()
        given = ReasonSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        promote_version(by=acting(request), version=version, reason=given.validated_data["reason"])
        return self.answer(version)


class ExperimentQuery(generics.GenericAPIView[Experiment]):
    def get_queryset(self) -> Any:
        return (
            Experiment.objects.for_workspace(acting(self.request).workspace)
            .select_related("registered_model", "promoted_version__registered_model")
            .prefetch_related("variants__version__registered_model", "phases")
        )


class ExperimentList(ExperimentQuery, generics.ListAPIView[Experiment]):
    """Lists experiments, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = ExperimentSerializer
    query_class = ExperimentListQuery

    def get_queryset(self) -> Any:
        return narrow(super().get_queryset(), list_query(self))

    @extend_schema(
        operation_id="start_experiment",
        request=ExperimentStartSerializer,
        responses={"201": ExperimentSerializer, "404": ErrorSerializer},
    )
    def post(self, request: Request) -> Response:
        """Starts an experiment of a version against the champion."""
        given = ExperimentStartSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        treatment = find_version(acting(request).workspace, given.validated_data["treatment"], field="treatment")
        named = {name: given.validated_data[name] for name in ("name", "reason")}
        experiment = start_experiment(by=acting(request), treatment=treatment, plan=given.read_plan(), **named)
        return Response(ExperimentSerializer(self.get_queryset().get(pk=experiment.pk)).data, status=201)


class ExperimentEstimate(generics.GenericAPIView[ModelVersion]):
    """Estimates how long an experiment would take until its verdict. It starts and changes nothing."""

    scopes = {"POST": Scope.EXPORT_READ}

    @extend_schema(
        operation_id="estimate_experiment",
        request=EstimateSerializer,
        responses={"200": OutlookSerializer, "404": ErrorSerializer},
    )
    def post(self, request: Request) -> Response:
        given = EstimateSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        treatment = find_version(acting(request).workspace, given.validated_data["treatment"], field="treatment")
        agent = given.validated_data.get("agent")
        outlook = estimate_verdict(model=treatment.registered_model, plan=given.read_plan(), agent=agent)
        return Response(OutlookSerializer(outlook).data)


class ExperimentDetail(ExperimentQuery, generics.RetrieveAPIView[Experiment]):
    """Reads one experiment with its evidence so far, and what it explores beside."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = ExperimentDetailSerializer


class ExperimentLooks(generics.ListAPIView[Look]):
    """Lists the log of an experiment, newest first: a row an hour and at every verdict, and whatever a person did."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = LookSerializer

    @extend_schema(
        operation_id="list_experiment_looks", responses={"200": LookSerializer(many=True), "404": ErrorSerializer}
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> Any:
        experiments = Experiment.objects.for_workspace(acting(self.request).workspace)
        return list_looks(generics.get_object_or_404(experiments, pk=self.kwargs["pk"]))


class ExperimentShare(ExperimentQuery):
    """Changes the share of the units that get the treatment: a new phase begins, and a ramp goes on from it."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="change_experiment_share", request=ShareSerializer, responses={"200": ExperimentSerializer}
    )
    def post(self, request: Request, pk: UUID) -> Response:
        experiment = generics.get_object_or_404(self.get_queryset(), pk=pk)
        given = ShareSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        change_share(by=acting(request), experiment=experiment, **given.validated_data)
        return Response(ExperimentSerializer(self.get_queryset().get(pk=pk)).data)


class ExperimentStop(ExperimentQuery):
    """Stops an experiment without a winner; the champion serves everyone again."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="stop_experiment", request=ReasonSerializer, responses={"200": ExperimentSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        experiment = generics.get_object_or_404(self.get_queryset(), pk=pk)
        given = ReasonSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        stop_experiment(by=acting(request), experiment=experiment, reason=given.validated_data["reason"])
        return Response(ExperimentSerializer(self.get_queryset().get(pk=pk)).data)

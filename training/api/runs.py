"""/api/v1: runs (start, watch, cancel)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiTypes, extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.agents.current import get_current_agent
from decisions.api.agent_lists import of_agent
from models_registry.versions.references import find_version
from training.api.list_queries import RunListQuery
from training.datasets.serializers import FreezingSerializer
from training.loops.first_model import services as first_models
from training.models import DatasetSnapshot, RunEvent, TrainingRun
from training.runs.notes import note_run
from training.runs.reward_models import resolve_reward_version
from training.runs.serializers import (
    RunCheckSerializer,
    RunEventSerializer,
    RunNoteSerializer,
    RunSamplesSerializer,
    RunSerializer,
    RunStartSerializer,
    SweepSerializer,
    SweepStartSerializer,
    TrainNewSerializer,
)
from training.runs.services import RunPlan, cancel_run, prepare_run, start_run
from training.runs.shown.curves import write_curves
from training.runs.shown.samples import NO_SAMPLES, read_samples
from training.runs.sweeps import start_sweep
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, NotFound
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.http.queries import list_query
from workspaces.http.rendering import OneFormat
from workspaces.models import Scope

CSV = "text/csv"


class RunQuery(generics.GenericAPIView[Any]):
    def get_queryset(self) -> Any:
        return TrainingRun.objects.for_workspace(acting(self.request).workspace).select_related(
            "agent", "produced_version__registered_model", "evaluation", "dataset", "heldout", "replay"
        )


class RunList(RunQuery, generics.ListAPIView[TrainingRun]):
    """Lists runs, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = RunSerializer
    query_class = RunListQuery

    def get_queryset(self) -> Any:
        query, runs = list_query(self), super().get_queryset()
        if "version" in query:
            runs = runs.filter(
                produced_version=find_version(acting(self.request).workspace, query["version"], field="version")
            )
        filters: dict[str, Any] = {"tags__contains": [query["tag"]]} if "tag" in query else {}
        filters |= {"state": query["state"]} if "state" in query else {}
        return of_agent(acting(self.request).workspace, runs, query).filter(**filters)

    @extend_schema(
        operation_id="start_run",
        request=RunStartSerializer,
        responses={"200": RunCheckSerializer, "201": RunSerializer, "404": ErrorSerializer, "507": ErrorSerializer},
    )
    def post(self, request: Request) -> Response:
        """Starts a run. With `dry_run` it only checks, and answers 200 with what the run would need."""
        given = RunStartSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        fields = given.validated_data
        current = get_current_agent(acting(request), fields["agent"])
        plan = _read_plan(request, fields)
        if fields["dry_run"]:
            prepared = prepare_run(current.agent, plan)
            estimate = prepared.estimate.as_plain() if prepared.estimate is not None else None
            return Response({"spec": prepared.spec, "estimate": estimate, "unchecked": prepared.unchecked})
        run = start_run(by=acting(request), agent=current.agent, plan=plan, tags=fields["tags"], notes=fields["notes"])
        return Response(RunSerializer(self.get_queryset().get(pk=run.pk)).data, status=201)


def _read_plan(request: Request, fields: Mapping[str, Any]) -> RunPlan:
    """Of a checked body. Raises NotFound."""
    datasets = DatasetSnapshot.objects.for_workspace(acting(request).workspace)
    base = fields.get("base_version")
    return RunPlan(
        method=fields["method"],
        dataset=_find(datasets, fields["dataset"], "dataset"),
        heldout=_find(datasets, fields.get("heldout"), "heldout"),
        replay=_find(datasets, fields.get("replay"), "replay"),
        base_version=find_version(acting(request).workspace, base, field="base_version") if base else None,
        base_model=fields["base_model"],
        settings=resolve_reward_version(acting(request).workspace, fields["settings"]),
    )


class SweepStart(APIView):
    """Starts a run for each combination of a grid of settings, or none where one of them could not start. The runs
    share a tag, and their notes say what they try."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="start_sweep",
        request=SweepStartSerializer,
        responses={"201": SweepSerializer, "404": ErrorSerializer, "507": ErrorSerializer},
    )
    def post(self, request: Request) -> Response:
        given = SweepStartSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        fields = given.validated_data
        current = get_current_agent(acting(request), fields["agent"])
        plan = _read_plan(request, fields)
        tag, runs = start_sweep(by=acting(request), agent=current.agent, plan=plan, grid=fields["grid"])
        return Response({"tag": tag, "runs": [run.pk for run in runs]}, status=201)


def find_dataset(by: Actor, pk: UUID | None, field: str) -> DatasetSnapshot | None:
    """The workspace's dataset that the field of a body names; None where it names none. Raises NotFound."""
    datasets = DatasetSnapshot.objects.for_workspace(by.workspace).select_related("agent")
    found: DatasetSnapshot | None = _find(datasets, pk, field)
    return found


def _find(queryset: Any, pk: UUID | None, field: str) -> Any:
    if pk is None:
        return None
    found = queryset.filter(pk=pk).first()
    if found is None:
        raise NotFound(
            f"{field} not found.",
            faults=[FieldFault(field, "does not exist in this workspace", "an ID in this workspace")],
        )
    return found


class TrainNew(APIView):
    """Trains an agent on the decisions that no run has learnt from: they become a dataset, and a run with default
    settings starts on it. An agent without a model gets its first one, from people's verdicts that name the right
    action: a run teaches `base_model` with them, a second one goes on with all decisions. A second call while that is
    under way finds the first.
    """

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="train_on_new_decisions",
        request=TrainNewSerializer,
        responses={"202": FreezingSerializer, "404": ErrorSerializer},
    )
    def post(self, request: Request) -> Response:
        given = TrainNewSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        fields = given.validated_data
        current = get_current_agent(acting(request), fields["agent"])
        job = first_models.start_training(
            by=acting(request), agent=current.agent, base_model=fields["base_model"], lora=fields["lora"]
        )
        return Response(FreezingSerializer(job).data, status=202)


class RunDetail(RunQuery, generics.RetrieveAPIView[TrainingRun]):
    """Reads one run with its progress and, at its end, its scores."""

    scopes = {"GET": Scope.EXPORT_READ, "PATCH": Scope.ADMIN}
    serializer_class = RunSerializer

    @extend_schema(operation_id="note_run", request=RunNoteSerializer, responses={"200": RunSerializer})
    def patch(self, request: Request, pk: UUID) -> Response:
        """Replaces a run's tags or notes."""
        given = RunNoteSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        run = generics.get_object_or_404(self.get_queryset(), pk=pk)
        noted = note_run(by=acting(request), run=run, **given.validated_data)
        return Response(RunSerializer(noted).data)


class RunEvents(RunQuery, generics.ListAPIView[RunEvent]):
    """Lists the events of a run's engine, newest first."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = RunEventSerializer

    def get_queryset(self) -> Any:
        run = generics.get_object_or_404(super().get_queryset(), pk=self.kwargs["pk"])
        return RunEvent.objects.filter(run=run)


class RunCurves(RunQuery):
    """Streams a run's curves as CSV: every point, as `curve,step,value`. Of a resumed run the newest attempt counts."""

    scopes = {"GET": Scope.EXPORT_READ}
    content_negotiation_class = OneFormat

    @extend_schema(operation_id="read_run_curves", responses={(200, CSV): OpenApiTypes.STR, "404": ErrorSerializer})
    def get(self, request: Request, pk: UUID) -> HttpResponseBase:
        run = generics.get_object_or_404(self.get_queryset(), pk=pk)
        return StreamingHttpResponse(
            write_curves(run),
            content_type=f"{CSV}; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="curves-{run.pk}.csv"'},
        )


class RunSamples(RunQuery):
    """Reads a run's sample answers: to a few rows, before the training and now. Of a resumed run the newest attempt's;
    without any, or once rows of the run were erased, `step` is null and `rows` is empty."""

    scopes = {"GET": Scope.EXPORT_READ}

    @extend_schema(operation_id="read_run_samples", responses={"200": RunSamplesSerializer, "404": ErrorSerializer})
    def get(self, request: Request, pk: UUID) -> Response:
        run = generics.get_object_or_404(self.get_queryset().select_related("dataset", "heldout", "replay"), pk=pk)
        return Response(RunSamplesSerializer(read_samples(run) or NO_SAMPLES).data)


class RunCancel(RunQuery):
    """Cancels a run. A running one leaves a checkpoint first."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="cancel_run", request=None, responses={"200": RunSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        run = generics.get_object_or_404(self.get_queryset(), pk=pk)
        cancel_run(by=acting(request), run=run)
        return Response(RunSerializer(self.get_queryset().get(pk=pk)).data)

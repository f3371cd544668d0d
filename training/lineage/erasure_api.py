"""/api/v1: erasures of people, and rebuilding the datasets that they mark."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from training.datasets.freezing import start_rebuild
from training.datasets.serializers import DatasetSerializer, FreezingSerializer
from training.lineage.erasure import LONGEST, preview_erasure, read_person, start_erasure
from training.models import DatasetSnapshot, Erasure
from workspaces.http.bodies import StrictBody, exactly_one_of
from workspaces.http.permissions import acting
from workspaces.models import Scope


class ErasureSerializer(serializers.ModelSerializer[Erasure]):
    """Without the person: `fingerprint` tells only who knows the name whether this was theirs."""

    state = serializers.CharField(help_text="queued, running, succeeded, dead or cancelled")
    progress = serializers.SerializerMethodField()
    message = serializers.SerializerMethodField()

    class Meta:
        model = Erasure
        fields = (
            "id", "kind", "fingerprint", "state", "progress", "message", "counts", "requested_by", "created_at",
            "finished_at",
        )  # fmt: skip

    def get_progress(self, erasure: Erasure) -> float:
        if erasure.finished_at is not None:
            return 1.0
        return erasure.job.progress if erasure.job is not None else 0.0

    def get_message(self, erasure: Erasure) -> str:
        return (erasure.job.error or erasure.job.message) if erasure.job is not None else ""


class ErasureStartSerializer(StrictBody):
    """Exactly one of `unit` and `user`."""

    together = exactly_one_of("unit", "user")
    unit = serializers.CharField(max_length=LONGEST, required=False, trim_whitespace=False)
    user = serializers.CharField(max_length=LONGEST, required=False, trim_whitespace=False)
    dry_run = serializers.BooleanField(default=False)


class ErasurePreviewSerializer(serializers.Serializer[Any]):
    dry_run = serializers.BooleanField()
    counts = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="Rows that would change, by kind. `items_shared` and `projects_shared` would stay.",
    )


class ErasureList(generics.ListAPIView[Erasure]):
    """Lists erasures, newest first, without saying of whom."""

    scopes = {"GET": Scope.ADMIN, "POST": Scope.ADMIN}
    serializer_class = ErasureSerializer

    def get_queryset(self) -> Any:
        return Erasure.objects.for_workspace(acting(self.request).workspace).select_related("job")

    @extend_schema(
        operation_id="start_erasure",
        request=ErasureStartSerializer,
        responses={"201": ErasureSerializer, "200": ErasurePreviewSerializer},
    )
    def post(self, request: Request) -> Response:
        """Erases a person, or with `dry_run` counts what would be found."""
        given = ErasureStartSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        fields = given.validated_data
        person = read_person(unit=fields.get("unit"), user=fields.get("user"))
        if fields["dry_run"]:
            counts = preview_erasure(workspace=acting(request).workspace, person=person)
            return Response({"dry_run": True, "counts": counts})
        return Response(ErasureSerializer(start_erasure(by=acting(request), person=person)).data, status=201)


class ErasureDetail(generics.RetrieveAPIView[Erasure]):
    """Reads the progress or the result of one erasure."""

    scopes = {"GET": Scope.ADMIN}
    serializer_class = ErasureSerializer

    def get_queryset(self) -> Any:
        return Erasure.objects.for_workspace(acting(self.request).workspace).select_related("job")


class DatasetRebuild(generics.GenericAPIView[DatasetSnapshot]):
    """Queues a job that makes the dataset again from the ledger, without what was erased."""

    scopes = {"POST": Scope.ADMIN}
    serializer_class = DatasetSerializer

    def get_queryset(self) -> Any:
        datasets = DatasetSnapshot.objects.for_workspace(acting(self.request).workspace)
        return datasets.select_related("agent", "artifact", "reward_spec")

    @extend_schema(operation_id="rebuild_dataset", request=None, responses={"202": FreezingSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        job = start_rebuild(by=acting(request), dataset=self.get_object())
        return Response(FreezingSerializer(job).data, status=202)

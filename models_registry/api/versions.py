"""/api/v1: what people say of a version: notes, approval, retirement; and taking back the last move of an alias."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from models_registry.api.experiments import VersionQuery
from models_registry.api.serializers import ModelVersionSerializer
from models_registry.api.serving_serializers import AliasMoveSerializer, RevertSerializer
from models_registry.experiments.reverting import revert_alias
from models_registry.models import AliasMove, RegisteredModel
from models_registry.versions.approval import LONGEST_NOTE, approve_version, withdraw_approval
from models_registry.versions.retirement import restore_version, retire_version
from workspaces.http.bodies import StrictBody
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.models import Scope


class RetireSerializer(StrictBody):
    reason = serializers.CharField(max_length=200, help_text="Why; recorded in the audit log")


class ApprovalSerializer(StrictBody):
    note = serializers.CharField(max_length=LONGEST_NOTE, required=False, default="", allow_blank=True)


class VersionApprove(VersionQuery):
    """Approves of a version: who, when, and a note are kept."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="approve_version", request=ApprovalSerializer, responses={"200": ModelVersionSerializer}
    )
    def post(self, request: Request, pk: str) -> Response:
        """A workspace may want it before a version is promoted or tried (`approval_required`)."""
        version, given = self.find_version(), ApprovalSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        return self.answer(approve_version(by=acting(request), version=version, note=given.validated_data["note"]))


class VersionApprovalWithdraw(VersionQuery):
    """Withdraws the approval of a version. What serves already goes on serving."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="withdraw_approval", request=None, responses={"200": ModelVersionSerializer})
    def post(self, request: Request, pk: str) -> Response:
        return self.answer(withdraw_approval(by=acting(request), version=self.find_version()))


class VersionRetire(VersionQuery):
    """Retires a version that nothing uses."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="retire_version",
        request=RetireSerializer,
        responses={"200": ModelVersionSerializer, "409": ErrorSerializer},
    )
    def post(self, request: Request, pk: str) -> Response:
        """Nothing new begins with it. Its files go `RECKONER_KEEP_ARTIFACT_DAYS` later, unless something else holds
        them; until then it can be restored."""
        version, given = self.find_version(), RetireSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        return self.answer(retire_version(by=acting(request), version=version, reason=given.validated_data["reason"]))


class VersionRestore(VersionQuery):
    """Brings a retired version back, while its files are there."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="restore_version", request=None, responses={"200": ModelVersionSerializer})
    def post(self, request: Request, pk: str) -> Response:
        return self.answer(restore_version(by=acting(request), version=self.find_version()))


class AliasRevert(generics.GenericAPIView[AliasMove]):
    """Takes back the last move of a model's alias."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="revert_alias",
        request=RevertSerializer,
        responses={"200": AliasMoveSerializer, "404": ErrorSerializer, "409": ErrorSerializer},
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Answers with the move that this made. Reverting the champion promotes the version that was champion before,
        and ends a running experiment. Experiments move the challenger."""
        models = RegisteredModel.objects.for_workspace(acting(request).workspace)
        model, given = generics.get_object_or_404(models, pk=pk), RevertSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        told = given.validated_data
        made = revert_alias(
            by=acting(request), model=model, name=told["alias"], move=told["move"], reason=told["reason"]
        )
        return Response(AliasMoveSerializer(made).data)

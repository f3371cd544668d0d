"""/api/v1: backends, deployments, remote versions, free aliases and calls."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from models_registry.api.experiments import VersionQuery
from models_registry.api.list_queries import CallListQuery, find_models
from models_registry.api.serializers import ModelVersionSerializer
from models_registry.api.serving_serializers import (
    AliasMoveSerializer,
    AliasSerializer,
    BackendChangeSerializer,
    BackendCreateSerializer,
    BackendSerializer,
    CallSerializer,
    DeploymentChangeSerializer,
    DeploymentCreateSerializer,
    DeploymentSerializer,
    KeyUseSerializer,
    RemoteVersionSerializer,
)
from models_registry.backends import services as serving
from models_registry.backends.checking import find_error, note_state
from models_registry.backends.endpoint import endpoint_of
from models_registry.calls.key_limits import measure_key_use
from models_registry.calls.lists import find_calls, read_filters
from models_registry.models import AliasMove, Backend, Call, Deployment, RegisteredModel
from models_registry.versions.references import find_version
from workspaces.access.actors import program
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.http.queries import list_query
from workspaces.http.throttling import count_this_minute
from workspaces.models import ApiKey, Scope
from workspaces.storage.clock import database_now


def _given(serializer: Any) -> dict[str, Any]:
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def _backend(request: Request, pk: UUID) -> Backend:
    return generics.get_object_or_404(Backend.objects.for_workspace(acting(request).workspace), pk=pk)


class BackendQuery(generics.GenericAPIView[Backend]):
    def get_queryset(self) -> Any:
        return Backend.objects.for_workspace(acting(self.request).workspace)


class BackendList(BackendQuery, generics.ListAPIView[Backend]):
    """Lists the backends with their state, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = BackendSerializer

    @extend_schema(operation_id="add_backend", request=BackendCreateSerializer, responses={"201": BackendSerializer})
    def post(self, request: Request) -> Response:
        """Adds a backend where the operator allows it."""
        setup = serving.BackendSetup(**_given(BackendCreateSerializer(data=request.data)))
        return Response(BackendSerializer(serving.add_backend(by=acting(request), setup=setup)).data, status=201)


class BackendDetail(BackendQuery, generics.RetrieveAPIView[Backend]):
    """Reads a backend."""

    scopes = {"GET": Scope.EXPORT_READ, "PATCH": Scope.ADMIN, "DELETE": Scope.ADMIN}
    serializer_class = BackendSerializer

    @extend_schema(operation_id="change_backend", request=BackendChangeSerializer, responses={"200": BackendSerializer})
    def patch(self, request: Request, pk: UUID) -> Response:
        """Changes a backend, or switches it off and on."""
        backend = _backend(request, pk)
        changes = _given(BackendChangeSerializer(data=request.data))
        return Response(
            BackendSerializer(serving.change_backend(by=acting(request), backend=backend, changes=changes)).data
        )

    @extend_schema(operation_id="remove_backend", request=None, responses={"200": BackendSerializer})
    def delete(self, request: Request, pk: UUID) -> Response:
        """Removes a backend that nothing is deployed on and no call names."""
        backend = _backend(request, pk)
        shown = BackendSerializer(backend).data
        serving.remove_backend(by=acting(request), backend=backend)
        return Response(shown)


class BackendCheck(BackendQuery):
    """Asks a backend now whether it answers, and notes it."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="check_backend", request=None, responses={"200": BackendSerializer})
    def post(self, request: Request, pk: UUID) -> Response:
        backend = _backend(request, pk)
        note_state(backend, find_error(endpoint_of(backend)))
        return Response(BackendSerializer(self.get_queryset().get(pk=pk)).data)


class RemoteVersionList(VersionQuery):
    """Adds a version that a backend serves under a name of its own."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="add_remote_version",
        request=RemoteVersionSerializer,
        responses={"201": ModelVersionSerializer, "404": ErrorSerializer},
    )
    def post(self, request: Request) -> Response:
        """The model's first version serves at once."""
        given = _given(RemoteVersionSerializer(data=request.data))
        models = RegisteredModel.objects.for_workspace(acting(request).workspace)
        version = serving.add_remote_version(
            by=acting(request),
            model=generics.get_object_or_404(models, name=given["model"]),
            remote_name=given["remote_name"],
            backend=_backend(request, given["backend"]),
            description=given["description"],
        )
        return Response(ModelVersionSerializer(self.get_queryset().get(pk=version.pk)).data, status=201)


class DeploymentList(generics.ListAPIView[Deployment]):
    """Lists where a version is deployed, in the order in which its backends are asked."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = DeploymentSerializer
    pagination_class = None

    def get_queryset(self) -> Any:
        version = find_version(acting(self.request).workspace, self.kwargs["pk"])
        return Deployment.objects.filter(version=version).select_related("backend", "version__registered_model")

    @extend_schema(
        operation_id="deploy_version", request=DeploymentCreateSerializer, responses={"201": DeploymentSerializer}
    )
    def post(self, request: Request, pk: str) -> Response:
        """Deploys the version on a backend."""
        version = find_version(acting(request).workspace, pk)
        given = _given(DeploymentCreateSerializer(data=request.data))
        backend = _backend(request, given.pop("backend"))
        deployment = serving.deploy_version(by=acting(request), version=version, backend=backend, **given)
        return Response(DeploymentSerializer(deployment).data, status=201)


class DeploymentDetail(generics.GenericAPIView[Deployment]):
    """Changes a deployment, or takes a version from a backend."""

    scopes = {"PATCH": Scope.ADMIN, "DELETE": Scope.ADMIN}

    @extend_schema(
        operation_id="change_deployment",
        request=DeploymentChangeSerializer,
        responses={"200": DeploymentSerializer, "409": ErrorSerializer},
    )
    def patch(self, request: Request, pk: UUID) -> Response:
        """Changes a deployment's priority, or switches it off and on."""
        found = self._find(request, pk)
        given = _given(DeploymentChangeSerializer(data=request.data))
        serving.change_deployment(by=acting(request), deployment=found, **given)
        return Response(DeploymentSerializer(self._find(request, pk)).data)

    def _find(self, request: Request, pk: UUID) -> Deployment:
        deployments = Deployment.objects.for_workspace(acting(request).workspace)
        return generics.get_object_or_404(
            deployments.select_related("version__registered_model", "version__artifact", "backend"), pk=pk
        )

    @extend_schema(operation_id="remove_deployment", request=None, responses={"200": DeploymentSerializer})
    def delete(self, request: Request, pk: UUID) -> Response:
        """Not the last place of a remote version that serves."""
        found = self._find(request, pk)
        shown = DeploymentSerializer(found).data
        serving.remove_deployment(by=acting(request), deployment=found)
        return Response(shown)


class VersionAliases(VersionQuery):
    """Points a free alias, or `fallback`, at the version."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="point_alias", request=AliasSerializer, responses={"200": ModelVersionSerializer})
    def post(self, request: Request, pk: str) -> Response:
        """Points a free alias, or `fallback`, at the version. Promotions and experiments move the others."""
        given = _given(AliasSerializer(data=request.data))
        version = self.find_version()
        serving.point_alias(by=acting(request), version=version, name=given["alias"], reason=given["reason"])
        return self.answer(version)


class VersionAliasRemove(VersionQuery):
    """Takes an alias from the version, where it has it."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="remove_alias", request=AliasSerializer, responses={"200": ModelVersionSerializer})
    def post(self, request: Request, pk: str) -> Response:
        given = _given(AliasSerializer(data=request.data))
        version = self.find_version()
        serving.remove_alias(by=acting(request), version=version, name=given["alias"], reason=given["reason"])
        return self.answer(version)


class AliasMoveList(generics.ListAPIView[AliasMove]):
    """Lists the changes of a model's aliases, newest first: who, when, why, from where to where."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = AliasMoveSerializer

    def get_queryset(self) -> Any:
        models = RegisteredModel.objects.for_workspace(acting(self.request).workspace)
        model = generics.get_object_or_404(models, pk=self.kwargs["pk"])
        return AliasMove.objects.filter(registered_model=model).select_related(
            "before__registered_model", "after__registered_model"
        )


class CallList(generics.ListAPIView[Call]):
    """Lists questions to the gateway, newest first."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = CallSerializer

    query_class = CallListQuery

    @extend_schema(responses={"200": CallSerializer(many=True), "404": ErrorSerializer})
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> Any:
        query, workspace = list_query(self), acting(self.request).workspace
        if "agent" in query:
            find_models(workspace, query)
        return find_calls(workspace, read_filters(query))


class KeyUseDetail(APIView):
    """Reads what a key used since 00:00 UTC, and in this minute."""

    scopes = {"GET": Scope.ADMIN}

    @extend_schema(operation_id="read_key_use", responses={"200": KeyUseSerializer, "404": ErrorSerializer})
    def get(self, request: Request, pk: UUID) -> Response:
        key = generics.get_object_or_404(ApiKey.objects.for_workspace(acting(request).workspace), pk=pk)
        use = measure_key_use(key, now=database_now())
        return Response(KeyUseSerializer({**asdict(use), "requests": count_this_minute(program(key))}).data)

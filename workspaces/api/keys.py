"""/api/v1/keys: list, make, limit, rotate and revoke. A secret is shown in one answer only."""

from __future__ import annotations

import datetime as dt
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workspaces.access import services
from workspaces.api.serializers import (
    KeyCreateSerializer,
    KeyLimitsSerializer,
    KeyRotateSerializer,
    KeySerializer,
    NewKeySerializer,
)
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.models import ApiKey, Scope


class NewKeyResponse(Response):
    """What is kept for a repeat (workspaces.http.idempotency) has null in the secret's place."""

    @property
    def kept_content(self) -> bytes:
        content: bytes = JSONRenderer().render({**self.data, "token": None})
        return content


def new_key_answer(made: services.NewKey, *, status: int) -> NewKeyResponse:
    return NewKeyResponse({**KeySerializer(made.key).data, "token": made.token}, status=status)


def find_own_key(request: Request, pk: Any) -> ApiKey:
    return generics.get_object_or_404(ApiKey.objects.for_workspace(acting(request).workspace), pk=pk)


class KeyList(generics.ListCreateAPIView[ApiKey]):
    """Lists the workspace's keys, without their secrets."""

    scopes = {"GET": Scope.ADMIN, "POST": Scope.ADMIN}
    serializer_class = KeySerializer

    def get_queryset(self) -> Any:
        return ApiKey.objects.for_workspace(acting(self.request).workspace)

    @extend_schema(operation_id="create_key", request=KeyCreateSerializer, responses={"201": NewKeySerializer})
    def post(self, request: Request) -> Response:
        """Makes a key. Its secret is shown once."""
        given = KeyCreateSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        return new_key_answer(services.create_api_key(by=acting(request), **given.validated_data), status=201)


class KeyDetail(APIView):
    """Changes the limits of a key."""

    scopes = {"PATCH": Scope.ADMIN}

    @extend_schema(
        operation_id="change_key",
        request=KeyLimitsSerializer,
        responses={"200": KeySerializer, "409": ErrorSerializer},
    )
    def patch(self, request: Request, pk: Any) -> Response:
        """Changes what a key may ask and spend, from its next request on. What is left out stays as it is."""
        key = find_own_key(request, pk)
        given = KeyLimitsSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        changed = services.change_key_limits(by=acting(request), key=key, changes=given.validated_data)
        return Response(KeySerializer(changed).data)


class KeyRotate(APIView):
    """Gives a key a new secret; the old one works until `previous_until`."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="rotate_key", request=KeyRotateSerializer, responses={"200": NewKeySerializer})
    def post(self, request: Request, pk: Any) -> Response:
        key = find_own_key(request, pk)
        given = KeyRotateSerializer(data=request.data or {})
        given.is_valid(raise_exception=True)
        overlap = dt.timedelta(seconds=given.validated_data["overlap_seconds"])
        return new_key_answer(services.rotate_api_key(by=acting(request), key=key, overlap=overlap), status=200)


class KeyRevoke(APIView):
    """Ends a key at once. A second call changes nothing."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="revoke_key", request=None, responses={"200": KeySerializer})
    def post(self, request: Request, pk: Any) -> Response:
        key = find_own_key(request, pk)
        services.revoke_api_key(by=acting(request), key=key)
        key.refresh_from_db()
        return Response(KeySerializer(key).data)

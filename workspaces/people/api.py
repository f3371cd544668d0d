"""/api/v1/members, /invitations, /workspace, /workspaces, /audit: people and what they did. Their scope is admin."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workspaces.audit.queries import find_entries, read_filter
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.http.queries import ListQuery, list_query
from workspaces.models import AuditEntry, Invitation, Membership, Scope
from workspaces.people import invitations, members
from workspaces.people.creation import create_workspace_by_api
from workspaces.people.serializers import (
    AuditEntrySerializer,
    InvitationCreateSerializer,
    InvitationSerializer,
    MemberChangeSerializer,
    MemberSerializer,
    NewInvitationSerializer,
    WorkspaceChangeSerializer,
    WorkspaceCreateSerializer,
    WorkspaceSerializer,
)


class AuditQuery(ListQuery):
    """Its `since` and `until` are days (`workspaces.audit.queries`)."""

    actor = serializers.CharField(
        required=False, max_length=254, help_text="Only actions of this e-mail address, key or `system`"
    )
    action = serializers.CharField(required=False, max_length=64, help_text="Only this action, such as person.invited")
    target = serializers.CharField(
        required=False, max_length=128, help_text="Only actions on this target, such as user:ID"
    )
    since = serializers.CharField(required=False, help_text="From this day on (UTC)")  # type: ignore[assignment]
    until = serializers.CharField(required=False, help_text="Up to and including this day (UTC)")  # type: ignore[assignment]


class NewInvitationResponse(Response):
    """What is kept for a repeat (workspaces.http.idempotency) has null in the link's place."""

    @property
    def kept_content(self) -> bytes:
        content: bytes = JSONRenderer().render({**self.data, "url": None})
        return content


class MemberList(generics.ListAPIView[Membership]):
    """Lists the people of the workspace, newest first."""

    scopes = {"GET": Scope.ADMIN}
    serializer_class = MemberSerializer

    def get_queryset(self) -> Any:
        return Membership.objects.filter(workspace=acting(self.request).workspace).select_related("user")


class MemberDetail(APIView):
    """Changes a person's role, deactivates or reactivates them."""

    scopes = {"PATCH": Scope.ADMIN}

    @extend_schema(
        operation_id="change_member",
        request=MemberChangeSerializer,
        responses={"200": MemberSerializer, "409": ErrorSerializer},
    )
    def patch(self, request: Request, pk: Any) -> Response:
        by = acting(request)
        membership = generics.get_object_or_404(Membership.objects.filter(workspace=by.workspace), pk=pk)
        given = MemberChangeSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        members.change_member(by=by, membership=membership, **given.validated_data)
        found = Membership.objects.select_related("user").get(pk=membership.pk)
        return Response(MemberSerializer(found).data)


class InvitationList(generics.ListCreateAPIView[Invitation]):
    """Lists the workspace's invitations, without their links."""

    scopes = {"GET": Scope.ADMIN, "POST": Scope.ADMIN}
    serializer_class = InvitationSerializer

    def get_queryset(self) -> Any:
        return Invitation.objects.for_workspace(acting(self.request).workspace)

    @extend_schema(
        operation_id="invite_person", request=InvitationCreateSerializer, responses={"201": NewInvitationSerializer}
    )
    def post(self, request: Request) -> Response:
        """Invites a person. The link is in this answer only."""
        given = InvitationCreateSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        made = invitations.invite_person(by=acting(request), **given.validated_data)
        url = request.build_absolute_uri(made.path)
        return NewInvitationResponse({**InvitationSerializer(made.invitation).data, "url": url}, status=201)


class InvitationRevoke(APIView):
    """Ends an invitation's link at once. A second call changes nothing."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="revoke_invitation", request=None, responses={"200": InvitationSerializer})
    def post(self, request: Request, pk: Any) -> Response:
        by = acting(request)
        invitation = generics.get_object_or_404(Invitation.objects.for_workspace(by.workspace), pk=pk)
        invitations.revoke_invitation(by=by, invitation=invitation)
        invitation.refresh_from_db()
        return Response(InvitationSerializer(invitation).data)


class WorkspaceDetail(APIView):
    """Reads the workspace of the key, or of the header X-Workspace."""

    scopes = {"GET": Scope.ADMIN, "PATCH": Scope.ADMIN}

    @extend_schema(operation_id="read_workspace", responses={"200": WorkspaceSerializer})
    def get(self, request: Request) -> Response:
        return Response(WorkspaceSerializer(acting(request).workspace).data)

    @extend_schema(
        operation_id="change_workspace", request=WorkspaceChangeSerializer, responses={"200": WorkspaceSerializer}
    )
    def patch(self, request: Request) -> Response:
        """Renames the workspace, or says whether versions need an approval."""
        given = WorkspaceChangeSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        return Response(WorkspaceSerializer(members.change_workspace(by=acting(request), **given.validated_data)).data)


class WorkspaceCreate(APIView):
    """Makes a workspace, with an admin of this one as its admin. Keys of this one do not open it."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="create_workspace", request=WorkspaceCreateSerializer, responses={"201": WorkspaceSerializer}
    )
    def post(self, request: Request) -> Response:
        given = WorkspaceCreateSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        made = create_workspace_by_api(by=acting(request), **given.validated_data)
        return Response(WorkspaceSerializer(made).data, status=201)


class AuditList(generics.ListAPIView[AuditEntry]):
    """Lists the entries of the audit, newest first."""

    scopes = {"GET": Scope.ADMIN}
    serializer_class = AuditEntrySerializer
    query_class = AuditQuery

    def get_queryset(self) -> Any:
        return find_entries(acting(self.request).workspace, read_filter(list_query(self)))

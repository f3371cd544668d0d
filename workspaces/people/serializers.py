"""Serializers of people and invitations."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework import serializers

from workspaces.http.bodies import StrictBody
from workspaces.models import AuditEntry, Invitation, Membership, Role, Workspace


class MemberSerializer(serializers.ModelSerializer[Membership]):
    """A person's place in the workspace. `id` is the membership's."""

    email = serializers.EmailField(source="user.email", read_only=True)
    name = serializers.CharField(source="user.name", read_only=True)
    state = serializers.SerializerMethodField(help_text="active or deactivated, in this workspace or the whole account")
    last_log_in = serializers.DateTimeField(source="user.last_login", read_only=True, allow_null=True)

    class Meta:
        model = Membership
        fields = ("id", "email", "name", "role", "state", "created_at", "last_log_in")
        read_only_fields = fields

    def get_state(self, membership: Membership) -> str:
        active = membership.deactivated_at is None and membership.user.is_active
        return "active" if active else "deactivated"


class MemberChangeSerializer(StrictBody):
    together = {"minProperties": 1}
    role = serializers.ChoiceField(choices=Role.choices, required=False)
    active = serializers.BooleanField(required=False, help_text="false deactivates the person, true reactivates them")

    def validate(self, given: dict[str, Any]) -> dict[str, Any]:
        if not given:
            raise serializers.ValidationError("Give role, active or both.")
        return given


class InvitationSerializer(serializers.ModelSerializer[Invitation]):
    """An invitation without its link."""

    state = serializers.SerializerMethodField(help_text="open, accepted, revoked or expired")

    class Meta:
        model = Invitation
        fields = ("id", "email", "role", "state", "created_at", "expires_at", "accepted_at", "revoked_at")
        read_only_fields = fields

    def get_state(self, invitation: Invitation) -> str:
        return invitation.state(timezone.now())


class NewInvitationSerializer(InvitationSerializer):
    """With `url`, the link, which is shown once; null where the answer is a repeat's."""

    url = serializers.URLField(allow_null=True, read_only=True)

    class Meta(InvitationSerializer.Meta):
        fields = (*InvitationSerializer.Meta.fields, "url")  # type: ignore[assignment]
        read_only_fields = fields  # type: ignore[assignment]


class InvitationCreateSerializer(StrictBody):
    email = serializers.EmailField(max_length=254)
    role = serializers.ChoiceField(choices=Role.choices)


class WorkspaceSerializer(serializers.ModelSerializer[Workspace]):
    class Meta:
        model = Workspace
        fields = ("id", "slug", "name", "approval_required", "created_at")
        read_only_fields = fields


class WorkspaceCreateSerializer(StrictBody):
    name = serializers.CharField(max_length=200)
    slug = serializers.SlugField(max_length=63, required=False, help_text="Default: made from the name")
    admin = serializers.EmailField(
        max_length=254,
        required=False,
        help_text="An admin of this workspace who becomes the new one's. Default: the person who asks; required with"
        " a key",
    )


class WorkspaceChangeSerializer(StrictBody):
    """What is left out stays as it is."""

    name = serializers.CharField(max_length=200, required=False)
    approval_required = serializers.BooleanField(
        required=False, help_text="Whether a version needs an approval before it gets traffic"
    )


class AuditEntrySerializer(serializers.ModelSerializer[AuditEntry]):
    details = serializers.DictField(read_only=True)

    class Meta:
        model = AuditEntry
        fields = ("id", "at", "actor", "action", "target", "details")
        read_only_fields = fields

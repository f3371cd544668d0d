"""Invitations: an admin makes a link for one e-mail address; whoever opens it joins the workspace with its role."""

from __future__ import annotations

import datetime as dt
import secrets
from dataclasses import dataclass
from urllib.parse import urlencode

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from workspaces.access.actors import Actor, person
from workspaces.access.key_bounds import refuse_new_admin
from workspaces.access.services import record_audit, secret_hmac
from workspaces.errors import Conflict, FieldFault, InvalidInput, ReckonerError
from workspaces.models import Invitation, Membership, Role, User, WorkspaceQuerySet

LIFE = dt.timedelta(days=7)


class InvitationOver(ReckonerError):
    """Unknown, accepted, revoked or expired: one answer for all, since a link says nothing about others."""

    status = 410
    code = "invitation_over"


@dataclass(frozen=True, slots=True)
class NewInvitation:
    """`token` is shown once, in `path`, and stored nowhere."""

    invitation: Invitation
    token: str

    @property
    def path(self) -> str:
        """In the query, which no log keeps."""
        return f"{reverse('invitation')}?{urlencode({'token': self.token})}"


def read_role(role: str) -> str:
    """Raises InvalidInput for anything but viewer, labeller and admin."""
    if role not in Role.values:
        raise InvalidInput(
            "The role is unknown.",
            faults=[FieldFault("role", f"{role!r} is not a role", f"one of {', '.join(Role.values)}")],
        )
    return role


@transaction.atomic
def invite_person(*, by: Actor, email: str, role: str) -> NewInvitation:
    """Replaces an open invitation of the same address: its link ends.

    Raises InvalidInput for an address or a role that is not usable, Conflict where the person is a member already, and
    NotAllowed where a key with limits invites an admin.
    """
    email = User.objects.normalize_email(email.strip()).lower()
    try:
        validate_email(email)
    except ValidationError as error:
        raise InvalidInput(
            "The e-mail address is invalid.",
            faults=[FieldFault("email", "is not an e-mail address", "for example ann@example.org")],
        ) from error
    if read_role(role) == Role.ADMIN:
        refuse_new_admin(by)
    _lock(by)
    now = timezone.now()
    # Locked first: one that is just being accepted makes a member, and is not revoked.
    replaced = list(_open(by).select_for_update().filter(email=email))
    if Membership.objects.active().filter(workspace=by.workspace, user__email=email).exists():
        raise Conflict(f"{email} is a member already.", faults=[FieldFault("email", "is a member already")])
    for open_one in replaced:
        _revoke(by, open_one, now)
    token = secrets.token_urlsafe(32)
    made = Invitation.objects.create(
        workspace=by.workspace,
        email=email,
        role=role,
        token_hmac=secret_hmac(token),
        created_by=by.user,
        expires_at=now + LIFE,
    )
    record_audit(by=by, action="person.invited", target=f"invitation:{made.id}", details={"email": email, "role": role})
    return NewInvitation(made, token)


@transaction.atomic
def revoke_invitation(*, by: Actor, invitation: Invitation) -> None:
    """Its link ends at once. One that is accepted or revoked stays as it is."""
    row = _open(by).select_for_update().filter(id=invitation.id).first()
    if row is not None:
        _revoke(by, row, timezone.now())


def revoke_all(*, by: Actor, made_by: User) -> None:
    """Ends every open link that the person made, or that would let them in again. Call inside a transaction."""
    for row in _open(by).select_for_update().filter(Q(created_by=made_by) | Q(email=made_by.email)):
        _revoke(by, row, timezone.now())


def find_invitation(token: str) -> Invitation:
    """The open invitation of a link. Raises InvitationOver."""
    found = Invitation.objects.filter(token_hmac=secret_hmac(token)).select_related("workspace", "created_by").first()
    if found is None or found.state(timezone.now()) != "open":
        raise InvitationOver("This invitation is no longer valid. Ask an admin of the workspace for a new one.")
    return found


@transaction.atomic
def accept_invitation(*, token: str, user: User | None = None, name: str = "", password: str | None = None) -> User:
    """Makes the person a member, and an account where `user` is None; without a password it is one for OpenID Connect.

    A link works once: of two at the same moment the second gets InvitationOver. Raises Conflict when `user` has another
    address, or when the address has an account and nobody is logged in.
    """
    invitation = find_invitation(token)
    row = Invitation.objects.select_for_update().get(id=invitation.id)
    now = timezone.now()
    if row.state(now) != "open":
        raise InvitationOver("This invitation is no longer valid. Ask an admin of the workspace for a new one.")
    if user is None:
        if User.objects.filter(email=row.email).exists():
            raise Conflict(f"{row.email} has an account. Log in with it to accept the invitation.")
        try:
            with transaction.atomic():
                user = User.objects.create_user(row.email, password, name=name.strip())
        except IntegrityError as error:  # another workspace's invitation of the address, accepted at the same moment
            raise Conflict(f"{row.email} has an account. Log in with it to accept the invitation.") from error
    elif user.email != row.email:
        raise Conflict(f"This invitation is for {row.email}; you are logged in as {user.email}.")
    membership, made = Membership.objects.get_or_create(
        workspace=invitation.workspace, user=user, defaults={"role": row.role}
    )
    if not made and membership.deactivated_at is not None:
        membership.role, membership.deactivated_at = row.role, None
        membership.save(update_fields=["role", "deactivated_at"])
    row.accepted_at, row.accepted_by = now, user
    row.save(update_fields=["accepted_at", "accepted_by"])
    record_audit(
        by=person(user, invitation.workspace, membership.role),
        action="person.joined",
        target=f"user:{user.id}",
        details={"role": membership.role, "invitation": str(row.id)},
    )
    return user


def _open(by: Actor) -> WorkspaceQuerySet:
    return Invitation.objects.for_workspace(by.workspace).filter(accepted_at=None, revoked_at=None)


def _lock(by: Actor) -> None:
    """Two invitations of one address at once: the second sees the first."""
    type(by.workspace).objects.select_for_update(no_key=True).get(id=by.workspace.id)


def _revoke(by: Actor, invitation: Invitation, now: dt.datetime) -> None:
    invitation.revoked_at = now
    invitation.save(update_fields=["revoked_at"])
    record_audit(
        by=by,
        action="invitation.revoked",
        target=f"invitation:{invitation.id}",
        details={"email": invitation.email},
    )

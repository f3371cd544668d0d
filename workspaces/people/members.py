"""Members of a workspace: their roles, deactivation, leaving, links for a new password, and closing an account."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode

from workspaces.access.actors import Actor, system
from workspaces.access.key_bounds import refuse_new_admin
from workspaces.access.services import record_audit
from workspaces.errors import Conflict, FieldFault, InvalidInput, NotAllowed, ReckonerError
from workspaces.models import Membership, Role, User, Workspace
from workspaces.people.invitations import read_role, revoke_all


class LastAdmin(Conflict):
    """A workspace without an admin could be helped by nobody."""

    code = "last_admin"


class LinkOver(ReckonerError):
    status = 410
    code = "link_over"


class _LinkTokens(PasswordResetTokenGenerator):
    """Such a token ends, besides, when the person's workspaces or the admins of one change: who made the link had the
    right to it only while they were as they are."""

    key_salt = "workspaces.people.members"

    def _make_hash_value(self, user: Any, timestamp: int) -> str:
        own = Membership.objects.active().filter(user=user).values("workspace")
        found = Membership.objects.active().filter(Q(user=user) | Q(workspace__in=own, role=Role.ADMIN))
        rows = sorted(f"{workspace}:{person}" for workspace, person in found.values_list("workspace", "user"))
        return f"{super()._make_hash_value(user, timestamp)}{','.join(rows)}"


_tokens = _LinkTokens()


@dataclass(frozen=True, slots=True)
class PasswordLink:
    """`path` opens a page that takes a new password, once, for as long as PASSWORD_RESET_TIMEOUT says."""

    user: User
    path: str


@transaction.atomic
def change_role(*, by: Actor, membership: Membership, role: str) -> Membership:
    """Raises InvalidInput for an unknown role, LastAdmin when no other admin would be left, NotAllowed where a key with
    limits makes an admin."""
    read_role(role)
    row = _locked(by.workspace, membership)
    if row.role == role:
        return row
    if role == Role.ADMIN:
        refuse_new_admin(by)
    if row.role == Role.ADMIN:
        _keep_an_admin(row)
    before, row.role = row.role, role
    row.save(update_fields=["role"])
    if before == Role.ADMIN:
        revoke_all(by=by, made_by=row.user)
    details = {"email": row.user.email, "from": before, "to": role}
    record_audit(by=by, action="person.role_changed", target=f"user:{row.user_id}", details=details)
    return row


@transaction.atomic
def deactivate_member(*, by: Actor, membership: Membership) -> Membership:
    """The person sees nothing of the workspace from the next request on; what they did stays theirs. Links for others
    that they made end, and their sessions where this was their last workspace.

    A second time nothing happens. Raises LastAdmin.
    """
    return _deactivate(by, membership, "person.deactivated")


@transaction.atomic
def reactivate_member(*, by: Actor, membership: Membership) -> Membership:
    """Gives a member access again, in the same role. Raises NotAllowed where a key with limits gives an admin back."""
    row = _locked(by.workspace, membership)
    if row.deactivated_at is not None:
        if row.role == Role.ADMIN:
            refuse_new_admin(by)
        row.deactivated_at = None
        row.save(update_fields=["deactivated_at"])
        details = {"email": row.user.email, "role": row.role}
        record_audit(by=by, action="person.reactivated", target=f"user:{row.user_id}", details=details)
    return row


@transaction.atomic
def change_member(*, by: Actor, membership: Membership, role: str | None = None, active: bool | None = None) -> None:
    """Both at once, or neither: as `change_role`, `deactivate_member` and `reactivate_member` say."""
    if active:
        reactivate_member(by=by, membership=membership)
    if role is not None:
        change_role(by=by, membership=membership, role=role)
    if active is False:
        deactivate_member(by=by, membership=membership)


@transaction.atomic
def leave_workspace(*, by: Actor) -> None:
    """The acting person's own way out; an admin of the workspace can reactivate them. Raises LastAdmin."""
    if by.user is None:
        raise NotAllowed("Only a person leaves a workspace.")
    _deactivate(by, Membership.objects.get(workspace=by.workspace, user=by.user), "person.left")


@transaction.atomic
def make_password_link(*, by: Actor, membership: Membership, everywhere: bool = False) -> PasswordLink:
    """A link for the person to choose a new password. The one before works until then.

    Whoever has the link can become that person in all their workspaces: so a person may make it who is an admin in each
    of them, and `everywhere` is the operator's, who runs the command. A key makes none. Raises NotAllowed and Conflict.
    """
    if by.user is None and not everywhere:
        raise NotAllowed("A key cannot reset a person's password; an admin does it on the page People.")
    row = _locked(by.workspace, membership)
    if row.deactivated_at is not None or not row.user.is_active:
        raise Conflict(f"{row.user.email} is deactivated; reactivate them first.")
    if not everywhere and (elsewhere := _not_an_admin_in(by, row.user)):
        raise NotAllowed(
            f"{row.user.email} is also a member of {elsewhere} where you are not an admin. The operator resets the"
            " password with `manage.py people password-link`."
        )
    uid = urlsafe_base64_encode(force_bytes(row.user.pk))
    token = _tokens.make_token(row.user)
    record_audit(by=by, action="person.password_link", target=f"user:{row.user_id}", details={"email": row.user.email})
    return PasswordLink(row.user, f"{reverse('new-password')}?{urlencode({'link': f'{uid}.{token}'})}")


def find_by_link(link: str) -> User:
    """The person of a link that still works. Raises LinkOver."""
    uid, _, token = link.partition(".")
    try:
        user = User.objects.filter(pk=urlsafe_base64_decode(uid).decode(), is_active=True).first()
    except (ValueError, ValidationError):
        user = None
    if user is None or not _tokens.check_token(user, token):
        raise LinkOver("This link is no longer valid. Ask an admin for a new one.")
    return user


def list_sessions(user: User) -> QuerySet[UserSession]:
    """Those that still open something, the one that began last first."""
    alive = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    found: QuerySet[UserSession] = UserSession.objects.filter(user=user, session_key__in=alive)
    return found.order_by("-last_seen_at")


def drop_ended_sessions() -> None:
    """Deletes the rows of sessions that ended by themselves, and what was noted of them."""
    hour_ago = timezone.now() - dt.timedelta(hours=1)
    Session.objects.filter(expire_date__lt=hour_ago).delete()
    noted = UserSession.objects.filter(last_seen_at__lt=hour_ago)
    noted.exclude(session_key__in=Session.objects.values("session_key")).delete()


def end_sessions(user: User, *, but: str = "") -> int:
    """Logs the person out everywhere, except in the session with the key `but`. How many sessions ended."""
    ended = 0
    for session in UserSession.objects.filter(user=user).exclude(session_key=but):
        session.end()
        ended += 1
    return ended


@transaction.atomic
def end_all_sessions(*, by: Actor, membership: Membership) -> int:
    """Logs somebody out everywhere, in other workspaces too: so it is the operator's. How many sessions ended."""
    row = _locked(by.workspace, membership)
    ended = end_sessions(row.user)
    details = {"email": row.user.email, "sessions": ended}
    record_audit(by=by, action="person.sessions_ended", target=f"user:{row.user_id}", details=details)
    return ended


@transaction.atomic
def deactivate_account(*, user: User) -> int:
    """The person can log in nowhere until `reactivate_account`: the operator's. Memberships stay as they are; links for
    others that the person made end, and the sessions. How many sessions ended. A second time nothing happens.

    Raises LastAdmin, which names the workspaces that would be left without an admin.
    """
    memberships = _lock_account(user)
    if not user.is_active:
        return 0
    alone = [row.workspace.slug for row in memberships if row.role == Role.ADMIN and not _has_another_admin(row)]
    if alone:
        raise LastAdmin(f"{user.email} is the only admin of {', '.join(alone)}: make somebody else an admin first.")
    user.is_active = False
    user.save(update_fields=["is_active"])
    ended = end_sessions(user)
    for row in memberships:
        revoke_all(by=system(row.workspace), made_by=user)
    _record_account("account.deactivated", user, memberships)
    return ended


@transaction.atomic
def reactivate_account(*, user: User) -> None:
    """In the workspaces and roles from before."""
    memberships = _lock_account(user)
    if not user.is_active:
        user.is_active = True
        user.save(update_fields=["is_active"])
        _record_account("account.reactivated", user, memberships)


def _lock_account(user: User) -> list[Membership]:
    """The active memberships; reads the person again. Their workspaces are locked in one order, as by `_locked`."""
    own = Membership.objects.filter(user=user).values("workspace")
    list(Workspace.objects.select_for_update(no_key=True).filter(id__in=own).order_by("id"))
    user.refresh_from_db()
    return list(Membership.objects.active().filter(user=user).select_related("workspace").order_by("id"))


def _record_account(action: str, user: User, memberships: list[Membership]) -> None:
    for row in memberships:
        record_audit(by=system(row.workspace), action=action, target=f"user:{user.pk}", details={"email": user.email})


@transaction.atomic
def remove_two_factor(*, by: Actor, membership: Membership) -> None:
    """For somebody who lost the device and the recovery codes. The operator's alone: it is half of the log-in."""
    row = _locked(by.workspace, membership)
    Authenticator.objects.filter(user=row.user).delete()
    details = {"email": row.user.email}
    record_audit(by=by, action="person.two_factor_removed", target=f"user:{row.user_id}", details=details)


@transaction.atomic
def change_workspace(*, by: Actor, name: str | None = None, approval_required: bool | None = None) -> Workspace:
    """None stays. Addresses keep the slug. Raises InvalidInput."""
    row = Workspace.objects.select_for_update(no_key=True).get(id=by.workspace.id)
    target = f"workspace:{row.id}"
    if name is not None:
        name = name.strip()
        if not 1 <= len(name) <= 200:
            fault = FieldFault("name", f"has {len(name)} characters", "1 to 200 characters")
            raise InvalidInput("The name is invalid.", faults=[fault])
        before, row.name = row.name, name
        if before != name:
            record_audit(by=by, action="workspace.renamed", target=target, details={"from": before, "to": name})
    if approval_required is not None and approval_required != row.approval_required:
        row.approval_required = approval_required
        details = {"approval_required": approval_required}
        record_audit(by=by, action="workspace.approval_changed", target=target, details=details)
    row.save(update_fields=["name", "approval_required"])
    return row


def _deactivate(by: Actor, membership: Membership, action: str) -> Membership:
    row = _locked(by.workspace, membership)
    if row.deactivated_at is None:
        if row.role == Role.ADMIN:
            _keep_an_admin(row)
        row.deactivated_at = timezone.now()
        row.save(update_fields=["deactivated_at"])
        revoke_all(by=by, made_by=row.user)
        if row.user != by.user and not Membership.objects.active().filter(user=row.user).exists():
            end_sessions(row.user)
        details = {"email": row.user.email, "role": row.role}
        record_audit(by=by, action=action, target=f"user:{row.user_id}", details=details)
    return row


def _locked(workspace: Workspace, membership: Membership) -> Membership:
    """The row as it is now. The workspace is locked, so that of two admins who leave at once one stays."""
    Workspace.objects.select_for_update(no_key=True).get(id=workspace.id)
    return Membership.objects.select_related("user").get(id=membership.id, workspace=workspace)


def _has_another_admin(row: Membership) -> bool:
    admins = Membership.objects.active().filter(workspace=row.workspace_id, role=Role.ADMIN, user__is_active=True)
    return admins.exclude(id=row.id).exists()


def _keep_an_admin(row: Membership) -> None:
    if not _has_another_admin(row):
        raise LastAdmin("The workspace needs an admin: make somebody else an admin first.")


def _not_an_admin_in(by: Actor, user: User) -> str:
    """Workspaces of `user` in which the actor is no admin: their number, since their names are not the actor's."""
    own = Membership.objects.active().filter(user=by.user, role=Role.ADMIN).values("workspace")
    # Deactivated ones as well: who becomes this person today has their access when it comes back.
    count = Membership.objects.filter(user=user).exclude(workspace__in=own).count()
    return f"{count} other workspace{'s' if count > 1 else ''}" if count else ""

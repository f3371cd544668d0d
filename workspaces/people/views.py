"""The page of a workspace's people: members, roles and invitations. Admins change them."""

from __future__ import annotations

import uuid
from typing import Any

from allauth.mfa.models import Authenticator
from django.contrib import messages
from django.db.models import Exists, OuterRef
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from workspaces.errors import Conflict, InvalidInput
from workspaces.models import Invitation, Membership, Role
from workspaces.pages.guard import PageRequest, may, workspace_page
from workspaces.pages.shown_once import end_secret, read_secret, send_secret
from workspaces.people import invitations, members

ROLES = (
    (Role.VIEWER, "reads decisions, models and experiments"),
    (Role.LABELLER, "also confirms and corrects decisions"),
    (Role.ADMIN, "also trains, promotes, manages keys and people"),
)
INVITATIONS = 100


@require_safe
@workspace_page()
def people(request: PageRequest) -> HttpResponse:
    """Everyone sees who is here. An admin sees the invitations too, and right after making a link, the link."""
    secret = read_secret(request, salt=_salt(request))
    response = render(
        request, "workspaces/people.html", _context(request) | {"link": secret and _link(request, secret)}
    )
    return end_secret(response) if secret else response


@require_POST
@workspace_page(role=Role.ADMIN)
def invite(request: PageRequest) -> HttpResponse:
    """A form that is not usable comes back as it was filled, with its faults."""
    given = {"email": request.POST.get("email", ""), "role": request.POST.get("role", "")}
    try:
        made = invitations.invite_person(by=request.actor, **given)
    except (InvalidInput, Conflict) as error:
        faults = {fault.field: ", enter ".join(filter(None, (fault.reason, fault.expected))) for fault in error.faults}
        context = _context(request) | {"given": given, "faults": faults}
        return render(request, "workspaces/people.html", context, status=error.status)
    return _show(request, f"{made.invitation.email} {made.path}")


@require_POST
@workspace_page(role=Role.ADMIN)
def invitation_revoke(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    invitation = get_object_or_404(Invitation.objects.for_workspace(request.workspace), pk=pk)
    invitations.revoke_invitation(by=request.actor, invitation=invitation)
    messages.success(request, f"The invitation of {invitation.email} is revoked.")
    return _back(request)


@require_POST
@workspace_page(role=Role.ADMIN)
def role_change(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    changed = members.change_role(by=request.actor, membership=_member(request, pk), role=request.POST.get("role", ""))
    messages.success(request, f"{changed.user} is now {_with_article(changed.role)}.")
    return _back(request)


@require_POST
@workspace_page(role=Role.ADMIN)
def deactivate(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Asks first."""
    membership = _member(request, pk)
    if not request.POST.get("confirmed"):
        return render(request, "workspaces/deactivate.html", {"membership": membership})
    members.deactivate_member(by=request.actor, membership=membership)
    messages.success(request, f"{membership.user} is deactivated.")
    return redirect("home") if membership.user == request.user else _back(request)


@require_POST
@workspace_page(role=Role.ADMIN)
def reactivate(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    membership = members.reactivate_member(by=request.actor, membership=_member(request, pk))
    messages.success(request, f"{membership.user} is {_with_article(membership.role)} again.")
    return _back(request)


@require_POST
@workspace_page(role=Role.ADMIN)
def password_link(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    made = members.make_password_link(by=request.actor, membership=_member(request, pk))
    return _show(request, f"{made.user.email} {made.path}")


@require_POST
@workspace_page(role=Role.ADMIN)
def rename(request: PageRequest) -> HttpResponse:
    members.change_workspace(by=request.actor, name=request.POST.get("name", ""))
    messages.success(request, "The workspace is renamed.")
    return _back(request)


@require_POST
@workspace_page(role=Role.ADMIN)
def approvals(request: PageRequest) -> HttpResponse:
    """Whether versions need an approval before they get traffic."""
    wanted = request.POST.get("approval_required") == "on"
    members.change_workspace(by=request.actor, approval_required=wanted)
    says = "Versions now need an approval." if wanted else "Versions need no approval any more."
    messages.success(request, says)
    return _back(request)


@require_POST
@workspace_page()
def leave(request: PageRequest) -> HttpResponse:
    """Asks first."""
    if not request.POST.get("confirmed"):
        return render(request, "workspaces/leave.html")
    members.leave_workspace(by=request.actor)
    messages.success(request, f"You have left {request.workspace}.")
    return redirect("home")


def _context(request: PageRequest) -> dict[str, Any]:
    now = timezone.now()
    two_factor = Authenticator.objects.filter(user=OuterRef("user")).exclude(type=Authenticator.Type.RECOVERY_CODES)
    found = (
        Membership.objects.filter(workspace=request.workspace)
        .select_related("user")
        .annotate(two_factor=Exists(two_factor))
        .order_by("deactivated_at", "user__email")
    )
    context: dict[str, Any] = {
        "members": found,
        "roles": [(role.value, role.label, says) for role, says in ROLES],
        "given": {"role": Role.LABELLER.value},
        "faults": {},
    }
    if may(request.role, Role.ADMIN):
        waiting = Invitation.objects.for_workspace(request.workspace).filter(accepted_at=None, revoked_at=None)
        context["invitations"] = [
            (one, one.state(now)) for one in waiting.select_related("created_by").order_by("-id")[:INVITATIONS]
        ]
    return context


def _member(request: PageRequest, pk: uuid.UUID) -> Membership:
    found: Membership = get_object_or_404(Membership.objects.select_related("user"), workspace=request.workspace, pk=pk)
    return found


def _with_article(role: str) -> str:
    return f"{'an' if role == Role.ADMIN else 'a'} {Role(role).label.lower()}"


def _back(request: PageRequest) -> HttpResponse:
    return redirect("pages:people", request.workspace.slug)


def _salt(request: PageRequest) -> str:
    return f"people:{request.workspace.id}:{request.user.id}"


def _show(request: PageRequest, secret: str) -> HttpResponse:
    return send_secret(redirect("pages:people", request.workspace.slug), secret, salt=_salt(request))


def _link(request: PageRequest, secret: str) -> dict[str, Any]:
    email, _, path = secret.partition(" ")
    return {"email": email, "url": request.build_absolute_uri(path), "invites": path.startswith(reverse("invitation"))}

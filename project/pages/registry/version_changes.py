"""What an admin changes on a version's page: aliases and taking back their last move, notes, approval, retirement."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from models_registry.backends.services import point_alias, remove_alias
from models_registry.experiments.reverting import revert_alias
from models_registry.versions.approval import approve_version, withdraw_approval
from models_registry.versions.notes import note_version
from models_registry.versions.retirement import restore_version, retire_version
from project.pages.registry.versions import get_version
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Role
from workspaces.pages.confirmed import Confirmation, confirmed, read_reason
from workspaces.pages.guard import PageRequest, workspace_page


def _back(request: PageRequest, pk: uuid.UUID, says: str) -> HttpResponse:
    messages.success(request, says)
    return redirect("pages:version", request.workspace.slug, pk)


@require_POST
@workspace_page(role=Role.ADMIN)
def alias_point(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    version, name = get_version(request, pk), request.POST.get("alias", "").strip()
    point_alias(by=request.actor, version=version, name=name, reason=read_reason(request))
    return _back(request, pk, f"{name} points at {version} now.")


@require_POST
@workspace_page(role=Role.ADMIN)
def alias_remove(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    version, name = get_version(request, pk), request.POST.get("alias", "").strip()
    remove_alias(by=request.actor, version=version, name=name, reason=read_reason(request))
    return _back(request, pk, f"{version} no longer has the alias {name}.")


@require_POST
@workspace_page(role=Role.ADMIN)
def alias_revert(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Takes back the move that the page showed."""
    version, name = get_version(request, pk), request.POST.get("alias", "").strip()
    try:
        move = uuid.UUID(request.POST.get("move", ""))
    except ValueError as error:
        fault = FieldFault("move", "is not an id", "the move that the page shows")
        raise InvalidInput("The alias cannot be reverted.", faults=[fault]) from error
    made = revert_alias(by=request.actor, model=version.registered_model, name=name, move=move)
    return _back(request, pk, f"{name} points {f'at {made.after}' if made.after else 'nowhere'} again.")


@require_POST
@workspace_page(role=Role.ADMIN)
def version_note(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    """Replaces tags, written with spaces between them, and notes."""
    tags = request.POST.get("tags", "").replace(",", " ").split()
    note_version(by=request.actor, version=get_version(request, pk), tags=tags, notes=request.POST.get("notes", ""))
    return _back(request, pk, "The notes are saved.")


@require_POST
@workspace_page(role=Role.ADMIN)
def version_approve(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    version = approve_version(by=request.actor, version=get_version(request, pk), note=request.POST.get("note", ""))
    return _back(request, pk, f"{version} is approved.")


@require_POST
@workspace_page(role=Role.ADMIN)
def version_unapprove(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    version = withdraw_approval(by=request.actor, version=get_version(request, pk))
    return _back(request, pk, f"The approval of {version} is withdrawn.")


@confirmed(back="pages:version")
def version_retire(request: PageRequest, pk: uuid.UUID) -> Confirmation:
    version = get_version(request, pk)
    return Confirmation(
        title=f"Retire {version}?",
        explanation=(
            "No run, experiment or alias can begin with it. Its files are removed later, unless something else uses "
            "them; until then it can be restored."
        ),
        button=f"Retire {version}",
        do=lambda: retire_version(by=request.actor, version=version, reason=_require_reason(request)),
        done=f"{version} is retired.",
        asks_reason=True,
    )


def _require_reason(request: PageRequest) -> str:
    if not (reason := read_reason(request)):
        raise InvalidInput("The version was not retired.", faults=[FieldFault("reason", "is missing", "a sentence")])
    return reason


@require_POST
@workspace_page(role=Role.ADMIN)
def version_restore(request: PageRequest, pk: uuid.UUID) -> HttpResponse:
    version = restore_version(by=request.actor, version=get_version(request, pk))
    return _back(request, pk, f"{version} is restored.")

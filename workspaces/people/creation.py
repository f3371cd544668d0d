"""Makes a workspace, for anybody who is an admin somewhere. The page, the API and the command call it."""

from __future__ import annotations

from dataclasses import replace

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import IntegrityError, transaction
from django.utils.text import slugify

from workspaces.access.actors import Actor, person
from workspaces.access.services import create_workspace, record_audit
from workspaces.errors import FieldFault, InvalidInput, NotAllowed
from workspaces.models import Membership, Role, User, Workspace

LONGEST_SLUG = 63


def may_create_workspaces(user: User) -> bool:
    return user.is_superuser or Membership.objects.active().filter(user=user, role=Role.ADMIN).exists()


def create_workspace_by_api(*, by: Actor, name: str, slug: str = "", admin: str = "") -> Workspace:
    """With `admin`, the e-mail address of an admin of the actor's workspace, as its admin: by default the person who
    asks. A key has to name one. Both workspaces' audits say so. Raises InvalidInput and NotAllowed."""
    user = by.user
    if admin:
        admins = Membership.objects.active().filter(workspace=by.workspace, role=Role.ADMIN, user__is_active=True)
        found = admins.select_related("user").filter(user__email=admin.strip().lower()).first()
        user = found.user if found is not None else None
    if user is None:
        reason = f"{admin} is not an admin of {by.workspace.slug}" if admin else "is required with a key"
        fault = FieldFault("admin", reason, f"the e-mail address of an admin of {by.workspace.slug}")
        raise InvalidInput("The workspace was not made.", faults=[fault])
    with transaction.atomic():
        made = create_own_workspace(user=user, name=name, slug=slug, by=by)
        details = {"slug": made.slug, "admin": user.email}
        record_audit(by=by, action="workspace.created", target=f"workspace:{made.id}", details=details)
    return made


def create_own_workspace(
    *, user: User, name: str, slug: str = "", by_operator: bool = False, by: Actor | None = None
) -> Workspace:
    """With the person as its admin. An empty slug is made from the name. The operator makes one for anybody. `by` asks
    for it, by default the person.

    Raises InvalidInput with all faults, and NotAllowed.
    """
    if not by_operator and not may_create_workspaces(user):
        raise NotAllowed("An admin of any workspace makes new ones.")
    name, slug = name.strip(), slug.strip() or slugify(name)[:LONGEST_SLUG]
    faults = []
    if not 1 <= len(name) <= 200:
        faults.append(FieldFault("name", f"has {len(name)} characters", "1 to 200 characters"))
    try:
        validate_slug(slug)
    except ValidationError:
        faults.append(FieldFault("slug", "is invalid", "letters, digits, hyphens and underscores"))
    if len(slug) > LONGEST_SLUG:
        faults.append(FieldFault("slug", f"has {len(slug)} characters", f"at most {LONGEST_SLUG}"))
    if faults:
        raise InvalidInput("The workspace was not made.", faults=faults)
    try:
        with transaction.atomic():
            made = create_workspace(slug=slug, name=name, owner=user)
            actor = replace(by, workspace=made) if by is not None else person(user, made, Role.ADMIN)
            record_audit(by=actor, action="workspace.created", target=f"workspace:{made.id}")
    except IntegrityError as error:
        fault = FieldFault("slug", "is taken", "another one")
        raise InvalidInput("The workspace was not made.", faults=[fault]) from error
    return made

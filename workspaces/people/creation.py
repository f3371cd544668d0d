"""Makes a workspace, for anybody who is an admin somewhere."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import IntegrityError, transaction
from django.utils.text import slugify

from workspaces.actors import person
from workspaces.errors import FieldFault, InvalidInput, NotAllowed
from workspaces.models import Membership, Role, User, Workspace
from workspaces.services import create_workspace, record_audit

LONGEST_SLUG = 63


def may_create_workspaces(user: User) -> bool:
    return user.is_superuser or Membership.objects.active().filter(user=user, role=Role.ADMIN).exists()


def create_own_workspace(*, user: User, name: str, slug: str = "", by_operator: bool = False) -> Workspace:
    """With the person as its admin. An empty slug is made from the name. The operator makes one for anybody.

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
            record_audit(by=person(user, made, Role.ADMIN), action="workspace.created", target=f"workspace:{made.id}")
    except IntegrityError as error:
        fault = FieldFault("slug", "is taken", "another one")
        raise InvalidInput("The workspace was not made.", faults=[fault]) from error
    return made

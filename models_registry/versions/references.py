"""Finds the version that a reference stands for: its id, `filer:7`, `filer@champion`, and MLflow's `models:/filer/7`
and `models:/filer@champion`. The gateway, the API, pages and commands ask here.
"""

from __future__ import annotations

import re
import uuid

from django.db.models import Max

from models_registry.errors import UnknownVersion
from models_registry.models import Alias, ModelVersion, RegisteredModel
from workspaces.errors import FieldFault
from workspaces.models import Workspace

FORMS = "name:7, name@alias, models:/name/7 or models:/name@alias"
MOST_NAMED = 10
_REFERENCE = re.compile(
    r"(?:(?P<model>[\w-]{1,63}):(?P<number>[0-9]{1,9})"
    r"|(?:models:/)?(?P<of>[\w-]{1,63})@(?P<alias>[a-z][a-z0-9-]{0,62})"
    r"|models:/(?P<in>[\w-]{1,63})/(?P<place>[0-9]{1,9}))"
)
_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def is_reference(text: str) -> bool:
    """Whether it has the form of one, where a folder or a hub id may stand as well. An id is none."""
    return _REFERENCE.fullmatch(text) is not None


def find_version(workspace: Workspace, reference: str, *, field: str = "") -> ModelVersion:
    """With its model, artifact and base, by one query. `field` is what of a body or a form holds the reference. Raises
    UnknownVersion, which says what there is."""
    versions = ModelVersion.objects.for_workspace(workspace).select_related(
        "registered_model", "artifact", "base__artifact"
    )
    if _ID.fullmatch(reference):
        found = versions.filter(id=uuid.UUID(reference)).first()
        if found is None:
            raise _unknown(workspace, f"No version has the ID {reference}.", field)
        return found
    parts = _REFERENCE.fullmatch(reference)
    if parts is None:
        raise _unknown(workspace, f"{reference[:100]!r} is not a version.", field)
    model = parts["model"] or parts["of"] or parts["in"]
    if alias := parts["alias"]:
        found = versions.filter(registered_model__name=model, aliases__name=alias).first()
        lack = f"Model {model} has no version with the alias {alias}."
    else:
        number = int(parts["number"] or parts["place"])
        found = versions.filter(registered_model__name=model, number=number).first() if number < 2**31 else None
        lack = f"Model {model} has no version {number}."
    if found is None:
        raise _unknown(workspace, lack, field, model=model)
    return found


def _unknown(workspace: Workspace, lack: str, field: str, *, model: str = "") -> UnknownVersion:
    """With what exists: of the model that was named its newest version and its aliases, else the models."""
    named = RegisteredModel.objects.for_workspace(workspace).filter(name=model).first() if model else None
    if named is None:
        names = RegisteredModel.objects.for_workspace(workspace).order_by("name").values_list("name", flat=True)
        known = list(names[: MOST_NAMED + 1])
        there = _join("models", known) if known else "The workspace has no models yet"
        expected = f"its ID, {FORMS}"
        lack = f"There is no model {model}." if model else lack
    else:
        newest = ModelVersion.objects.filter(registered_model=named).aggregate(newest=Max("number"))["newest"]
        aliases = Alias.objects.filter(registered_model=named).order_by("name").values_list("name", flat=True)
        known = list(aliases[: MOST_NAMED + 1])
        there = f"Its newest version is {model}:{newest}" if newest else "It has no versions yet"
        there += f"; {_join('aliases', known).lower()}" if known else ""
        expected = f"{model}:{newest} or an older one" if newest else "a model with versions"
    faults = [FieldFault(field, lack.rstrip("."), expected)] if field else []
    return UnknownVersion(f"{lack} {there}. Write its ID, {FORMS}.", faults=faults)


def _join(what: str, names: list[str]) -> str:
    more = ", …" if len(names) > MOST_NAMED else ""
    return f"{what.capitalize()}: {', '.join(names[:MOST_NAMED])}{more}"

"""Finds the version that a name stands for: `filer:7`, `filer@champion`, and MLflow's `models:/filer/7` and
`models:/filer@champion`. The gateway, the API, pages and commands ask here.
"""

from __future__ import annotations

import re

from models_registry.errors import UnknownVersion
from models_registry.models import ModelVersion
from workspaces.models import Workspace

FORMS = "name:7, name@alias, models:/name/7 or models:/name@alias"
_REFERENCE = re.compile(
    r"(?:(?P<model>[\w-]{1,63}):(?P<number>[0-9]{1,9})"
    r"|(?:models:/)?(?P<of>[\w-]{1,63})@(?P<alias>[a-z][a-z0-9-]{0,62})"
    r"|models:/(?P<in>[\w-]{1,63})/(?P<place>[0-9]{1,9}))"
)


def find_version(workspace: Workspace, reference: str) -> ModelVersion:
    """With its model, artifact and base, by one query. Raises UnknownVersion: the forms, or that it does not exist."""
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise UnknownVersion(f"{reference[:100]!r} is no version. Write {FORMS}.")
    versions = ModelVersion.objects.for_workspace(workspace).select_related(
        "registered_model", "artifact", "base__artifact"
    )
    if alias := found["alias"]:
        model = found["of"]
        version = versions.filter(registered_model__name=model, aliases__name=alias).first()
        lack = f"Model {model} has no version with the alias {alias}."
    else:
        model, number = found["model"] or found["in"], int(found["number"] or found["place"])
        version = versions.filter(registered_model__name=model, number=number).first() if number < 2**31 else None
        lack = f"Model {model} has no version {number}."
    if version is None:
        raise UnknownVersion(lack)
    return version

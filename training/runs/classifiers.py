"""What a classifier is trained over: the sentence encoder that a run's settings name, and bases that suit it.

`settings.classifier.encoder` is the ID of a version that is an encoder. Its base, where that is another policy, is what
the new classifier is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from models_registry.models import ArtifactKind, ModelVersion
from models_registry.models.version import VersionState
from training.engine.spec.methods import Method
from workspaces.errors import FieldFault
from workspaces.models import Workspace

FIELD = "settings.classifier.encoder"


def find_encoder(settings: Mapping[str, Any]) -> str | None:
    """The ID that a run's settings name; None without one."""
    told = settings.get("classifier")
    named = told.get("encoder") if isinstance(told, Mapping) else None
    return str(named) if named is not None else None


def find_encoders(workspace: Workspace) -> Any:
    """The workspace's encoders that can be used, newest first."""
    return (
        ModelVersion.objects.for_workspace(workspace)
        .filter(artifact__kind=ArtifactKind.ENCODER, artifact__removed_at=None, state=VersionState.READY)
        .select_related("artifact", "registered_model")
        .order_by("-id")
    )


def encoder_of(workspace: Workspace, settings: Mapping[str, Any]) -> ModelVersion | None:
    """The encoder that the settings name; None where they name none, or one that cannot be used."""
    named = find_encoder(settings)
    if named is None or not _is_id(named):
        return None
    found: ModelVersion | None = find_encoders(workspace).filter(id=named).first()
    return found


def place_encoder(settings: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """The classifier's settings as the engine reads them: with the encoder's folder in the place of its ID."""
    return {**settings, "encoder": folder}


def find_classifier_faults(
    workspace: Workspace, method: Method, base: ModelVersion | None, settings: Mapping[str, Any]
) -> Iterator[FieldFault]:
    """Why the base, or the encoder that the settings name, does not suit the method."""
    if base is not None and not method.makes_classifier:
        if base.is_classifier:
            yield FieldFault("base_version", f"{base} is a classifier", "the method classifier, or a language model")
        if base.is_encoder:
            yield FieldFault("base_version", f"{base} is a sentence encoder", "the method classifier, or another base")
    named = find_encoder(settings)
    if named is None:
        return
    if not method.makes_classifier:
        yield FieldFault(FIELD, f"{method.name} trains no classifier", "the method classifier, or leave it out")
    elif encoder_of(workspace, settings) is None:
        yield FieldFault(FIELD, f"{named[:100]} is no sentence encoder of this workspace", "the ID of such a version")


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True

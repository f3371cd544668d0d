"""Registers artifacts and versions, and moves the aliases that decide who serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Max

from models_registry import artifacts
from models_registry.errors import NoChampion, NotAPolicy
from models_registry.models import Alias, AliasName, Artifact, ArtifactKind, ModelVersion, RegisteredModel
from workspaces.actors import Actor
from workspaces.models import Workspace
from workspaces.services import record_audit


def store_artifact(
    *,
    workspace: Workspace,
    folder: Path,
    kind: str,
    meta: Mapping[str, Any] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Artifact:
    """Copies a folder into the store, then makes (or finds) its row: the row never precedes the files. `texts` are
    further files, by name, such as a card."""
    stored = artifacts.put_folder(folder, kind=kind, meta=meta, texts=texts)
    artifact, _ = Artifact.objects.get_or_create(
        workspace=workspace,
        digest=stored.digest,
        defaults={"kind": kind, "size_bytes": stored.size_bytes, "meta": dict(meta or {})},
    )
    return artifact


@transaction.atomic
def register_model(*, by: Actor, name: str, description: str = "") -> RegisteredModel:
    model, made = RegisteredModel.objects.get_or_create(
        workspace=by.workspace, name=name, defaults={"description": description}
    )
    if made:
        record_audit(by=by, action="model.registered", target=f"registered_model:{model.id}")
    return model


@dataclass(frozen=True, slots=True)
class NewVersion:
    """What a version is made of; see ModelVersion for the difference of `base` and `parent`."""

    artifact: Artifact
    method: str
    base: ModelVersion | None = None
    parent: ModelVersion | None = None
    description: str = ""
    metrics: Mapping[str, Any] | None = None


@transaction.atomic
def register_version(*, by: Actor, model: RegisteredModel, new: NewVersion) -> ModelVersion:
    """The next number of the model. The first version that is a policy becomes champion: someone has to serve."""
    # The model's row is the lock under which numbers are given out.
    RegisteredModel.objects.select_for_update().get(id=model.id)
    policies = ModelVersion.objects.filter(registered_model=model).exclude(artifact__kind=ArtifactKind.REWARD_MODEL)
    is_first = new.artifact.kind != ArtifactKind.REWARD_MODEL and not policies.exists()
    last = ModelVersion.objects.filter(registered_model=model).aggregate(last=Max("number"))["last"] or 0
    version = ModelVersion.objects.create(
        workspace=by.workspace,
        registered_model=model,
        number=last + 1,
        artifact=new.artifact,
        base=new.base,
        parent=new.parent,
        method=new.method,
        description=new.description,
        metrics=dict(new.metrics or {}),
    )
    if is_first:
        move_alias(by=by, version=version, name=AliasName.CHAMPION)
    record_audit(
        by=by, action="version.registered", target=f"model_version:{version.id}", details={"name": str(version)}
    )
    return version


def locate_version(version: ModelVersion) -> dict[str, str]:
    """The folder of its weights as `path`, and that of the `adapter` over them, if it is one: what an engine loads."""
    folder = str(artifacts.artifact_path(version.artifact.digest))
    if version.base is None:
        return {"path": folder}
    return {"path": str(artifacts.artifact_path(version.base.artifact.digest)), "adapter": folder}


def refuse_reward_model(version: ModelVersion) -> None:
    """Raises NotAPolicy: it scores texts, and cannot act."""
    if version.is_reward_model:
        raise NotAPolicy(f"{version} is a reward model: it scores texts for training, and is no policy.")


@transaction.atomic
def move_alias(*, by: Actor, version: ModelVersion, name: str, reason: str = "") -> Alias:
    """Points the alias at the version. One row per (model, name): no instant has two champions or none.

    The champion is changed through `promotion.promote_version`, which also ends a running experiment. Raises NotAPolicy
    for a reward model.
    """
    refuse_reward_model(version)
    alias, _ = Alias.objects.select_for_update().update_or_create(
        registered_model_id=version.registered_model_id,
        name=name,
        defaults={"version": version, "workspace_id": version.workspace_id},
    )
    details = {"name": str(version)} | ({"reason": reason} if reason else {})
    record_audit(by=by, action=f"alias.{name}", target=f"model_version:{version.id}", details=details)
    return alias


@transaction.atomic
def drop_alias(*, by: Actor, version: ModelVersion, name: str) -> bool:
    """Takes the alias from the version; False when it points elsewhere or nowhere. Not for the champion, which has to
    be somebody: that alias only moves. Raises ValueError for it."""
    if name == AliasName.CHAMPION:
        raise ValueError("the champion can be replaced but not removed")
    dropped, _ = Alias.objects.filter(version=version, name=name).delete()
    if dropped:
        record_audit(
            by=by, action=f"alias.{name}_dropped", target=f"model_version:{version.id}", details={"name": str(version)}
        )
    return bool(dropped)


def get_champion(model: RegisteredModel) -> ModelVersion:
    """Raises NoChampion."""
    alias = (
        Alias.objects.select_related("version__artifact", "version__base__artifact", "version__registered_model")
        .filter(registered_model=model, name=AliasName.CHAMPION)
        .first()
    )
    if alias is None:
        raise NoChampion(
            f"No version of {model.name} can answer yet. Train one: import labelled rows (manage.py import_labelled), "
            "then start a run with the method pretrain (POST /api/v1/runs, or the page Runs); docs/runs.md has both. "
            "The first version serves as soon as it is there. "
            "Until then report what your app decides to POST /api/v1/decisions."
        )
    return alias.version

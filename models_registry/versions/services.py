"""Registers artifacts and versions, and moves the aliases that decide who serves."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from models_registry.artifacts import opening as artifacts
from models_registry.artifacts.collecting import lock_digest, remove_files
from models_registry.artifacts.holders import require_files
from models_registry.artifacts.quota import lock_use, refuse_over_quota
from models_registry.errors import NoChampion, NotAPolicy, QuotaExceeded, StoreUnavailable
from models_registry.models import (
    ALIAS_NAME,
    BASE_METHOD,
    NO_POLICIES,
    Alias,
    AliasMove,
    AliasName,
    Artifact,
    ModelVersion,
    RegisteredModel,
)
from models_registry.versions.approval import require_approval
from models_registry.versions.retirement import refuse_retired
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Workspace

STORE_ATTEMPTS = 3


def store_artifact(
    *,
    workspace: Workspace,
    folder: Path,
    kind: str,
    meta: Mapping[str, Any] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Artifact:
    """Copies a folder into the store, then makes (or finds) its row: the row never precedes the files. `texts` are
    further files, by name, such as a card. Raises QuotaExceeded, StoreUnavailable."""
    refuse_over_quota(workspace, 0)
    for _ in range(STORE_ATTEMPTS):
        stored = artifacts.put_folder(folder, kind=kind, meta=meta, texts=texts)
        try:
            artifact = _note_stored(workspace, stored, kind, meta)
        except QuotaExceeded:
            remove_files(stored.digest)
            raise
        if artifact is not None:
            return artifact
    raise StoreUnavailable("The artifact was removed as often as it was stored; try again.")


@transaction.atomic
def _note_stored(
    workspace: Workspace, stored: artifacts.StoredArtifact, kind: str, meta: Mapping[str, Any] | None
) -> Artifact | None:
    """The row of what is in the store; None where the collector took the files, as nobody else had them."""
    lock_use(workspace)
    lock_digest(stored.digest)
    if not artifacts.has_artifact(stored.digest):
        return None
    if not Artifact.objects.filter(workspace=workspace, digest=stored.digest, removed_at=None).exists():
        refuse_over_quota(workspace, stored.size_bytes)
    artifact, _ = Artifact.objects.update_or_create(
        workspace=workspace,
        digest=stored.digest,
        defaults={"stored_at": timezone.now(), "removed_at": None},
        create_defaults={"kind": kind, "size_bytes": stored.size_bytes, "meta": dict(meta or {})},
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
    """What a version is made of: an artifact, or the name of a remote model. See ModelVersion for the difference of
    `base` and `parent`."""

    method: str
    artifact: Artifact | None = None
    remote_name: str = ""
    base: ModelVersion | None = None
    parent: ModelVersion | None = None
    description: str = ""
    metrics: Mapping[str, Any] | None = None
    may_serve: bool = True


@transaction.atomic
def register_version(*, by: Actor, model: RegisteredModel, new: NewVersion) -> ModelVersion:
    """Registers the next number of the model. The first version that is a policy becomes champion, since someone has to
    serve; a base that a run named does not, nor one that is not `may_serve`."""
    # The model's row is the lock under which numbers are given out.
    RegisteredModel.objects.select_for_update().get(id=model.id)
    is_policy = new.method != BASE_METHOD and (new.artifact is None or new.artifact.kind not in NO_POLICIES)
    is_first = is_policy and new.may_serve and not _find_alias(model.id, AliasName.CHAMPION)
    last = ModelVersion.objects.filter(registered_model=model).aggregate(last=Max("number"))["last"] or 0
    version = ModelVersion.objects.create(
        workspace=by.workspace,
        registered_model=model,
        number=last + 1,
        artifact=new.artifact,
        remote_name=new.remote_name,
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
    """The folder of its weights as `path`, and that of the `adapter` over them, if it is one: what an engine loads.
    Raises NotStored for a remote model."""
    folder = str(artifacts.artifact_path(version.stored.digest))
    if version.base is None:
        return {"path": folder}
    return {"path": str(artifacts.artifact_path(version.base.stored.digest)), "adapter": folder}


def refuse_remote(version: ModelVersion) -> None:
    """Raises NotStored for a remote model: others keep its weights."""
    _ = version.stored


def refuse_no_policy(version: ModelVersion) -> None:
    """Raises NotAPolicy for what scores texts, or turns them into vectors, and cannot act."""
    if version.is_reward_model:
        raise NotAPolicy(f"{version} is a reward model: it scores texts for training and is not a policy.")
    if version.is_encoder:
        raise NotAPolicy(f"{version} is a sentence encoder: classifiers lie over it, and it is not a policy.")


@transaction.atomic
def move_alias(*, by: Actor, version: ModelVersion, name: str, reason: str = "") -> Alias:
    """Points the alias at the version. One row per (model, name): no instant has two champions or none.

    The champion is changed through `promotion.promote_version`, which also ends a running experiment. Raises NotAPolicy
    for no policy under a name that serves, InvalidInput for what is no alias, VersionRetired, ArtifactRemoved, and
    NotApproved for a challenger that the workspace wants approved.
    """
    if name in AliasName.values:
        refuse_no_policy(version)
    if not re.fullmatch(ALIAS_NAME, name):
        fault = FieldFault(
            "alias", f"{name[:80]!r} is not an alias", "lower-case letters, digits and hyphens, up to 63"
        )
        raise InvalidInput("The alias is invalid.", faults=[fault])
    # The model's row is the lock: the move that is written is the one that was made. The version's keeps it from being
    # retired meanwhile.
    RegisteredModel.objects.select_for_update().get(id=version.registered_model_id)
    require_files(version)
    refuse_retired(version)
    if name == AliasName.CHALLENGER:
        require_approval(version)
    before = _find_alias(version.registered_model_id, name)
    alias, _ = Alias.objects.update_or_create(
        registered_model_id=version.registered_model_id,
        name=name,
        defaults={"version": version, "workspace_id": version.workspace_id},
    )
    if before is None or before.version_id != version.id:
        _note_move(by, version, name, before=before.version if before else None, after=version, reason=reason)
    details = {"name": str(version)} | ({"reason": reason} if reason else {})
    record_audit(by=by, action=f"alias.{name}", target=f"model_version:{version.id}", details=details)
    return alias


@transaction.atomic
def drop_alias(*, by: Actor, version: ModelVersion, name: str, reason: str = "") -> bool:
    """Takes the alias from the version; False when it points elsewhere or nowhere. Not for the champion, which has to
    be somebody: that alias only moves. Raises ValueError for it."""
    if name == AliasName.CHAMPION:
        raise ValueError("the champion can be replaced but not removed")
    dropped, _ = Alias.objects.filter(version=version, name=name).delete()
    if dropped:
        _note_move(by, version, name, before=version, after=None, reason=reason)
        record_audit(
            by=by, action=f"alias.{name}_dropped", target=f"model_version:{version.id}", details={"name": str(version)}
        )
    return bool(dropped)


def find_last_move(model_id: uuid.UUID, name: str) -> AliasMove | None:
    return (
        AliasMove.objects.filter(registered_model=model_id, name=name)
        .select_related("before__registered_model", "after__registered_model")
        .order_by("-id")
        .first()
    )


def _find_alias(model_id: uuid.UUID, name: str) -> Alias | None:
    return Alias.objects.select_related("version").filter(registered_model_id=model_id, name=name).first()


def _note_move(
    by: Actor, version: ModelVersion, name: str, *, before: ModelVersion | None, after: ModelVersion | None, reason: str
) -> None:
    AliasMove.objects.create(
        workspace_id=version.workspace_id,
        registered_model_id=version.registered_model_id,
        name=name,
        before=before,
        after=after,
        by=by.name,
        reason=reason[:500],
    )


def get_champion(model: RegisteredModel) -> ModelVersion:
    """Raises NoChampion."""
    return get_serving(model)[0]


NOBODY = "No version of {0} can answer yet."
BY_LABELS = (
    "To train one from a file, import labelled rows (manage.py import_labelled), then start a run with the method "
    "pretrain (POST /api/v1/runs, or the page Runs); docs/runs.md has both. The first version serves as soon as it is "
    "there. Until then report what your app decides to POST /api/v1/decisions."
)
"""How there will be a version: what says it for want of a champion."""


def get_serving(model: RegisteredModel) -> tuple[ModelVersion, ModelVersion | None]:
    """The champion, and the version that answers where it cannot, if the model has one: the alias `fallback`. Raises
    NoChampion."""
    found = {
        alias.name: alias.version
        for alias in Alias.objects.select_related(
            "version__artifact", "version__base__artifact", "version__registered_model"
        ).filter(registered_model=model, name__in=[AliasName.CHAMPION, AliasName.FALLBACK])
    }
    if (champion := found.get(AliasName.CHAMPION)) is None:
        raise NoChampion(f"{NOBODY.format(model.name)} {BY_LABELS}")
    fallback = found.get(AliasName.FALLBACK)
    return champion, fallback if fallback is not None and fallback.id != champion.id else None

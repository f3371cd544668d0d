"""Adds backends, remote versions and deployments, and moves free aliases: what an admin does about serving."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from django.db import transaction

from models_registry.artifacts.holders import require_files
from models_registry.backends.adapters import WAITING, has_adapters
from models_registry.backends.keys import find_key_fault
from models_registry.backends.outbound import find_url_fault
from models_registry.errors import InUse
from models_registry.models import (
    Alias,
    AliasName,
    ArtifactKind,
    Backend,
    BackendKind,
    Call,
    Capability,
    Deployment,
    ModelVersion,
    RegisteredModel,
)
from models_registry.versions.retirement import refuse_retired
from models_registry.versions.services import NewVersion, drop_alias, move_alias, refuse_no_policy, register_version
from workspaces.access.actors import Actor
from workspaces.access.key_bounds import refuse_with_budget
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault, InvalidInput

NAME = r"[a-z0-9][a-z0-9-]{0,62}"
LONGEST_SECONDS = 3600.0
MOST_RETRIES = 5
MOST_PRIORITY = 1000
REMOTE_METHOD = "remote"
OURS = frozenset({AliasName.CHAMPION.value, AliasName.CHALLENGER.value})
"""Aliases that promotions and experiments move."""


PRICED = frozenset({"price_in", "price_out", "url"})
"""What a call costs depends on them."""


@dataclass(frozen=True, slots=True)
class BackendSetup:
    """What an admin says of a backend; see models.Backend. Prices are for a million tokens."""

    name: str
    url: str
    kind: str = BackendKind.OPENAI.value
    key_variable: str = ""
    capabilities: tuple[str, ...] = ()
    connect_seconds: float = 5.0
    timeout_seconds: float = 20.0
    retries: int = 1
    price_in: Decimal = Decimal(0)
    price_out: Decimal = Decimal(0)
    artifacts_path: str = ""
    enabled: bool = True


def add_backend(*, by: Actor, setup: BackendSetup) -> Backend:
    """Raises InvalidInput with every fault, and NotAllowed for a key with a budget."""
    refuse_with_budget(by, "adds no backend")
    faults = _find_faults(setup)
    if Backend.objects.for_workspace(by.workspace).filter(name=setup.name).exists():
        faults.append(FieldFault("name", f"{setup.name} is taken", "another name"))
    _refuse("The backend cannot be added.", faults)
    with transaction.atomic():
        backend: Backend = Backend.objects.create(workspace=by.workspace, **_fields(setup))
        _note(by, "backend.added", backend, {"url": backend.url})
    return backend


@transaction.atomic
def change_backend(*, by: Actor, backend: Backend, changes: Mapping[str, Any]) -> Backend:
    """`changes`: fields of BackendSetup; not its name and kind, by which calls and deployments know it. Raises
    InvalidInput, and NotAllowed where a key with a budget changes prices or the address."""
    if PRICED & changes.keys():
        refuse_with_budget(by, "changes no prices or addresses")
    locked: Backend = Backend.objects.select_for_update().get(id=backend.id)
    faults = [FieldFault(name, "cannot be changed", "a new backend") for name in ("name", "kind") if name in changes]
    before = BackendSetup(**{name: getattr(locked, name) for name in BackendSetup.__slots__})
    setup = BackendSetup(**{**asdict(before), **{n: v for n, v in changes.items() if n not in ("name", "kind")}})
    _refuse("The backend cannot be changed.", faults + _find_faults(setup))
    for name, value in _fields(setup).items():
        setattr(locked, name, value)
    locked.save()
    _note(by, "backend.changed", locked, {"fields": sorted(changes)})
    return locked


@transaction.atomic
def remove_backend(*, by: Actor, backend: Backend) -> None:
    """Raises InUse while versions are deployed there, or calls name it."""
    Backend.objects.select_for_update().get(id=backend.id)
    if (deployed := Deployment.objects.filter(backend=backend).count()) > 0:
        raise InUse(f"Backend {backend} has {deployed} deployments; remove those first.")
    if Call.objects.filter(backend=backend).exists():
        raise InUse(f"Calls were answered by backend {backend}; switch it off instead (enabled: false).")
    _note(by, "backend.removed", backend, {"url": backend.url})
    backend.delete()


def add_remote_version(
    *, by: Actor, model: RegisteredModel, remote_name: str, backend: Backend, description: str = ""
) -> ModelVersion:
    """The next version of the model, which the backend serves under `remote_name`. Raises InvalidInput, and NotAllowed
    for a key with a budget."""
    if not 0 < len(remote_name.strip()) <= 200 or "\x00" in remote_name:
        fault = FieldFault(
            "remote_name", "is empty or too long", "what the backend calls the model, up to 200 characters"
        )
        raise InvalidInput("The remote version is invalid.", faults=[fault])
    with transaction.atomic():
        new = NewVersion(remote_name=remote_name.strip(), method=REMOTE_METHOD, description=description)
        version = register_version(by=by, model=model, new=new)
        deploy_version(by=by, version=version, backend=backend)
    return version


@transaction.atomic
def deploy_version(
    *, by: Actor, version: ModelVersion, backend: Backend, remote_name: str = "", priority: int = 0
) -> Deployment:
    """Raises InvalidInput for a place that it has already, NotAPolicy for a reward model, VersionRetired,
    ArtifactRemoved, and NotAllowed for a key with a budget: a backend's prices hold for all of its models."""
    refuse_with_budget(by, "deploys nothing")
    refuse_no_policy(version)
    faults = _find_priority_faults(priority)
    if len(remote_name) > 200 or "\x00" in remote_name:
        faults.append(FieldFault("remote_name", "is too long", "up to 200 characters"))
    if Deployment.objects.filter(version=version, backend=backend, remote_name=remote_name).exists():
        faults.append(FieldFault("backend", f"{version} is already deployed there", "another backend"))
    _refuse("The version cannot be deployed.", faults)
    require_files(version)
    refuse_retired(version)
    deployment: Deployment = Deployment.objects.create(
        workspace=by.workspace,
        version=version,
        backend=backend,
        remote_name=remote_name,
        priority=priority,
        error=WAITING if has_adapters(backend) and _is_adapter(version) else "",
    )
    _note_version(by, "version.deployed", version, {"backend": backend.name})
    return deployment


def _is_adapter(version: ModelVersion) -> bool:
    return version.artifact is not None and version.artifact.kind == ArtifactKind.ADAPTER


@transaction.atomic
def change_deployment(
    *, by: Actor, deployment: Deployment, priority: int | None = None, enabled: bool | None = None
) -> Deployment:
    """None stays. Raises InvalidInput, and InUse as `remove_deployment` does."""
    locked = (
        Deployment.objects.select_for_update(of=["self"]).select_related("version", "backend").get(pk=deployment.pk)
    )
    if priority is not None:
        _refuse("The deployment cannot be changed.", _find_priority_faults(priority))
        locked.priority = priority
    if enabled is not None:
        if not enabled:
            _refuse_last_place(locked)
        locked.enabled = enabled
    locked.save(update_fields=["priority", "enabled"])
    told = {"backend": locked.backend.name, "priority": locked.priority, "enabled": locked.enabled}
    _note_version(by, "version.deployment_changed", locked.version, told)
    return locked


@transaction.atomic
def remove_deployment(*, by: Actor, deployment: Deployment) -> None:
    """Raises InUse where it is the last one of a remote version that serves."""
    _refuse_last_place(deployment)
    _note_version(by, "version.undeployed", deployment.version, {"backend": deployment.backend.name})
    deployment.delete()


def _refuse_last_place(deployment: Deployment) -> None:
    version = deployment.version
    others = Deployment.objects.filter(version=version, enabled=True).exclude(id=deployment.id)
    serving = Alias.objects.filter(version=version, name__in=AliasName.values).values_list("name", flat=True)
    if version.is_remote and not others.exists() and (names := sorted(serving)):
        raise InUse(f"{version} is the {names[0]} and would be served nowhere; move that alias first.")


def _find_priority_faults(priority: int) -> list[FieldFault]:
    if 0 <= priority <= MOST_PRIORITY:
        return []
    return [FieldFault("priority", f"{priority} is out of range", f"0 to {MOST_PRIORITY}, the lowest first")]


def point_alias(*, by: Actor, version: ModelVersion, name: str, reason: str = "") -> Alias:
    """A free alias, or `fallback`. Raises InvalidInput for those that promotions and experiments move."""
    _refuse_ours(name)
    return move_alias(by=by, version=version, name=name, reason=reason)


def remove_alias(*, by: Actor, version: ModelVersion, name: str, reason: str = "") -> bool:
    """False where it points elsewhere or nowhere. Raises InvalidInput as `point_alias` does."""
    _refuse_ours(name)
    return drop_alias(by=by, version=version, name=name, reason=reason)


def _refuse_ours(name: str) -> None:
    if name in OURS:
        how = "promote the version" if name == AliasName.CHAMPION else "start an experiment"
        raise InvalidInput(
            f"Reckoner moves the alias {name}.", faults=[FieldFault("alias", f"{name} is not free", how)]
        )


def _find_faults(setup: BackendSetup) -> list[FieldFault]:
    faults = []
    if not re.fullmatch(NAME, setup.name):
        faults.append(
            FieldFault("name", f"{setup.name[:80]!r} is not a name", "lower-case letters, digits and hyphens, up to 63")
        )
    if setup.kind not in BackendKind.values:
        faults.append(FieldFault("kind", f"{setup.kind!r} is unknown", ", ".join(BackendKind.values)))
    url_fault = find_url_fault(setup.url)
    key_fault = find_key_fault(setup.key_variable, setup.url if url_fault is None else None)
    faults += [fault for fault in (url_fault, key_fault) if fault is not None]
    if unknown := sorted(set(setup.capabilities) - set(Capability.values)):
        faults.append(FieldFault("capabilities", f"{', '.join(unknown)} unknown", ", ".join(Capability.values)))
    for name in ("connect_seconds", "timeout_seconds"):
        if not 0 < getattr(setup, name) <= LONGEST_SECONDS:
            faults.append(FieldFault(name, "is out of range", f"above 0, up to {LONGEST_SECONDS:g}"))
    if setup.artifacts_path and not re.fullmatch(r"/[^\x00]{0,498}", setup.artifacts_path):
        faults.append(
            FieldFault("artifacts_path", "is not an absolute path", "such as /mnt/artifacts, up to 499 characters")
        )
    if not 0 <= setup.retries <= MOST_RETRIES:
        faults.append(FieldFault("retries", "is out of range", f"0 to {MOST_RETRIES}"))
    faults += [
        FieldFault(name, "is out of range", "0 to 999,999, per million tokens")
        for name in ("price_in", "price_out")
        if not 0 <= getattr(setup, name) < 1_000_000
    ]
    return faults


def _fields(setup: BackendSetup) -> dict[str, Any]:
    return {**asdict(setup), "capabilities": sorted(set(setup.capabilities))}


def _refuse(message: str, faults: list[FieldFault]) -> None:
    if faults:
        raise InvalidInput(message, faults=faults)


def _note(by: Actor, action: str, backend: Backend, details: Mapping[str, Any]) -> None:
    record_audit(by=by, action=action, target=f"backend:{backend.id}", details={"name": backend.name, **details})


def _note_version(by: Actor, action: str, version: ModelVersion, details: Mapping[str, Any]) -> None:
    record_audit(by=by, action=action, target=f"model_version:{version.id}", details={"name": str(version), **details})

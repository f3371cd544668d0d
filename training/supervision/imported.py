"""A model that was trained in a folder, by `manage.py train` or elsewhere, becomes a version that can serve.

`manage.py import_model` calls it. An adapter's base becomes a version first, as that of a run does.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from decisions.models import Agent
from models_registry.models import BASE_METHOD, Artifact, ArtifactKind, ModelVersion
from models_registry.versions.services import NewVersion, register_version, store_artifact
from training.runs.base_models import why_no_model
from training.runs.launcher import LAST_WORDS, engine_environment
from training.supervision.cards import name_base
from training.supervision.named_bases import FETCH, link_files
from training.supervision.serving import find_serving_fault
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput

METHOD = "import"
ADAPTER_FILE = "adapter_model.safetensors"


@dataclass(frozen=True, slots=True)
class Imported:
    """`fault`: why the model server cannot serve what would have become the first champion."""

    version: ModelVersion
    fault: str | None


def import_model(*, by: Actor, agent: Agent, folder: Path, base: str = "") -> Imported:
    """Stores the weights in `folder`, an adapter over the folder or hub id `base` or else a whole model, and registers
    them. Only files that load a model are taken, and no pickle. The first version of an agent becomes champion once
    the model server has loaded it and answered. Raises InvalidInput, QuotaExceeded, StoreUnavailable."""
    model = agent.registered_model
    assert model is not None
    if base and not (folder / ADAPTER_FILE).is_file():
        raise _refuse("model", f"{folder} has no {ADAPTER_FILE}", "an adapter as peft saves it")
    if not base:
        _check(folder)
    below = _register_base(by, agent, base) if base else None
    meta = {"base_model": name_base(base or str(folder.resolve()))}
    if below is not None:
        meta["base"] = below.stored.digest
    artifact = _store(by, folder, ArtifactKind.MODEL if below is None else ArtifactKind.ADAPTER, meta)
    fault = find_serving_fault(model, artifact, below)
    new = NewVersion(
        artifact=artifact,
        method=METHOD,
        base=below,
        parent=below,
        description=f"Imported from the folder {folder.resolve().name}"[:500],
        may_serve=fault is None,
    )
    return Imported(register_version(by=by, model=model, new=new), fault)


def _register_base(by: Actor, agent: Agent, base: str) -> ModelVersion:
    """The version of this base, made once per content."""
    folder = Path(base) if Path(base).is_dir() else _fetch(base)
    _check(folder)
    artifact = _store(by, folder, ArtifactKind.MODEL, {"base_model": name_base(base)})
    model = agent.registered_model
    assert model is not None
    known = ModelVersion.objects.filter(registered_model=model, artifact=artifact, method=BASE_METHOD).first()
    if known is not None:
        return known
    new = NewVersion(artifact=artifact, method=BASE_METHOD, description=f"The base {name_base(base)}"[:500])
    return register_version(by=by, model=model, new=new)


def _check(folder: Path) -> None:
    if (lack := why_no_model(str(folder.resolve()))) is not None:
        raise _refuse("model", lack, "a folder that transformers loads, with its weights as safetensors")


def _store(by: Actor, folder: Path, kind: ArtifactKind, meta: dict[str, str]) -> Artifact:
    Path(settings.RUNS).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=settings.RUNS) as chosen:
        link_files(folder, Path(chosen))
        return store_artifact(workspace=by.workspace, folder=Path(chosen), kind=kind, meta=meta)


def _fetch(name: str) -> Path:
    """A hub's model, in its cache."""
    done = subprocess.run(  # noqa: S603 - our own interpreter and module, no shell
        [*FETCH, name],
        cwd=settings.BASE_DIR,
        env=engine_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        reason = done.stderr.strip()[-LAST_WORDS:] or f"{name} cannot be fetched"
        raise _refuse("base_model", reason, "a folder, or the id of a model on the hub")
    return Path(json.loads(done.stdout)["folder"])


def _refuse(field: str, reason: str, expected: str) -> InvalidInput:
    return InvalidInput("The model cannot be imported.", faults=[FieldFault(field, reason, expected)])

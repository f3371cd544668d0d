"""A base that a run names, by folder or hub id, becomes a version of its own, by its content.

Adapters, evaluations, exports and lineage then refer to it as to every other version. Called by the run's job.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from django.conf import settings

from jobs.context import JobContext
from jobs.errors import JobCancelled, Permanent
from models_registry.models import BASE_METHOD, ArtifactKind, ModelVersion
from models_registry.store.layout import MANIFEST
from models_registry.versions.services import NewVersion, register_version, store_artifact
from training.engine.spec.base_files import BASE_FILES, is_sentence_encoder
from training.models import TrainingRun
from training.runs.base_models import MADE_HERE, why_no_model, why_not_for
from training.runs.launcher import CANCEL_CHECK_SECONDS, LAST_WORDS, engine_environment
from training.runs.services import find_faults_of_base
from training.supervision.cards import name_base
from workspaces.access.actors import system

FETCH = (sys.executable, "-m", "training.engine.models.fetching")


def keep_named_base(context: JobContext, run: TrainingRun) -> None:
    """Makes the base that the run names a version, once, and the run's `base_version`.

    A version of the same content that the model has already is taken. Nothing happens for a new tiny model, or for a
    base that is a version. Raises Permanent for what is no model or cannot be fetched, JobCancelled, QuotaExceeded,
    StoreUnavailable.
    """
    if run.base_version is not None or run.base_model in MADE_HERE:
        return
    context.progress(0.0, f"storing the base {run.base_model}")
    _check(run)
    folder, revision = _find_files(context, run.base_model)
    if (lack := why_no_model(str(folder)) or why_not_for(run.method, run.base_model, folder)) is not None:
        raise Permanent(lack)
    _check(run)  # of a hub's model, which may not have told before
    meta = {"base_model": name_base(run.base_model)} | ({"revision": revision} if revision else {})
    with tempfile.TemporaryDirectory(dir=settings.RUNS) as chosen:
        link_files(folder, Path(chosen))
        kind = ArtifactKind.ENCODER if is_sentence_encoder(folder) else ArtifactKind.MODEL
        artifact = store_artifact(workspace=run.workspace, folder=Path(chosen), kind=kind, meta=meta)
    model = run.agent.registered_model
    assert model is not None
    with context.fenced():
        version = ModelVersion.objects.filter(registered_model=model, artifact=artifact, method=BASE_METHOD).first()
        if version is None:
            named = f"{meta['base_model']} at {revision}" if revision else meta["base_model"]
            new = NewVersion(artifact=artifact, method=BASE_METHOD, description=f"The base {named}"[:500])
            version = register_version(by=system(run.workspace), model=model, new=new)
        run.base_version = version
        run.save(update_fields=["base_version"])


def _check(run: TrainingRun) -> None:
    """Whether it can be trained as the run asks, as far as is known. Raises Permanent."""
    if faults := find_faults_of_base(run):
        raise Permanent("; ".join(f"{fault.field}: {fault.says}" for fault in faults))


def _find_files(context: JobContext, name: str) -> tuple[Path, str]:
    """Returns the folder of the model's files, and the revision on its hub ("" for a folder)."""
    if name.startswith("/"):
        return Path(name).resolve(), ""
    fetched = _fetch(context, name)
    return Path(fetched["folder"]), str(fetched["revision"])


def _fetch(context: JobContext, name: str) -> dict[str, Any]:
    """Has a process of the engine's fetch a hub's model. It may take long: the job can be cancelled meanwhile."""
    command = [*FETCH, name]
    with subprocess.Popen(  # noqa: S603 - our own interpreter and module, no shell
        command,
        cwd=settings.BASE_DIR,
        env=engine_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            printed, reason = _follow(context, process)
        finally:
            process.kill()
    if process.returncode != 0:
        raise Permanent(reason.strip()[-LAST_WORDS:] or f"{name} cannot be fetched")
    fetched: dict[str, Any] = json.loads(printed)
    return fetched


def _follow(context: JobContext, process: subprocess.Popen[str]) -> tuple[str, str]:
    """Reads what the process prints until it ends, both streams. Raises JobCancelled, StaleFence."""
    while True:
        try:
            return process.communicate(timeout=CANCEL_CHECK_SECONDS)
        except subprocess.TimeoutExpired:
            context.check_owned()
            if context.cancel_requested():
                raise JobCancelled from None


def link_files(folder: Path, chosen: Path) -> None:
    """Links those files of the folder that load its model, and the terms that apply, into the folder `chosen`, without
    the manifest of a folder that was taken out of a store: the new artifact gets its own. A sentence encoder's modules
    have folders of their own."""
    inner = folder.glob("*/*") if is_sentence_encoder(folder) else ()
    for path in [*folder.iterdir(), *inner]:
        if path.is_file() and path.name != MANIFEST and any(fnmatch(path.name, pattern) for pattern in BASE_FILES):
            link = chosen / path.relative_to(folder)
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(path.resolve())

"""Exports a version: merged weights in the store, made by the engine, checked by hash."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from jobs.context import JobContext
from jobs.services import enqueue_job
from models_registry.artifacts import verify_artifact
from models_registry.holders import require_files
from models_registry.models import Artifact, ArtifactKind, ModelVersion
from models_registry.quota import refuse_over_quota
from models_registry.services import locate_version, refuse_remote, refuse_reward_model, store_artifact
from training.cards import card_of_export
from training.launcher import run_engine, write_atomically
from training.models import ExportJob
from training.models.export import ExportFormat, ExportState
from workspaces.actors import Actor
from workspaces.services import record_audit

EXPORT = "training.export_version"


@transaction.atomic
def start_export(*, by: Actor, version: ModelVersion, format: str = ExportFormat.MERGED) -> ExportJob:
    """The version's export in this format: the one that is there or under way, or a new one. Raises NotAPolicy for a
    reward model, NotStored for a remote model."""
    refuse_reward_model(version)
    refuse_remote(version)
    existing = ExportJob.objects.filter(version=version, format=format).exclude(state=ExportState.FAILED).first()
    if existing is not None:
        return existing
    require_files(version)
    if version.base is not None:  # merged weights are as many bytes as the base's; whole ones are stored already
        refuse_over_quota(by.workspace, version.base.stored.size_bytes)
    export = ExportJob.objects.create(workspace=by.workspace, version=version, format=format)
    export.job = enqueue_job(kind=EXPORT, workspace=by.workspace, payload={"export_id": str(export.id)})
    export.save(update_fields=["job"])
    record_audit(by=by, action="export.started", target=f"export:{export.id}", details={"version": str(version)})
    return export


def export_version(context: JobContext) -> dict[str, Any] | None:
    """The job: merge by the engine, put the folder into the store, mark the row ready, once."""
    export = ExportJob.objects.select_related("version__artifact", "version__base__artifact", "workspace").get(
        id=context.payload["export_id"]
    )
    if export.state == ExportState.READY:
        return {"digest": export.artifact.digest if export.artifact else None}
    artifact = _merge(context, export) if export.version.base is not None else export.version.stored
    verify_artifact(artifact.digest)
    with context.fenced():
        ExportJob.objects.filter(id=export.id).update(
            state=ExportState.READY, artifact=artifact, finished_at=timezone.now()
        )
        context.complete({"digest": artifact.digest})
    return None


def _merge(context: JobContext, export: ExportJob) -> Artifact:
    """The adapter merged into a fresh copy of its base, by the engine. Full weights need none of this."""
    version = export.version
    assert version.base is not None
    run_dir = settings.RUNS / f"export-{export.id}"
    run_dir.mkdir(parents=True, exist_ok=True)
    spec = {
        "run_id": f"export-{export.id}",
        "method": "merge",
        "base": locate_version(version),
    }
    write_atomically(run_dir / "spec.json", json.dumps(spec))

    def sink(events: Sequence[Mapping[str, Any]]) -> None:
        fractions = [float(event["fraction"]) for event in events if event["kind"] == "progress"]
        if fractions:
            context.progress(fractions[-1], "merging")

    finished = run_engine(context, run_dir, sink=sink)
    meta = {"export_of": str(version), "weights_sha256": finished.result.weights_sha256}
    return store_artifact(
        workspace=export.workspace,
        folder=finished.folder / "model",
        kind=ArtifactKind.MODEL,
        meta={**meta, "base_model": version.base_model},
        texts=card_of_export(version),
    )


def end_with_job(job: Any) -> None:
    """The job died or was cancelled: the export failed, and says why."""
    ExportJob.objects.filter(job_id=job.id).exclude(state=ExportState.READY).update(
        state=ExportState.FAILED, error=job.error or "cancelled", finished_at=timezone.now()
    )

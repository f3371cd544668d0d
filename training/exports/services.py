"""Exports versions: the engine writes the files and compares them with the version, what agrees goes into the store."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from decisions.rewards.specs import current_reward_spec
from jobs.context import JobContext
from jobs.errors import AlreadyFinished, Defer, Permanent
from jobs.services import enqueue_job, request_cancel
from models_registry.artifacts.holders import require_files
from models_registry.artifacts.opening import artifact_path, verify_artifact
from models_registry.artifacts.quota import refuse_over_quota
from models_registry.models import Artifact, ArtifactKind, ModelVersion
from models_registry.versions.services import locate_version, refuse_no_policy, refuse_remote, store_artifact
from training.engine.spec.export_formats import hash_options
from training.engine.spec.export_spec import ExportReport
from training.exports import ollama
from training.exports.hosting import PROFILES
from training.exports.plans import find_heldout, make_options, plain_plan
from training.models import ExportJob
from training.models.export import LIVE, ExportFormat, ExportState
from training.rows.parts import ROWS_FILE
from training.rows.reward_scale import reward_if
from training.runs.launcher import Finished, run_engine, write_atomically
from training.supervision.cards import card_of_export
from workspaces.access.actors import Actor, system
from workspaces.access.services import record_audit
from workspaces.errors import InvalidInput

EXPORT_POLL_SECONDS = 1.0
"""Between two looks at a program that exports."""
EXPORT = "training.export_version"
SAME_FILES = {"same_files": True}
REPORT = "parity.json"
KINDS: Mapping[str, ArtifactKind] = {
    ExportFormat.MERGED: ArtifactKind.MODEL,
    ExportFormat.LORA: ArtifactKind.ADAPTER,
}
"""What the files are to the store; those of other formats no engine of ours loads."""


@transaction.atomic
def start_export(*, by: Actor, version: ModelVersion, format: str = ExportFormat.MERGED, **options: Any) -> ExportJob:
    """The version's export in this format with these options (`cache`, `quantisation`; of ollama `profile` and `host`
    too): the one that is there or under way, or a new one. One that is at Ollama's server is put there again, where
    somebody may have deleted or replaced the model. Raises NotAPolicy for a reward model or an encoder, NotStored for a
    remote model, InvalidInput with everything that is missing for it."""
    refuse_no_policy(version)
    refuse_remote(version)
    if format == ExportFormat.MERGED and not any(options.values()):  # what is there needs no look at the machine
        existing = _find_live(version, format, hash_options({}))
        if existing is not None:
            return existing
    require_files(version)
    chosen = make_options(version, format, **options)
    hashed = hash_options(chosen)
    existing = _find_live(version, format, hashed)
    again = existing is not None and existing.format == ExportFormat.OLLAMA and existing.state == ExportState.READY
    if existing is not None and not again:
        return existing
    if version.base is not None:  # merged weights are as many bytes as the base's; whole ones are stored already
        refuse_over_quota(by.workspace, version.base.stored.size_bytes)
    export = existing or ExportJob(
        workspace=by.workspace, version=version, format=format, options=chosen, options_hash=hashed
    )
    export.state, export.artifact, export.report, export.finished_at = ExportState.QUEUED, None, {}, None
    export.save()
    export.job = enqueue_job(kind=EXPORT, workspace=by.workspace, payload={"export_id": str(export.id)})
    export.save(update_fields=["job"])
    record_audit(by=by, action="export.started", target=f"export:{export.id}", details={"as": str(export)})
    return export


def await_export(
    *, by: Actor, version: ModelVersion, since: dt.datetime, format: str = ExportFormat.MERGED, **options: Any
) -> ExportJob:
    """Its newest export in this format with exactly these options, for a loop that looks again and again; a new one
    where there is none, or where the newest ended without files before `since`, when the loop began. Raises Permanent
    where it ended so since then."""
    found = ExportJob.objects.filter(version=version, format=format, options_hash=hash_options(options))
    export = found.order_by("-id").first()
    ended = export is not None and export.state in (ExportState.FAILED, ExportState.REFUSED)
    if export is None or (ended and export.created_at < since):
        return start_export(by=by, version=version, format=format, **options)
    if ended:
        raise Permanent(f"exporting {version}: {export.error}")
    return export


def _find_live(version: ModelVersion, format: str, hashed: str) -> ExportJob | None:
    return ExportJob.objects.filter(version=version, format=format, options_hash=hashed, state__in=LIVE).first()


@transaction.atomic
def cancel_export(*, by: Actor, export: ExportJob) -> None:
    """A queued one is over at once, one that is being made ends itself. Raises AlreadyFinished."""
    if export.job_id is None or export.state != ExportState.QUEUED:
        raise AlreadyFinished(f"The export is already {export.state}.")
    request_cancel(job_id=export.job_id)
    record_audit(by=by, action="export.cancelled", target=f"export:{export.id}", details={"as": str(export)})


def export_version(context: JobContext) -> dict[str, Any] | None:
    """The job: write and compare by the engine, put the folder into the store, mark the row, once.

    Until the row is ready nothing is visible: the engine's folder is the attempt's, and the store's appears whole.
    """
    export = ExportJob.objects.select_related(
        "version__artifact", "version__base__artifact", "version__registered_model", "workspace"
    ).get(id=context.payload["export_id"])
    if export.state in (ExportState.READY, ExportState.REFUSED):
        return {"state": export.state, "digest": export.artifact.digest if export.artifact else None}
    if export.format == ExportFormat.MERGED and export.version.base is None:
        publish_export(context, export, export.version.stored, SAME_FILES)
        return None
    if export.format == ExportFormat.OLLAMA:
        put_into_ollama(context, export)
        return None
    run_dir = find_run_dir(export)
    remove_working_files(run_dir, context.fence)  # of attempts that were killed
    try:
        finished = write_export(context, export, run_dir)
        assert finished.result.export is not None
        report = _as_plain(export.version, finished.result.export)
        refused = bool(finished.result.export.parity.refusals)
        context.confirm_owned()
        artifact = None if refused else store_export(export, finished.folder / "export", report)
    finally:
        # Before the row is marked: nobody would come back for them after a kill in between.
        remove_working_files(run_dir, context.fence)
    if artifact is None:
        refuse_export(context, export, report)
    else:
        publish_export(context, export, artifact, report)
    return None


def put_into_ollama(context: JobContext, export: ExportJob) -> None:
    """Makes a model of the version's GGUF at the server; files and report of the GGUF are this export's too. Waits for
    it, and asks for it where there is none. Raises Permanent where it failed or Ollama cannot take it, OllamaRefused
    where the server does not do what it is asked."""
    version, options = export.version, export.options
    quantisation = options["quantisation"]
    by = system(export.workspace)
    gguf = await_export(
        by=by, version=version, since=context.created_at, format=ExportFormat.GGUF, quantisation=quantisation
    )
    if gguf.state != ExportState.READY:
        raise Defer(EXPORT_POLL_SECONDS, progress=0.5, message=f"exporting {version} as GGUF {quantisation}")
    try:
        made = ollama.deploy(options["host"], export=gguf, profile=PROFILES[options["profile"]])
    except ollama.OllamaRefused:
        raise  # another attempt may find the server
    except InvalidInput as error:
        raise Permanent(error.message) from error
    assert gguf.artifact is not None
    publish_export(context, export, gguf.artifact, gguf.report | {"ollama": asdict(made)})


def find_run_dir(export: ExportJob) -> Path:
    """Where the engine works on it."""
    return Path(settings.RUNS) / f"export-{export.id}"


def remove_working_files(run_dir: Path, fence: int) -> None:
    """What attempts up to this fence left: weights, and rows that people wrote. A later attempt may be at work, and an
    earlier one can publish nothing any more. The logs stay."""
    for place in [*run_dir.glob("attempts/*"), *run_dir.glob("data/*.jsonl")]:
        if place.stem.isdigit() and int(place.stem) <= fence:
            shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)


def write_export(context: JobContext, export: ExportJob, run_dir: Path) -> Finished:
    """The engine's attempt, with held-out rows of the version where it has some."""
    rows = run_dir / "data" / f"{context.fence}.jsonl"
    rows.parent.mkdir(parents=True, exist_ok=True)
    heldout = find_heldout(export.version)
    spec: dict[str, Any] = {
        "run_id": run_dir.name,
        "method": "export",
        "base": locate_version(export.version),
        "export": plain_plan(export.version, export.format, export.options),
    }
    if heldout.max_prompt_tokens is not None:
        spec["max_prompt_tokens"] = heldout.max_prompt_tokens
    if heldout.dataset is not None:
        shutil.copyfile(artifact_path(heldout.dataset.artifact.digest) / ROWS_FILE, rows)
        spec["data"] = {"heldout": f"data/{rows.name}", "heldout_rows": heldout.dataset.row_kind}
    write_atomically(run_dir / "spec.json", json.dumps(spec))

    def sink(events: Sequence[Mapping[str, Any]]) -> None:
        told = [event for event in events if event["kind"] == "progress"]
        if told:
            context.progress(float(told[-1]["fraction"]), str(told[-1]["message"]))

    return run_engine(context, run_dir, sink=sink)


def store_export(export: ExportJob, folder: Path, report: Mapping[str, Any]) -> Artifact:
    """The folder in the store, with a card and its report, every file hashed again."""
    version = export.version
    artifact = store_artifact(
        workspace=export.workspace,
        folder=folder,
        kind=KINDS.get(export.format, ArtifactKind.EXPORT),
        meta={"export_of": str(version), "format": export.format, **export.options, "base_model": version.base_model},
        texts={**card_of_export(version, export.format, report), REPORT: json.dumps(report, indent=2) + "\n"},
    )
    verify_artifact(artifact.digest)
    return artifact


def publish_export(context: JobContext, export: ExportJob, artifact: Artifact, report: Mapping[str, Any]) -> None:
    """From here on it can be downloaded."""
    with context.fenced():
        _end(export, state=ExportState.READY, artifact=artifact, report=report)
        context.complete({"state": ExportState.READY, "digest": artifact.digest})


def refuse_export(context: JobContext, export: ExportJob, report: Mapping[str, Any]) -> None:
    """The report stays, the files do not: nobody should use them."""
    refusals = report["parity"]["refusals"]
    with context.fenced():
        _end(export, state=ExportState.REFUSED, report=report, error="; ".join(refusals))
        context.complete({"state": ExportState.REFUSED, "refusals": refusals})


def _end(export: ExportJob, **fields: Any) -> None:
    ExportJob.objects.filter(id=export.id).update(finished_at=timezone.now(), **fields)


def _as_plain(version: ModelVersion, report: ExportReport) -> dict[str, Any]:
    """As JSON; where the right options are known, with the mean reward that the agent's spec gives to both: of each
    row what a right and a wrong action are worth, by the probability of the right one."""
    plain = report.model_dump(mode="json")
    plain["reward"] = None
    agent = version.registered_model.agents.order_by("id").first()
    parity = report.parity
    if agent is not None and parity.version is not None and parity.export is not None:
        spec = current_reward_spec(agent)
        right, wrong = reward_if(spec, "confirmed"), reward_if(spec, "corrected")
        of_version, of_export = (
            wrong + (right - wrong) * score.probability_of_right for score in (parity.version, parity.export)
        )
        plain["reward"] = {"version": of_version, "export": of_export, "change": of_export - of_version}
    return plain


def end_with_job(job: Any) -> None:
    """The job died or was cancelled: the export failed, and says why. What a killed attempt left goes."""
    export = ExportJob.objects.filter(job_id=job.id, state=ExportState.QUEUED).first()
    if export is not None:
        _end(export, state=ExportState.FAILED, error=job.error or "cancelled")
        transaction.on_commit(lambda: remove_working_files(find_run_dir(export), job.fence))

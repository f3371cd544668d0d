"""Starts an import, does its job, and cancels it.

Ids of decisions follow from their content, and a dataset is made in the transaction that ends the job, so an
interrupted attempt can be repeated.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.db import connection, transaction

from decisions.agents.current import get_current_agent
from decisions.errors import UnknownAgent
from decisions.importers.formats import FORMATS
from decisions.importers.reading import UnusableFile
from decisions.importers.records import Refusal
from decisions.importers.running import ImportOptions, ImportProgress, Report, Unusable, import_decisions
from jobs.context import JobContext
from jobs.errors import JobCancelled, Permanent
from jobs.models import Job, JobState
from jobs.services import enqueue_job, request_cancel
from training.datasets.snapshots import import_rows
from training.imports.checking import SHOWN, describe_refusal, read_planned_rows
from training.imports.plan import LABELLED, ImportPlan
from training.imports.uploads import drop_kept, keep_file, read_kept
from training.models import DatasetSnapshot
from workspaces.access.actors import Actor, system
from workspaces.access.services import record_audit
from workspaces.models import Workspace

KIND = "training.import"


def keep_for_import(*, by: Actor, plan: ImportPlan, path: Path) -> uuid.UUID:
    """Puts a file that `check_file` found usable where the job reads it; returns the upload's id."""
    return keep_file(path, {"workspace": str(by.workspace.id), **plan.as_plain()})


def find_upload(*, by: Actor, upload: uuid.UUID) -> tuple[Path, ImportPlan] | None:
    """What was kept in this workspace and has not been taken or removed."""
    kept = read_kept(upload)
    if kept is None or kept[1]["workspace"] != str(by.workspace.id):
        return None
    return kept[0], ImportPlan.from_plain(kept[1])


@transaction.atomic
def start_import(*, by: Actor, upload: uuid.UUID, plan: ImportPlan, file: str) -> Job:
    """Queues the job for a kept file. The same upload again is the same job."""
    key = str(upload)
    there = Job.objects.for_workspace(by.workspace).filter(kind=KIND, dedupe_key=key).exclude(state=JobState.DEAD)
    if (found := there.first()) is not None:
        return found
    payload = {**plan.as_plain(), "upload": key, "file": file, "requested_by": by.name}
    job = enqueue_job(kind=KIND, workspace=by.workspace, payload=payload, dedupe_key=key)
    details = {"what": plan.what, "file": file, **({"agent": plan.agent} if plan.agent else {})}
    record_audit(by=by, action="import.started", target=f"job:{job.id}", details=details)
    return job


@transaction.atomic
def cancel_import(*, by: Actor, job: Job) -> Job:
    """Raises AlreadyFinished."""
    job = request_cancel(job_id=job.id)
    record_audit(by=by, action="import.cancelled", target=f"job:{job.id}")
    if job.is_terminal:  # no worker has it: nobody else removes its file
        transaction.on_commit(lambda: drop_kept(uuid.UUID(job.payload["upload"])))
    return job


def erase_refusals(workspace: Workspace) -> None:
    """Forgets what imports said of the records that they left out, and why some ended: the reasons quote them."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE jobs_job SET result = result - 'refusals', error = '' WHERE workspace_id = %s AND kind = %s"
            " AND finished_at IS NOT NULL",
            [workspace.id, KIND],
        )


def run_import(context: JobContext) -> dict[str, Any] | None:
    """The job's handler. The file goes when the job has ended, however it did; it stays for another attempt."""
    assert context.workspace is not None
    upload = uuid.UUID(context.payload["upload"])
    by = replace(system(context.workspace), name=context.payload["requested_by"])
    found = find_upload(by=by, upload=upload)
    if found is None:
        raise Permanent("The uploaded file was removed because it was too old. Upload it again.")
    path, plan = found
    try:
        if plan.what == LABELLED:
            _import_rows(context, by, plan, path)
        else:
            _import_decisions(context, by, plan, path)
    except (JobCancelled, Permanent):
        drop_kept(upload)
        raise
    drop_kept(upload)
    return None


def _import_rows(context: JobContext, by: Actor, plan: ImportPlan, path: Path) -> None:
    found, left_out, faults = read_planned_rows(plan, path)
    if faults:  # it was checked when it came: only a damaged disk leads here
        raise Permanent("; ".join(faults[:SHOWN]))
    if context.cancel_requested():
        raise JobCancelled
    try:
        agent = get_current_agent(by, plan.agent).agent
    except UnknownAgent as error:
        raise Permanent(error.message) from error

    def end(dataset: DatasetSnapshot) -> None:
        with context.fenced():
            told = {"refused": len(left_out), "refusals": left_out[:SHOWN]} if plan.leave_out_faulty else {}
            context.complete({"dataset": str(dataset.id), "rows": dataset.rows, **told})

    context.progress(0.5, f"{len(found.rows):,} rows")
    import_rows(by=by, agent=agent, name=plan.name, kind=found.kind, rows=found.rows, on_made=end)


def _import_decisions(context: JobContext, by: Actor, plan: ImportPlan, path: Path) -> None:
    """Whole batches are in when it is cancelled or cut off; the next attempt finds them there."""
    order = ImportOptions(
        format=FORMATS[plan.format],
        path=path,
        agent=plan.agent or None,
        observed_at=plan.observed_at,
        policy=plan.policy or None,
        create_agents=plan.create_agents,
    )
    total, read = 2 * path.stat().st_size, 0
    refusals: list[str] = []

    def advance(count: int) -> None:
        nonlocal read
        read += count

    def refuse(refusal: Refusal) -> None:
        if len(refusals) < SHOWN:
            refusals.append(describe_refusal(refusal, path))

    def wrote(report: Report) -> None:
        if context.cancel_requested():
            raise JobCancelled
        context.progress(min(read / total, 0.99), f"{report.decisions + report.repeated:,} decisions")

    try:
        report = import_decisions(by=by, order=order, watch=ImportProgress(advance=advance, refuse=refuse, wrote=wrote))
    except (Unusable, UnusableFile) as error:
        raise Permanent(str(error).replace(str(path), path.name)) from error
    with context.fenced():
        context.complete({**report.as_plain(root=f"{path}/"), "refusals": refusals})

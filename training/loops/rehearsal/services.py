"""Starts, runs, cancels and finds rehearsals."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.db import transaction
from django.utils.text import slugify

from jobs.context import JobContext
from jobs.errors import JobCancelled
from jobs.models import Job
from jobs.services import enqueue_job, request_cancel
from models_registry.artifacts.opening import artifact_path
from models_registry.models import ArtifactKind
from models_registry.versions.services import store_artifact
from training.errors import RehearsalUnderWay, RunOver
from training.loops.rehearsal.loop import SeedLoop
from training.loops.rehearsal.plan import Plan, PlanError, check_plan
from training.loops.rehearsal.report import report_all, report_seed
from training.loops.rehearsal.source import Source
from training.models import Rehearsal, TrainingRun
from training.rows.labelled_texts import Example
from training.run_states import TERMINAL_STATES
from training.runs.architectures import find_named_base_faults
from training.runs.base_models import TINY, is_allowed_base, why_no_model
from training.runs.defaults import recipes
from training.runs.defaults.matrices import adapt_usable_matrices
from training.runs.services import cancel_run
from workspaces.access.actors import Actor, system
from workspaces.access.services import create_workspace, record_audit
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Membership, Role, User, Workspace
from workspaces.templatetags.show import percent

KIND = "training.rehearse"
SOURCE_FILE = "source.json"
NAME_LENGTH = 200


def start_rehearsal(
    *, source: Source, plan: Plan, text_field: str, label_field: str, owners: list[User], requested_by: str, again: bool
) -> Rehearsal:
    """Takes up the rehearsal of the same rows and plan if there is one, else makes its workspace and starts it.

    `again` starts a new one in any case. One that succeeded is returned as it is. Raises PlanError before anything is
    written.
    """
    check_plan(plan, source)
    if faults := find_base_faults(plan):
        raise PlanError(faults)
    named = (text_field, label_field)
    with transaction.atomic():
        found = None if again else find_rehearsal(source, plan, named)
        rehearsal = found or _create(source, plan, named, requested_by)
        for owner in owners:
            Membership.objects.get_or_create(workspace=rehearsal.workspace, user=owner, defaults={"role": Role.ADMIN})
        if may_start(rehearsal):
            by = replace(system(rehearsal.workspace), name=requested_by)
            _enqueue(rehearsal, by=by, action="rehearsal.started")
    return rehearsal


def find_rehearsal(source: Source, plan: Plan, named: tuple[str, str]) -> Rehearsal | None:
    """The newest of the same rows and plan; `named` are the fields of text and label."""
    return Rehearsal.objects.filter(digest=_digest(source, plan, *named)).order_by("-created_at").first()


def find_base_faults(plan: Plan) -> list[str]:
    """Why the plan's base cannot be used on this instance."""
    base = plan.base or settings.BASE_MODEL
    faults = []
    if plan.base and not is_allowed_base(plan.base):
        faults.append(f"base: {plan.base} is not allowed; add it to RECKONER_BASE_MODELS and start the instance again")
    elif lack := why_no_model(base):
        faults.append(f"base: {lack}")
    elif base != TINY:
        faults += [f"base: {fault.says}" for fault in find_named_base_faults(base, lora=_adapter_of(plan, base))]
    if plan.lora and base == TINY:
        faults.append("lora: the tiny base is trained whole; give a pretrained one with --base")
    return faults


def _adapter_of(plan: Plan, base: str) -> Mapping[str, Any] | None:
    """The settings of the adapter that its rounds train; None: every weight."""
    adapter: Mapping[str, Any] | None = adapt_usable_matrices(
        recipes.round_settings(base, rows=1, lora=plan.lora), base
    ).get("lora")
    return adapter


def may_start(rehearsal: Rehearsal) -> bool:
    """Whether it is neither done nor on its way: new, cancelled or dead."""
    return rehearsal.report is None and (rehearsal.job is None or rehearsal.job.is_terminal)


@transaction.atomic
def resume_rehearsal(*, by: Actor, rehearsal: Rehearsal) -> Job:
    """A new job for one that was cancelled or died: it goes on where that one was. Raises RehearsalUnderWay, and
    InvalidInput where its base cannot be used any more."""
    # Two people who press at once make one job: the second waits here and finds the first one's.
    rehearsal = Rehearsal.objects.select_for_update(of=("self",)).select_related("workspace").get(id=rehearsal.id)
    if not may_start(rehearsal):
        raise RehearsalUnderWay("The rehearsal is running or done, so it cannot be resumed.")
    if faults := find_base_faults(Plan.from_plain(rehearsal.plan)):
        told = [FieldFault(*fault.split(": ", 1)) for fault in faults]
        raise InvalidInput("The rehearsal cannot be resumed.", faults=told)
    return _enqueue(rehearsal, by=by, action="rehearsal.resumed")


def _enqueue(rehearsal: Rehearsal, *, by: Actor, action: str) -> Job:
    job = enqueue_job(kind=KIND, workspace=rehearsal.workspace, payload={"rehearsal_id": str(rehearsal.id)})
    rehearsal.job = job
    rehearsal.save(update_fields=["job"])
    record_audit(by=by, action=action, target=f"rehearsal:{rehearsal.id}")
    return job


def _digest(source: Source, plan: Plan, text_field: str, label_field: str) -> str:
    told = [source.digest, text_field, label_field, plan.as_plain()]
    return hashlib.sha256(msgspec.json.encode(told, order="sorted")).hexdigest()


def _create(source: Source, plan: Plan, named: tuple[str, str], requested_by: str) -> Rehearsal:
    name = f"Rehearsal of {source.name}"[:NAME_LENGTH]
    workspace = create_workspace(slug=_free_slug(source.name), name=name)
    with tempfile.TemporaryDirectory(prefix="reckoner-rehearsal-") as folder:
        (Path(folder) / SOURCE_FILE).write_text(json.dumps(asdict(source), ensure_ascii=False), encoding="utf-8")
        artifact = store_artifact(workspace=workspace, folder=Path(folder), kind=ArtifactKind.DATASET)
    about = {
        "file": source.name,
        "text_field": named[0],
        "label_field": named[1],
        "rows": len(source.examples),
        "labels": len(source.labels),
        "unusable": source.unusable,
        "repeated": source.repeated,
        "contradicted": source.contradicted,
    }
    return Rehearsal.objects.create(
        workspace=workspace,
        name=name,
        digest=_digest(source, plan, *named),
        source=artifact,
        plan=plan.as_plain(),
        about=about,
        requested_by=requested_by,
    )


def _free_slug(file_name: str) -> str:
    """`rehearsal-tickets`, then `rehearsal-tickets-2` and so on."""
    stem = f"rehearsal-{slugify(Path(file_name).stem) or 'file'}"[:50].rstrip("-")
    taken = set(Workspace.objects.filter(slug__startswith=stem).values_list("slug", flat=True))
    return next(slug for slug in (stem, *(f"{stem}-{n}" for n in range(2, len(taken) + 3))) if slug not in taken)


def read_stored_source(rehearsal: Rehearsal) -> Source:
    return _read_source(rehearsal.source.digest)


# Each run of the job needs the whole file, and there are thousands of runs.
@lru_cache(maxsize=2)
def _read_source(digest: str) -> Source:
    plain = json.loads((artifact_path(digest) / SOURCE_FILE).read_text(encoding="utf-8"))
    examples = tuple(Example(**example) for example in plain.pop("examples"))
    return Source(**{**plain, "examples": examples, "labels": tuple(plain["labels"])})


def rehearse(context: JobContext) -> dict[str, Any]:
    """The job's handler: the first seed that is not done goes on; the report is written after the last."""
    rehearsal = Rehearsal.objects.select_related("workspace", "source").get(id=context.payload["rehearsal_id"])
    if context.cancel_requested():
        raise JobCancelled
    source, plan = read_stored_source(rehearsal), Plan.from_plain(rehearsal.plan)
    results: list[Mapping[str, Any]] = rehearsal.results
    while len(results) < plan.seeds:
        loop = SeedLoop(context, rehearsal, source, seed=len(results))
        loop.advance()
        results = [*results, report_seed(loop)]
        with context.fenced():
            Rehearsal.objects.filter(id=rehearsal.id).update(results=results)
    report = report_all(rehearsal.about, rehearsal.plan, results)
    with context.fenced():
        Rehearsal.objects.filter(id=rehearsal.id).update(report=report)
        context.progress(1.0, _said(report))
        context.complete({"rehearsal": str(rehearsal.id), "better": report["better"]})
    return {}


def _said(report: Mapping[str, Any]) -> str:
    return f"held-out accuracy {percent(report['base']['mean'])} → {percent(report['final']['mean'])}"


def end_with_job(job: Job) -> None:
    """A rehearsal that ends early takes its runs with it; what was decided stays, and a new job goes on from there."""
    assert job.workspace is not None
    unfinished = TrainingRun.objects.for_workspace(job.workspace).exclude(state__in=TERMINAL_STATES)
    for run in unfinished.select_related("workspace"):
        with suppress(RunOver):  # it ended by itself in this moment
            cancel_run(by=system(run.workspace), run=run)


def cancel_rehearsal(*, by: Actor, rehearsal: Rehearsal) -> Job:
    """Raises AlreadyFinished."""
    assert rehearsal.job is not None
    with transaction.atomic():
        job = request_cancel(job_id=rehearsal.job.id)
        record_audit(by=by, action="rehearsal.cancelled", target=f"rehearsal:{rehearsal.id}")
    return job

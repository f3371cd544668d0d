"""The job that erases a person. It is on this floor because it needs the ledger, its datasets and the registry.

request → Erasure + job → batches of tombstones, each with the marks of the datasets that held them, in one transaction
→ what names the person without a decision → runs stopped, versions marked → files removed → the subject forgotten.

Every step is idempotent: an interrupted job continues, with the same pseudonyms.
"""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from decisions.erasure.counts import count_person
from decisions.erasure.erasing import (
    Person,
    PersonKind,
    count_decisions,
    erase_decisions,
    erase_without_decisions,
    find_decisions,
    wait_for_copies,
)
from jobs.context import JobContext
from jobs.services import enqueue_job
from training.imports.services import erase_refusals
from training.lineage.marks import cancel_marked_runs, mark_datasets, mark_made_versions, remove_marked_files
from training.models import DatasetItem, Erasure
from workspaces.access.actors import Actor, system
from workspaces.access.services import record_audit, secret_hmac
from workspaces.erasure import erase_answers
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Workspace

KIND = "training.erase_person"
BATCH = 2000
LONGEST = 200


def read_person(*, unit: str | None, user: str | None) -> Person:
    """Raises InvalidInput unless exactly one is given."""
    if bool(unit) == bool(user):
        raise InvalidInput(
            "Name the person to erase.", faults=[FieldFault("unit", "give exactly one of unit and user", "a name")]
        )
    person = Person(PersonKind.UNIT, unit) if unit else Person(PersonKind.USER, user or "")
    if len(person.value) > LONGEST or "\x00" in person.value:
        raise InvalidInput(
            "The name is invalid.",
            faults=[FieldFault(person.kind, "is too long or contains a NUL character", "a name")],
        )
    return person


def preview_erasure(*, workspace: Workspace, person: Person) -> dict[str, int]:
    """What an erasure would find, by kind of row, and how many datasets would be marked. Changes nothing."""
    field = "unit" if person.kind == PersonKind.UNIT else "user_ref"
    whose = Q(**{f"decision__{field}": person.value})
    if person.unit is not None:  # as decisions.erasure.erasing finds them
        whose |= Q(decision__unit=None, decision__user_ref=None, decision__episode__unit=person.unit)
    items = DatasetItem.objects.filter(whose, decision__workspace=workspace, dataset__workspace=workspace)
    datasets = items.values("dataset").distinct().count()
    return count_person(workspace=workspace, person=person) | {"datasets": datasets}


@transaction.atomic
def start_erasure(*, by: Actor, person: Person) -> Erasure:
    """The erasure of this person that is under way, or a new one. The audit names it by its fingerprint only."""
    fingerprint = secret_hmac(f"erasure:{by.workspace.id}:{person.kind}:{person.value}").hex()
    # Two people who ask at once make one erasure: the second waits here and finds the first one's.
    Workspace.objects.select_for_update(no_key=True).get(id=by.workspace.id)
    erasure = (
        Erasure.objects.for_workspace(by.workspace)
        .select_related("job")
        .filter(fingerprint=fingerprint, finished_at=None)
        .first()
    )
    if erasure is not None and erasure.job is not None and not erasure.job.is_terminal:
        return erasure
    if erasure is None:
        erasure = Erasure.objects.create(
            workspace=by.workspace,
            kind=person.kind,
            subject=person.value,
            secret=secrets.token_bytes(32),
            fingerprint=fingerprint,
            requested_by=by.name,
        )
    erasure.job = enqueue_job(kind=KIND, workspace=by.workspace, payload={"erasure_id": str(erasure.id)})
    erasure.save(update_fields=["job"])
    record_audit(
        by=by,
        action="erasure.started",
        target=f"erasure:{erasure.id}",
        details={"kind": person.kind, "fingerprint": fingerprint},
    )
    return erasure


def erase_person(context: JobContext) -> dict[str, Any] | None:
    """The job."""
    erasure = Erasure.objects.select_related("workspace").get(id=context.payload["erasure_id"])
    if erasure.subject is None or erasure.secret is None:
        return dict(erasure.counts)
    workspace, person, secret = erasure.workspace, Person(erasure.kind, erasure.subject), bytes(erasure.secret)
    total = count_decisions(workspace=workspace, person=person)
    done, after = 0, None
    while True:
        # The workspace's lock before the job's row: waiting must not keep the heartbeat from renewing the lease.
        with transaction.atomic():
            wait_for_copies(workspace)
            ids = find_decisions(workspace=workspace, person=person, after=after, size=BATCH, secret=secret)
            if not ids:
                break
            with context.fenced():
                counts = erase_decisions(workspace=workspace, ids=ids, secret=secret)
                counts["dataset_rows"] = mark_datasets(workspace=workspace, ids=ids)
                _add(erasure, counts)
        done, after = done + len(ids), ids[-1]
        context.progress(0.9 * done / max(total, done), f"{done} of {max(total, done)} decisions")
    with context.fenced():
        _add(erasure, erase_without_decisions(workspace=workspace, person=person, secret=secret))
        _add(erasure, Counter(answers=erase_answers(workspace=workspace)))
        erase_refusals(workspace)
    runs = cancel_marked_runs(workspace)
    context.progress(0.95, "removing files")
    datasets = remove_marked_files(workspace)
    with context.fenced():
        versions = mark_made_versions(workspace)
        _add(erasure, Counter(runs_stopped=runs, datasets=datasets, versions=versions))
        erasure.subject, erasure.secret, erasure.finished_at = None, None, timezone.now()
        erasure.save(update_fields=["subject", "secret", "finished_at"])
        record_audit(
            by=replace(system(workspace), name=erasure.requested_by),
            action="erasure.finished",
            target=f"erasure:{erasure.id}",
            details=dict(erasure.counts),
        )
        context.complete(dict(erasure.counts))
    return None


def _add(erasure: Erasure, counts: Counter[str]) -> None:
    erasure.counts = dict(Counter(erasure.counts) + counts)
    erasure.save(update_fields=["counts"])

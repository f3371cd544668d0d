"""Labels in bulk: one verdict for all decisions that match, in one request where they are few, else by a job.

Which decisions are meant is fixed when it is asked for, so a job can go on after a crash, and one undo takes all of it
back. Each chunk is one transaction that locks its decisions, as a single label does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.utils import timezone

from decisions.editors.corrections import CORRECTING
from decisions.errors import CountChanged
from decisions.labelling.labels import count_labels, remove_labels
from decisions.labelling.matching import MOST_IN_BULK, Asked, Matching, Selection, describe_filters, find_matching
from decisions.models import BulkLabel, Decision, Label, Skip, Verdict
from decisions.models.tombstones import ERASED_HASH
from jobs.context import JobContext
from jobs.errors import JobCancelled
from jobs.services import enqueue_job, request_cancel
from workspaces.access.actors import Actor, system
from workspaces.access.services import record_audit
from workspaces.errors import Conflict, FieldFault, InvalidInput, NotAllowed
from workspaces.models import Scope

LABEL_IN_BULK, UNDO_IN_BULK = "decisions.label_in_bulk", "decisions.undo_labels_in_bulk"
AT_ONCE = 500
"""Up to so many labels are given, or taken back, while the caller waits."""
CHUNK = 1_000


def check_verdict(verdict: str, corrected_action: str | None) -> None:
    """Raises InvalidInput. Whether the correction fits is asked of each decision: `Matching.unfit`."""
    faults = []
    if verdict not in Verdict.values:
        faults.append(FieldFault("verdict", f"{verdict!r} is unknown", ", ".join(Verdict.values)))
    if corrected_action is not None and verdict not in CORRECTING:
        faults.append(FieldFault("corrected_action", f"given with {verdict}", "only with corrected or overridden"))
    if faults:
        raise InvalidInput("The label is invalid.", faults=faults)


@transaction.atomic
def label_in_bulk(
    *,
    by: Actor,
    selection: Selection,
    asked: Asked,
    verdict: str,
    corrected_action: str | None = None,
    replaces: bool = False,
) -> BulkLabel:
    """Labels what matches: decisions without a person's label, or with `replaces` all. Those that the correction does
    not fit are left out.

    `asked` is what somebody was shown of the selection. Raises InvalidInput; CountChanged where more would be labelled
    than that.
    """
    check_verdict(verdict, corrected_action)
    found = find_matching(by.workspace, selection, right=corrected_action)
    _check_asked(found, asked, replaces=replaces)
    chosen = found.choose(replaces=replaces)
    if not chosen:
        fault = FieldFault("filters", "no decision matches that could get this label", "another filter or verdict")
        raise InvalidInput("There is nothing to label.", faults=[fault])
    bulk = BulkLabel.objects.create(
        workspace=by.workspace,
        reviewer=by.user,
        program="" if by.user else by.name,
        verdict=verdict,
        corrected_action=corrected_action,
        filters=describe_filters(selection),
        replaces=replaces,
        matching=len(found.ids),
        chosen=len(chosen),
        decisions=chosen,
    )
    _work(bulk, LABEL_IN_BULK, _label_next, len(chosen))
    details = {"verdict": verdict, "decisions": len(chosen), "filters": bulk.filters, "replaces": replaces}
    record_audit(by=by, action="labels.given_in_bulk", target=f"bulk_label:{bulk.id}", details=details)
    return bulk


def _check_asked(found: Matching, asked: Asked, *, replaces: bool) -> None:
    if found.too_many:
        fault = FieldFault("filters", f"more than {MOST_IN_BULK:,} decisions match", f"at most {MOST_IN_BULK:,}")
        raise InvalidInput("Too many decisions match. Add a filter.", faults=[fault])
    if asked.digest != found.selection.digest:
        raise CountChanged("The filter differs from the one whose count was shown. Check the new count.")
    if len(found.ids) > asked.matching:
        raise CountChanged(
            f"{asked.matching:,} decisions matched when the count was shown, and {len(found.ids):,} match now."
            " Check the new count."
        )
    if replaces and len(found.labelled) > asked.labelled:
        raise CountChanged(
            f"{asked.labelled:,} of the decisions had a person's label when the count was shown, and"
            f" {len(found.labelled):,} have one now. Check the new count."
        )


def _work(bulk: BulkLabel, kind: str, work: Callable[[BulkLabel], bool], size: int) -> None:
    """Within the caller's transaction: at once, or by a job."""
    if size > AT_ONCE:
        bulk.job = enqueue_job(kind=kind, workspace=bulk.workspace, payload={"bulk_label_id": str(bulk.id)})
        bulk.save(update_fields=["job"])
        return
    bulk.job = None
    while work(bulk):
        pass
    bulk.save()


def _label_next(bulk: BulkLabel) -> bool:
    """Labels the next chunk, and says whether there is more. Saves nothing of `bulk` itself."""
    chunk = bulk.decisions[bulk.done : bulk.done + CHUNK]
    locked = Decision.objects.for_workspace(bulk.workspace).filter(id__in=chunk).exclude(content_hash=ERASED_HASH)
    ids = list(locked.select_for_update(no_key=True).order_by("id").values_list("id", flat=True))
    if not bulk.replaces:  # somebody may have labelled one since
        taken = Label.objects.filter(decision__in=ids, pending=False, program="").values_list("decision", flat=True)
        ids = sorted(set(ids) - set(taken))
    Skip.objects.filter(decision__in=ids, reviewer=bulk.reviewer).delete()  # a label ends the skip
    labels = Label.objects.bulk_create(
        Label(
            workspace=bulk.workspace,
            decision_id=pk,
            reviewer=bulk.reviewer,
            program=bulk.program,
            verdict=bulk.verdict,
            corrected_action=bulk.corrected_action,
            bulk=bulk,
        )
        for pk in ids
    )
    count_labels(by=system(bulk.workspace), labels=labels)
    bulk.done += len(chunk)
    bulk.labelled += len(labels)
    if bulk.done < len(bulk.decisions):
        return True
    bulk.decisions = []
    return False


@transaction.atomic
def cancel_bulk(*, by: Actor, bulk: BulkLabel) -> BulkLabel:
    """Asks its job to stop. What is labelled stays, until it is undone. Raises Conflict, NotAllowed."""
    if bulk.job is None or bulk.job.is_terminal:
        raise Conflict("There is nothing to cancel.")
    _check_own(by, bulk)
    bulk.job = request_cancel(job_id=bulk.job.id)
    record_audit(by=by, action="labels.bulk_cancelled", target=f"bulk_label:{bulk.id}")
    return bulk


@transaction.atomic
def undo_bulk(*, by: Actor, bulk: BulkLabel) -> BulkLabel:
    """Takes back all of its labels that are still there; what was said of each decision before counts again. Labels of
    decisions that were erased since stay. Raises Conflict, NotAllowed."""
    bulk = _lock(bulk)
    if bulk.undone_at is not None:
        raise Conflict("These labels have been undone already.")
    if bulk.under_way:
        raise Conflict("The labels are still being written. Cancel that first, or wait for its end.")
    _check_own(by, bulk)
    bulk.decisions = []  # a job that died labels no more
    bulk.save(update_fields=["decisions"])
    count = bulk.labels.count()
    record_audit(by=by, action="labels.bulk_undone", target=f"bulk_label:{bulk.id}", details={"labels": count})
    _work(bulk, UNDO_IN_BULK, _take_back_next, count)
    return bulk


def _take_back_next(bulk: BulkLabel) -> bool:
    """Takes back the next chunk, and says whether there may be more. Saves nothing of `bulk` itself."""
    standing = Label.objects.filter(bulk=bulk).exclude(decision__content_hash=ERASED_HASH).order_by("decision_id")
    labels = list(standing[:CHUNK])
    ids = [label.decision_id for label in labels]
    list(Decision.objects.filter(id__in=ids).select_for_update(no_key=True).order_by("id").values_list("id"))
    if not labels:
        bulk.undone_at = timezone.now()
        return False
    remove_labels(by=system(bulk.workspace), labels=labels)
    return True


def _lock(bulk: BulkLabel) -> BulkLabel:
    found = BulkLabel.objects.select_for_update(of=("self",), no_key=True)
    return found.select_related("workspace", "reviewer", "job").get(id=bulk.id)


def may_take_back(by: Actor, bulk: BulkLabel) -> bool:
    """Whether the actor may cancel and undo it: who gave the labels, and admins."""
    own = bulk.reviewer_id == by.user.pk if by.user else not bulk.reviewer_id and bulk.program == by.name
    return by.may(Scope.ADMIN) or (own and by.may(Scope.FEEDBACK_WRITE))


def _check_own(by: Actor, bulk: BulkLabel) -> None:
    if not may_take_back(by, bulk):
        raise NotAllowed("Only the person who gave these labels and admins may do this.")


_WORK = {LABEL_IN_BULK: _label_next, UNDO_IN_BULK: _take_back_next}


def run_bulk_job(context: JobContext) -> dict[str, Any]:
    """The handler of both kinds. Each chunk is committed with how far it is, so another attempt goes on there."""
    bulk = BulkLabel.objects.filter(id=context.payload["bulk_label_id"]).first()
    more = bulk is not None and bulk.job_id == context.job_id
    while more and bulk is not None:
        if context.cancel_requested():
            raise JobCancelled
        with context.fenced():
            bulk = _lock(bulk)
            more = _WORK[context.kind](bulk)
            bulk.save(update_fields=["done", "labelled", "decisions", "undone_at"])
        undoing = context.kind == UNDO_IN_BULK
        done, of = (bulk.labelled - bulk.labels.count(), bulk.labelled) if undoing else (bulk.done, bulk.chosen)
        context.progress(done / max(of, 1), f"{done:,} of {of:,} labels {'taken back' if undoing else 'given'}")
    return {"labels": 0 if bulk is None else bulk.labels.count()}

"""Labels: a reviewer's judgement of a decision or an episode, and the feedback written with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.db.models import Q

from decisions.errors import Erased
from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import FeedbackIn
from decisions.labelling.corrections import find_correction_faults, is_same_correction
from decisions.labelling.subjects import Subject, name_of
from decisions.models import CHATTING, Decision, Episode, Feedback, Label, QueueItem, Reservation, Skip, Verdict
from decisions.models.verdicts import VERDICT, WITHDRAWN, find_label, find_verdict, label_key
from workspaces.access.actors import Actor
from workspaces.errors import Conflict, FieldFault, InvalidInput


@transaction.atomic
def label_decision(
    *,
    by: Actor,
    decision: Decision,
    verdict: str,
    corrected_action: Any = None,
    note: str = "",
    correction_sent: Mapping[str, Any] | None = None,
) -> Label:
    """A reviewer's judgement, and the feedback that says the same, in one transaction. Said again by the same reviewer
    while it counts, it is the same label. `correction_sent`: the fields that became `corrected_action`, where an app
    sent only those. Raises InvalidInput, Erased.
    """
    check_label(decision, verdict=verdict, corrected_action=corrected_action)
    # Two presses of one key come at the same moment: the second waits here and finds the first one's label.
    Decision.objects.select_for_update(no_key=True).only("id").get(id=decision.id)
    program = "" if by.user else by.name
    if (last := _said_last(decision)) is not None:
        same = (last.reviewer_id, last.program, last.verdict, last.note)
        if same == (by.user.pk if by.user else None, program, verdict, note) and is_same_correction(
            last.corrected_action, corrected_action
        ):
            if last.correction_sent != correction_sent:
                last.correction_sent = correction_sent
                last.save(update_fields=["correction_sent"])
            return last
    label = create_label(
        by=by,
        subject=decision,
        verdict=verdict,
        corrected_action=corrected_action,
        note=note,
        correction_sent=correction_sent,
    )
    count_label(by=by, label=label)
    return label


def check_label(subject: Subject, *, verdict: str, corrected_action: Any = None) -> None:
    """Raises InvalidInput with every fault, Erased."""
    if subject.is_erased:
        raise Erased.of([subject.id], field=f"{name_of(subject)}_id")
    faults = []
    if verdict not in Verdict.values:
        faults.append(FieldFault("verdict", f"{verdict!r} is unknown", ", ".join(Verdict.values)))
    if corrected_action is not None:
        if verdict not in {Verdict.CORRECTED, Verdict.OVERRIDDEN}:
            faults.append(FieldFault("corrected_action", f"given with {verdict}", "only with corrected or overridden"))
        faults += _find_correction_faults(subject, corrected_action)
    if faults:
        raise InvalidInput("The label is invalid.", faults=faults)


def _find_correction_faults(subject: Subject, corrected_action: Any) -> list[FieldFault]:
    if isinstance(subject, Episode):
        return [FieldFault("corrected_action", "given for an episode", "only for a decision")]
    return [
        replace(fault, field=fault.field.replace("action", "corrected_action", 1))
        for fault in find_correction_faults(subject, corrected_action)
    ]


def create_label(
    *,
    by: Actor,
    subject: Subject,
    verdict: str,
    corrected_action: Any,
    note: str,
    correction_sent: Mapping[str, Any] | None = None,
    pending: bool = False,
) -> Label:
    """The row alone, of what `check_label` has passed. It counts from `count_label` on."""
    Skip.objects.filter(decision_id=subject.id, reviewer=by.user).delete()  # a label ends the skip
    return Label.objects.create(
        workspace=by.workspace,
        **{name_of(subject): subject},
        reviewer=by.user,
        program="" if by.user else by.name,
        verdict=verdict,
        corrected_action=corrected_action,
        correction_sent=correction_sent,
        note=note,
        pending=pending,
    )


def count_label(*, by: Actor, label: Label) -> None:
    """Writes the feedback that says what the label says."""
    count_labels(by=by, labels=[label])


def count_labels(*, by: Actor, labels: Sequence[Label]) -> None:
    """Writes the feedback that says what the labels say, of decisions or episodes that are locked and not erased."""
    feedback = [
        FeedbackIn(
            metric=VERDICT,
            value=label.verdict,
            decision_id=label.decision_id,
            episode_id=label.episode_id,
            idempotency_key=label_key(label),
        )
        for label in labels
    ]
    _feed_back(by, feedback)


def _feed_back(by: Actor, feedback: Sequence[FeedbackIn]) -> None:
    outcome = record_feedback(by=by, ours=True, items=list(enumerate(feedback)))
    assert not outcome.errors, outcome.errors


def _said_last(decision: Decision) -> Label | None:
    """The label that wrote the verdict that counts. Asks the ledger anew."""
    fresh = Decision.objects.only("id", "workspace_id").prefetch_related("feedback", "labels").get(id=decision.id)
    return find_label(find_verdict(fresh), fresh.labels.all())


@transaction.atomic
def record_verdict(*, by: Actor, decision: Decision, verdict: str, correction: Any = None) -> Label:
    """A label from what an app sends: a correction may be the right action, the fields of it that were wrong, or words.
    It stays as it was sent, beside the action that it makes.

    Raises InvalidInput, with `correction` as the field.
    """
    note, corrected, fields = "", correction, None
    if isinstance(correction, Mapping) and isinstance(decision.action, Mapping):
        corrected, fields = {**decision.action, **correction}, correction
    elif isinstance(correction, str) and not (isinstance(decision.action, str) or _chats(decision)):
        note, corrected = correction, None
    try:
        return label_decision(
            by=by,
            decision=decision,
            verdict=verdict,
            corrected_action=corrected,
            note=note,
            correction_sent=fields,
        )
    except InvalidInput as error:
        names = {"verdict": "feedback", "corrected_action": "correction"}
        faults = [
            replace(fault, field=re.sub(r"^\w+", lambda name: names.get(name[0], name[0]), fault.field))
            for fault in error.faults
        ]
        raise InvalidInput(error.message, faults=faults) from error


def _chats(decision: Decision) -> bool:
    """Its agent answers in words, or calls tools: a text corrects either."""
    return decision.agent_version.action_space in CHATTING


@transaction.atomic
def withdraw_label(*, by: Actor, decision: Decision) -> Label:
    """Takes back the decision's newest label, which must be the actor's own; what was judged before counts again.

    Feedback is append-only: another one supersedes the label's, so that rewards no longer read it. Raises
    Conflict, Erased.
    """
    if decision.is_erased:
        raise Erased.of([decision.id], field="decision_id")
    labels = Label.objects.select_for_update(of=("self",)).filter(decision=decision, pending=False)
    label = labels.order_by("-id").first()
    if label is None or by.user is None or label.reviewer_id != by.user.pk:
        raise Conflict("You have no label to undo: it was removed, or somebody labelled after you.")
    if Reservation.objects.filter(label=label).exists() or QueueItem.objects.filter(resolution=label).exists():
        raise Conflict("You gave this label in a labelling queue. Undo it there.")
    remove_label(by=by, label=label)
    return label


def remove_label(*, by: Actor, label: Label) -> None:
    """Deletes the row; feedback that it wrote no longer counts."""
    remove_labels(by=by, labels=[label])


def remove_labels(*, by: Actor, labels: Sequence[Label]) -> None:
    """Deletes the rows; feedback that they wrote no longer counts. Of decisions that are not erased."""
    known = {label_key(label): label for label in labels}
    # Each by an index.
    target = Q(decision__in={label.decision_id for label in labels} - {None}) | Q(
        decision__isnull=True, episode__in={label.episode_id for label in labels} - {None}
    )
    fed = Feedback.objects.filter(target, idempotency_key__in=list(known)).values_list("idempotency_key", "id")
    withdrawn = [
        FeedbackIn(
            metric=WITHDRAWN,
            value=known[key].verdict,
            decision_id=known[key].decision_id,
            episode_id=known[key].episode_id,
            supersedes=pk,
            idempotency_key=f"withdrawn:{known[key].id}",
        )
        for key, pk in fed
    ]
    if withdrawn:
        _feed_back(by, withdrawn)
    Label.objects.filter(id__in=[label.id for label in labels]).delete()

"""Makes, changes, opens and closes labelling queues, and says who may label in one and who may adjudicate."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from django.db import IntegrityError, transaction

from decisions.labelling.subjects import KINDS, Subject, find_labelled
from decisions.models import (
    FeedbackSource,
    ItemState,
    LabelQueue,
    QueueItem,
    QueueState,
    QueueStrategy,
    QueueSubject,
    SkipPolicy,
    Verdict,
)
from decisions.models.labelling import MAX_OVERLAP
from decisions.models.verdicts import find_label, find_verdict
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import Conflict, FieldFault, InvalidInput, NotAllowed, NotFound
from workspaces.models import Membership, Scope, User


@dataclass(frozen=True, slots=True)
class QueueSetup:
    """What an admin says of a queue; people by their e-mail addresses. `LabelQueue` says what each field means."""

    name: str
    subject: str = QueueSubject.DECISION
    filters: Mapping[str, str] = field(default_factory=dict)
    strategy: str = QueueStrategy.UNCERTAINTY
    overlap: int = 1
    guidelines: str = ""
    gold_share: float = 0.0
    skip_policy: str = SkipPolicy.ASK_OTHERS
    hold_seconds: int = 900
    blind: bool = True
    reviewers: Sequence[str] = ()
    adjudicators: Sequence[str] = ()


PEOPLE = ("reviewers", "adjudicators")
CHANGEABLE = ("name", "guidelines", "gold_share", "skip_policy", "hold_seconds", "blind", *PEOPLE)
"""What may change later. Subject, filters, strategy and overlap may not: labels were given under them."""


def find_queue(by: Actor, slug: str) -> LabelQueue:
    """Raises NotFound."""
    queue = LabelQueue.objects.for_workspace(by.workspace).select_related("workspace").filter(slug=slug).first()
    if queue is None:
        raise NotFound("Labelling queue not found.")
    return queue


@transaction.atomic
def create_queue(*, by: Actor, slug: str, setup: QueueSetup) -> LabelQueue:
    """Raises InvalidInput with every fault, Conflict where the slug is taken."""
    values = {one.name: getattr(setup, one.name) for one in fields(setup)}
    people = _check(by, values)
    values |= {"filters": {name: text for name, text in setup.filters.items() if text}}
    try:
        with transaction.atomic():
            queue = LabelQueue.objects.create(
                workspace=by.workspace,
                slug=slug,
                **{name: value for name, value in values.items() if name not in PEOPLE},
            )
    except IntegrityError as error:
        raise Conflict(f"There is a labelling queue {slug} already.") from error
    for name, found in people.items():
        getattr(queue, name).set(found)
    record_audit(by=by, action="label_queue.created", target=f"label_queue:{queue.id}", details={"slug": slug})
    return queue


@transaction.atomic
def change_queue(*, by: Actor, queue: LabelQueue, state: str | None = None, **values: Any) -> LabelQueue:
    """Sets some of CHANGEABLE, and opens or closes it. A place that is held stays held. Raises InvalidInput."""
    assert set(values) <= set(CHANGEABLE), values
    people = _check(by, values if state is None else values | {"state": state})
    queue = LabelQueue.objects.select_for_update(of=("self",), no_key=True).select_related("workspace").get(id=queue.id)
    plain = {name: value for name, value in values.items() if name not in PEOPLE}
    if state is not None:
        plain["state"] = state
    for name, value in plain.items():
        setattr(queue, name, value)
    queue.save(update_fields=list(plain))
    for name, found in people.items():
        getattr(queue, name).set(found)
    details = {"slug": queue.slug, "fields": sorted({*values, *plain})}
    record_audit(by=by, action="label_queue.changed", target=f"label_queue:{queue.id}", details=details)
    return queue


def _check(by: Actor, values: Mapping[str, Any]) -> dict[str, list[User]]:
    """The people that were named. Raises InvalidInput with every fault."""
    faults: list[FieldFault] = []
    ranges = {"overlap": (1, MAX_OVERLAP), "gold_share": (0, 0.5), "hold_seconds": (1, 86_400)}
    for name, (low, high) in ranges.items():
        if name in values and not low <= values[name] <= high:
            faults.append(FieldFault(name, f"{values[name]} is out of range", f"{low} to {high}"))
    kind = KINDS.get(values.get("subject", QueueSubject.DECISION))
    choices: dict[str, Sequence[str]] = {
        "subject": QueueSubject.values,
        "strategy": QueueStrategy.values if kind is None else kind.strategies,
        "skip_policy": SkipPolicy.values,
        "state": QueueState.values,
    }
    for name, known in choices.items():
        if name in values and values[name] not in known:
            why = kind.refused.get(values[name], "is unknown") if kind is not None else "is unknown"
            faults.append(FieldFault(name, f"{values[name]!r} {why}", ", ".join(known)))
    if kind is not None:
        try:
            kind.read_filters(values.get("filters", {}))
        except InvalidInput as error:
            faults += error.faults
    people = {}
    for name in PEOPLE:
        if name in values:
            wanted = {address.strip().lower() for address in values[name]}
            members = Membership.objects.active().filter(workspace=by.workspace, user__email__in=wanted)
            people[name] = [membership.user for membership in members.select_related("user")]
            faults += [
                FieldFault(name, f"{address!r} is not a member of the workspace", "a member's e-mail address")
                for address in sorted(wanted - {user.email.lower() for user in people[name]})
            ]
    if faults:
        raise InvalidInput("The labelling queue is invalid.", faults=faults)
    return people


def holder_of(by: Actor) -> str:
    """Who holds a place: a person's id, or a key's name."""
    return str(by.user.pk) if by.user else by.name


def may_review(by: Actor, queue: LabelQueue) -> bool:
    named = set(queue.reviewers.values_list("pk", flat=True))
    return by.may(Scope.FEEDBACK_WRITE) and (not named or (by.user is not None and by.user.pk in named))


def check_reviewer(by: Actor, queue: LabelQueue) -> None:
    """Raises NotAllowed, or Conflict where the queue is closed."""
    if not may_review(by, queue):
        raise NotAllowed("You are not among the reviewers of this labelling queue.")
    if queue.state != QueueState.OPEN:
        raise Conflict("This labelling queue is closed.")


def may_adjudicate(by: Actor, queue: LabelQueue) -> bool:
    return by.may(Scope.ADMIN) or (by.user is not None and queue.adjudicators.filter(pk=by.user.pk).exists())


@transaction.atomic
def add_gold(*, by: Actor, queue: LabelQueue, subjects: Collection[uuid.UUID]) -> int:
    """Makes items with a known answer of decisions or episodes whose verdict a label gave, or a person through an app.
    Each reviewer is asked about each of them once; their answers count for nothing else. Returns how many are new.
    Raises InvalidInput."""
    LabelQueue.objects.select_for_update(no_key=True).get(id=queue.id)  # as the filling of the queue does
    name = queue.subject
    items = QueueItem.objects.filter(queue=queue, **{f"{name}__in": subjects})
    known = set(items.values_list(name, flat=True))
    found = find_labelled(name, subjects, by.workspace)
    faults, gold = [], []
    for pk in dict.fromkeys(subjects):
        subject = found.get(pk)
        answer = None if subject is None else _find_known_answer(subject)
        if subject is None or subject.is_erased:
            faults.append(FieldFault(f"{name}s", f"{pk} does not exist in this workspace", "the id of one"))
        elif answer is None:
            expected = "one that is labelled, or that a person confirmed or corrected through an app"
            faults.append(FieldFault(f"{name}s", f"{pk} has no label that counts", expected))
        elif pk not in known:
            gold.append(
                QueueItem(workspace=by.workspace, queue=queue, **{name: subject}, state=ItemState.GOLD, gold=answer)
            )
    if faults:
        raise InvalidInput(f"These {name}s cannot be gold items.", faults=faults)
    QueueItem.objects.bulk_create(gold)
    record_audit(by=by, action="label_queue.gold_added", target=f"label_queue:{queue.id}", details={"items": len(gold)})
    return len(gold)


def _find_known_answer(subject: Subject) -> dict[str, Any] | None:
    """The verdict that counts where a label gave it, or else a person through an app who also says what is right: no
    answer of a judge model or a program measures people. A person who only says that the action was wrong names no
    answer to compare with."""
    verdict = find_verdict(subject)
    if verdict is None:
        return None
    label = find_label(verdict, subject.labels.all())
    if label is not None:
        return {"verdict": label.verdict, "corrected_action": label.corrected_action}
    says_what_is_right = verdict.value == Verdict.CONFIRMED or verdict.correction is not None
    if verdict.source != FeedbackSource.HUMAN or not says_what_is_right:
        return None
    return {"verdict": verdict.value, "corrected_action": verdict.correction}

"""Records items and their changes of status as the app reports them."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from django.db import transaction
from msgspec import UNSET, Meta, UnsetType

from decisions.agents.kinds.expectations import expected_minutes
from decisions.erasure.names import CHANGE, ITEM, find_erased
from decisions.errors import Erased, IdConflict, IdNotUsable
from decisions.ingest.batches import BatchResult, Kept, check_id, check_moment, content_hash
from decisions.ingest.decoding import ItemError
from decisions.ingest.item_ends import apply_item_outcomes
from decisions.ingest.schemas import Count, Moment, Name, Share, Text
from decisions.models import Decision, Item, ItemOutcome, Project, StatusChange
from decisions.models.tombstones import ERASED_HASH
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput, ReckonerError
from workspaces.models import Workspace
from workspaces.storage.clock import database_now
from workspaces.storage.ids import uuid7

Word = Annotated[str, Meta(min_length=1, max_length=32)]
Label = Annotated[str, Meta(min_length=1, max_length=200)]
Labels = Annotated[list[Label], Meta(max_length=100)]
Minutes = Annotated[float, Meta(ge=0, le=1e9)]


class StatusChangeIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """An item's status changed. `status` DONE or COLD_STORAGE ends it: then `cycles`, `blocked`, `abandoned`, `minutes`
    (against `expected_minutes`, or the swimlane's own) and `alignment` reach all its decisions as feedback.

    What is left out stays as the item has it. `id` is a uuid7; other ids go to `external_id`.
    """

    item_ref: Name
    status: Word
    from_status: Word | None = None
    title: Annotated[str, Meta(max_length=500)] | None = None
    swimlane: Word | None = None
    priority: Word | None = None
    labels: Labels | None = None
    project_ref: Name | None = None
    project_name: Annotated[str, Meta(max_length=500)] | None = None
    cycles: Count | None = None
    blocked: bool | None = None
    abandoned: bool | None = None
    minutes: Minutes | None = None
    expected_minutes: Annotated[float, Meta(gt=0, le=1e9)] | None = None
    alignment: Share | None = None
    decision_id: uuid.UUID | None = None
    id: uuid.UUID | UnsetType = UNSET
    external_id: Text | None = None
    observed_at: Moment | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class _Reported:
    index: int
    given: StatusChangeIn
    observed_at: dt.datetime
    digest: bytes

    @property
    def names(self) -> list[uuid.UUID | str]:
        """What a repeat of it is recognised by."""
        return [name for name in (self.given.id, self.given.external_id) if name is not UNSET and name is not None]


def _first(one: _Reported, known: Mapping[Any, StatusChange]) -> StatusChange | None:
    return next((known[name] for name in one.names if name in known), None)


def _refusal(one: _Reported, first: StatusChange) -> ReckonerError | None:
    """None where the same was said before."""
    if bytes(first.content_hash) == one.digest:
        return None
    if bytes(first.content_hash) == ERASED_HASH:
        return Erased.of([first.id])
    message = f"{one.names[0]} was already recorded with different content"
    field = "id" if one.given.id is not UNSET else "external_id"
    return IdConflict(message, faults=[FieldFault(field, message, "a new ID")])


@transaction.atomic
def record_status_changes(*, by: Actor, items: Sequence[tuple[int, StatusChangeIn]]) -> BatchResult:
    """In order of the clients' clocks. Bad ones are reported, the rest is stored; outcomes of items are applied."""
    now = database_now()
    reported, errors = _check(by, items, now)
    known = _find_repeats(by.workspace, reported)
    # Refused and repeated changes make no item and rename no project.
    fresh_ones = [one for one in reported if _first(one, known) is None]
    there = _find_items(by.workspace, fresh_ones)
    known |= _find_repeats(by.workspace, fresh_ones)  # the same request may have been handled while we waited
    kept: list[Kept] = []
    fresh: list[StatusChange] = []
    for one in sorted(reported, key=lambda one: (one.observed_at, one.index)):
        if (first := _first(one, known)) is not None:
            error = _refusal(one, first)
            if error is None:
                kept.append(Kept(one.index, first.id, duplicate=True))
            else:
                errors.append(ItemError.of(one.index, error))
            continue
        if (item := there.get(one.given.item_ref)) is None:
            errors.append(ItemError.of(one.index, Erased.named("item_ref")))
            continue
        change = _change(by.workspace, item, one, now)
        known |= dict.fromkeys([*one.names, change.id], change)
        fresh.append(change)
        kept.append(Kept(one.index, change.id, duplicate=False))
    Item.objects.bulk_update(
        {change.item_id: change.item for change in fresh}.values(),
        ["title", "status", "swimlane", "priority", "labels", "project_ref", "cycles", "blocked", "changed_at"],
    )
    StatusChange.objects.bulk_create(fresh)
    if ends := [change.id for change in fresh if change.outcome]:
        apply_item_outcomes(changes=ends)
    return BatchResult(sorted(kept, key=lambda one: one.index), sorted(errors, key=lambda error: error.index))


def _check(
    by: Actor, items: Sequence[tuple[int, StatusChangeIn]], now: dt.datetime
) -> tuple[list[_Reported], list[ItemError]]:
    decisions = {item.decision_id for _, item in items if item.decision_id is not None}
    about = {
        row: (workspace != by.workspace.id, bytes(digest) == ERASED_HASH)
        for row, workspace, digest in Decision.objects.filter(id__in=decisions).values_list(
            "id", "workspace_id", "content_hash"
        )
    }
    ids = {item.id for _, item in items if item.id is not UNSET}
    taken = set(StatusChange.objects.filter(id__in=ids).exclude(workspace=by.workspace).values_list("id", flat=True))
    names = find_erased(by.workspace, CHANGE, {item.external_id for _, item in items if item.external_id is not None})
    reported, errors = [], []
    for index, item in items:
        foreign, erased = about.get(item.decision_id, (False, False))
        faults = check_moment(item.observed_at) + ([] if item.id is UNSET else check_id(item.id, now))
        if foreign:
            faults.append(FieldFault("decision_id", "does not exist in this workspace", "an ID in this workspace"))
        if item.id in taken:
            faults += IdNotUsable.of().faults
        if faults:
            error: ReckonerError = InvalidInput("The change is invalid.", faults=faults)
            errors.append(ItemError.of(index, error))
            continue
        if item.external_id in names:
            errors.append(ItemError.of(index, Erased.named("external_id")))
            continue
        if erased and item.decision_id is not None:
            errors.append(ItemError.of(index, Erased.of([item.decision_id], field="decision_id")))
            continue
        moment = now if item.observed_at is UNSET else item.observed_at
        reported.append(_Reported(index, item, moment, content_hash(item)))
    return reported, errors


def _find_gone(workspace: Workspace, refs: set[str]) -> set[str]:
    """Those whose items were erased. One that a decision since then is about is as good as new."""
    gone = set(find_erased(workspace, ITEM, refs))
    if gone:
        gone -= set(Decision.objects.filter(workspace=workspace, item_ref__in=gone).values_list("item_ref", flat=True))
    return gone


def _find_items(workspace: Workspace, reported: Sequence[_Reported]) -> dict[str, Item]:
    """The items, made where they are new and locked: changes of one item come one after the other. Those that were
    erased are left out."""
    refs = {one.given.item_ref for one in reported}
    # Locked before checking which are erased, so that this waits for a running erasure and sees its names.
    there = _lock_items(workspace, refs)
    if missing := refs - set(there):
        made = sorted(missing - _find_gone(workspace, missing))
        Item.objects.bulk_create([Item(workspace=workspace, ref=ref) for ref in made], ignore_conflicts=True)
        there |= _lock_items(workspace, made)
    named = [one.given for one in reported if one.given.item_ref in there]
    names = {given.project_ref: given.project_name for given in named if given.project_ref}
    Project.objects.bulk_create(
        [Project(workspace=workspace, ref=ref, name=names[ref] or "") for ref in sorted(names)], ignore_conflicts=True
    )
    for ref in sorted(ref for ref, name in names.items() if name):
        Project.objects.filter(workspace=workspace, ref=ref).exclude(name=names[ref]).update(name=names[ref])
    return there


def _lock_items(workspace: Workspace, refs: Collection[str]) -> dict[str, Item]:
    found = Item.objects.filter(workspace=workspace, ref__in=refs).select_for_update().order_by("ref")
    return {item.ref: item for item in found}


def _find_repeats(workspace: Workspace, reported: Sequence[_Reported]) -> dict[Any, StatusChange]:
    ids = [one.given.id for one in reported if one.given.id is not UNSET]
    external = [one.given.external_id for one in reported if one.given.external_id is not None]
    changes = StatusChange.objects.filter(workspace=workspace)
    found: dict[Any, StatusChange] = {change.id: change for change in changes.filter(id__in=ids)} if ids else {}
    if external:
        found |= {change.external_id: change for change in changes.filter(external_id__in=external)}
    return found


def _change(workspace: Workspace, item: Item, one: _Reported, now: dt.datetime) -> StatusChange:
    """The change; and the item as it is from then on, unless a later change was heard of before."""
    given = one.given
    before = given.from_status or item.status
    # An item that was done and is then put away was done: only the first end says what its decisions were worth.
    ends = given.status in ItemOutcome.values and before not in ItemOutcome.values
    opened = before in ItemOutcome.values and given.status not in ItemOutcome.values
    cycles = given.cycles if given.cycles is not None else item.cycles + opened
    blocked = given.blocked if given.blocked is not None else item.blocked
    swimlane = given.swimlane or item.swimlane
    priority = given.priority or item.priority
    expected = given.expected_minutes or expected_minutes(swimlane, priority)
    abandoned = given.abandoned if given.abandoned is not None else given.status == ItemOutcome.COLD_STORAGE
    if item.changed_at is None or one.observed_at >= item.changed_at:
        item.status, item.swimlane, item.priority = given.status, swimlane, priority
        item.cycles, item.blocked, item.changed_at = cycles, blocked, one.observed_at
        item.title = item.title if given.title is None else given.title
        item.labels = item.labels if given.labels is None else given.labels
        item.project_ref = given.project_ref or item.project_ref
    return StatusChange(
        id=uuid7() if given.id is UNSET else given.id,
        workspace=workspace,
        item=item,
        external_id=given.external_id,
        decision_id=given.decision_id,
        from_status=before,
        to_status=given.status,
        outcome=given.status if ends else "",
        cycles=cycles,
        blocked=blocked,
        abandoned=ends and abandoned,
        time_ratio=given.minutes / expected if given.minutes is not None and expected else None,
        alignment=given.alignment,
        observed_at=one.observed_at,
        recorded_at=now,
        content_hash=one.digest,
    )

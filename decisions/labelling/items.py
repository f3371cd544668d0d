"""A user's feedback on an item's change of status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
from django.db import transaction
from django.utils import timezone
from msgspec import UNSET, UnsetType

from decisions.editors.corrections import CORRECTING
from decisions.errors import Erased
from decisions.ingest.decoding import fault_of
from decisions.ingest.items import Labels, Word
from decisions.labelling.labels import record_verdict
from decisions.models import Decision, Item, StatusChange, Verdict
from decisions.models.tombstones import ERASED_HASH
from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, InvalidInput


class ItemCorrection(msgspec.Struct):
    """What a correction of a status change may set on the item. Whatever else it says is kept with the change."""

    swimlane: Word | UnsetType = UNSET
    priority: Word | UnsetType = UNSET
    labels: Labels | UnsetType = UNSET


@transaction.atomic
def record_status_change_verdict(
    *, by: Actor, change: StatusChange, verdict: str, correction: Any = None
) -> StatusChange:
    """What a person says of the change; the decision behind it, where one is named, gets the same verdict.

    A CORRECTED change's swimlane, priority and labels then hold for the item. Raises InvalidInput, Erased.
    """
    if bytes(change.content_hash) == ERASED_HASH:
        raise Erased.of([change.id])
    if verdict not in Verdict.values:
        raise InvalidInput(
            "The verdict is unknown.", faults=[FieldFault("feedback", f"{verdict!r} is unknown", ", ".join(Verdict))]
        )
    if correction is not None and verdict not in CORRECTING:
        raise InvalidInput(
            "The correction does not fit the verdict.",
            faults=[FieldFault("correction", f"given with {verdict}", "only with corrected or overridden")],
        )
    decision = (
        Decision.objects.for_workspace(by.workspace)
        .select_related("agent_version")
        .filter(id=change.decision_id)
        .first()
    )
    if decision is not None:
        record_verdict(by=by, decision=decision, verdict=verdict, correction=correction)
    if verdict == Verdict.CORRECTED and isinstance(correction, Mapping):
        _correct_item(change, correction)
    change.verdict, change.correction, change.verdict_at = verdict, correction, timezone.now()
    change.save(update_fields=["verdict", "correction", "verdict_at"])
    return change


def _correct_item(change: StatusChange, correction: Mapping[str, Any]) -> None:
    try:
        given = msgspec.convert(dict(correction), ItemCorrection)
    except msgspec.ValidationError as error:
        fault = fault_of(error)
        raise InvalidInput(
            "The correction is invalid.", faults=[replace(fault, field=f"correction.{fault.field}")]
        ) from error
    item = Item.objects.select_for_update().get(id=change.item_id)
    fields = {
        name: value for name in ("swimlane", "priority", "labels") if (value := getattr(given, name)) is not UNSET
    }
    for name, value in fields.items():
        setattr(item, name, value)
    if fields:
        item.save(update_fields=list(fields))
    change.item = item

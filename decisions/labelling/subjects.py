"""What reviewers label: decisions and whole episodes, which have their filters, orders and columns.

Queues, places, labels and gold items take either; what they need to know of the difference stands here, in
`decisions.labelling.filling`, which finds them, and in `check_label`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import QuerySet

from decisions.models import Decision, Episode, QueueItem, QueueStrategy, QueueSubject
from decisions.queries import browse, episode_list
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Workspace

Subject = Decision | Episode


@dataclass(frozen=True, slots=True)
class Kind:
    """filters: parameters of its list that a queue may have. parse: raises InvalidInput for values of them that make no
    sense. refused: orders in which a queue may not ask, and why. related: what checking a label reads with it."""

    model: type[Subject]
    filters: tuple[str, ...]
    parse: Callable[[Mapping[str, str]], object]
    refused: Mapping[str, str]
    related: tuple[str, ...]

    @property
    def strategies(self) -> list[str]:
        return [one for one in QueueStrategy.values if one not in self.refused]

    def read_filters(self, given: Mapping[str, str]) -> Any:
        """Of a body. Raises InvalidInput with every fault, of unknown names too."""
        faults = [
            FieldFault("filters", f"{name!r} is unknown", ", ".join(self.filters))
            for name in sorted({*given} - {*self.filters})
        ]
        filters: object = None
        try:
            filters = self.parse({name: text for name, text in given.items() if name in self.filters})
        except InvalidInput as error:
            faults += [replace(fault, field=f"filters.{fault.field}") for fault in error.faults]
        if faults:
            raise InvalidInput("The filter is invalid.", faults=faults)
        return filters


KINDS: Mapping[str, Kind] = {
    QueueSubject.DECISION.value: Kind(
        Decision,
        tuple(name for name in browse.FILTERS if name not in {"unit", "order"}),  # `q` finds a unit
        browse.parse_filters,
        {},
        ("agent_version",),
    ),
    QueueSubject.EPISODE.value: Kind(
        Episode,
        tuple(name for name in episode_list.FILTERS if name != "unit"),
        episode_list.parse_filters,
        {QueueStrategy.DIVERSITY.value: "compares the states of decisions, and an episode has none of its own"},
        ("agent",),
    ),
}


def name_of(subject: Subject) -> str:
    """`decision` or `episode`: also the column of items and labels that holds it."""
    return (QueueSubject.DECISION if isinstance(subject, Decision) else QueueSubject.EPISODE).value


def lock_subject(name: str, pk: uuid.UUID, workspace: Workspace) -> None:
    """Until the transaction ends, as an erasure locks it. Nothing where it is not there."""
    found: QuerySet[Any] = KINDS[name].model.objects.filter(id=pk, workspace=workspace)
    found.select_for_update(no_key=True).only("id").first()


def get_subject(item: QueueItem) -> Subject:
    """Read anew."""
    kind = KINDS[item.queue.subject]
    found: Subject = kind.model.objects.select_related(*kind.related).get(id=item.subject_id)
    return found


def find_labelled(name: str, ids: Collection[uuid.UUID], workspace: Workspace) -> dict[uuid.UUID, Subject]:
    """By id, with their feedback and labels; what is not there is left out."""
    found: QuerySet[Any] = KINDS[name].model.objects.for_workspace(workspace).filter(id__in=ids)
    return {one.id: one for one in found.prefetch_related("feedback", "labels")}

"""What one verdict would reach: all decisions of a filter, or some that were chosen. `decisions.labelling.bulk` labels
them.

The ledger may hold millions of decisions, and no index serves most filters. So the newest WALKED decisions are looked
at, of the agent where the filter names one; `older` says where that ended, and the next look may begin there. What
arrives later has a larger id and is not meant: `before` bounds the ids, so that a count stays what it was.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from urllib.parse import urlencode

from django.http import QueryDict

from decisions.labelling.subjects import KINDS
from decisions.models import Decision, QueueSubject
from decisions.models.tombstones import ERASED_HASH, NOT_ERASED
from decisions.queries.browse import FILTERS, Filters, NewestDecisions, parse_filters, read_search
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Workspace

WALKED = 100_000
MOST_IN_BULK = 20_000
MOST_CHOSEN = 1_000
"""How many decisions may be named by their ids."""

_LABELLED = """EXISTS (SELECT 1 FROM decisions_label l WHERE l.decision_id = d.id AND l.workspace_id = %(workspace)s
                        AND NOT l.pending AND l.program = '')"""
_FITS = """coalesce(d.options @> %(right)s::jsonb AND d.action <> %(right)s::jsonb
    AND (SELECT v.action_space FROM decisions_agentversion v WHERE v.id = d.agent_version_id) = 'choice', false)"""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which decisions are meant: those of `filters`, or where there are any those of `ids`; only with an id smaller
    than `before`. The order of the filters says nothing here."""

    filters: Filters = field(default_factory=Filters)
    ids: tuple[uuid.UUID, ...] = ()
    before: uuid.UUID | None = None

    @property
    def query(self) -> str:
        """As in an address; `read_selection` reads it again."""
        pairs = [("id", one) for one in self.ids] + ([("before", self.before)] if self.before else [])
        return "&".join(part for part in (self.filters.without("order").query, urlencode(pairs)) if part)

    @property
    def digest(self) -> str:
        """Names it: what was asked about one selection is not said of another."""
        filters = asdict(self.filters.without("order"))
        content = json.dumps([filters, sorted(map(str, self.ids)), str(self.before)], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody was shown before they agreed: so many `matching` decisions, of which so many are `labelled` by a
    person, of the selection that `digest` names."""

    matching: int
    labelled: int
    digest: str


@dataclass(frozen=True, slots=True)
class Matching:
    """`ids` that match, newest first, MOST_IN_BULK + 1 of them where there are too many; `labelled` have a person's
    label, `unfit` a correction does not fit: it is the chosen action, or was no option. `selection` has the bound of
    this look. `older`: decisions older than this id were not looked at."""

    selection: Selection
    ids: tuple[uuid.UUID, ...]
    labelled: frozenset[uuid.UUID]
    unfit: frozenset[uuid.UUID]
    older: uuid.UUID | None = None

    @property
    def too_many(self) -> bool:
        return len(self.ids) > MOST_IN_BULK

    @property
    def asked(self) -> Asked:
        return Asked(len(self.ids), len(self.labelled), self.selection.digest)

    def choose(self, *, replaces: bool) -> list[uuid.UUID]:
        """Those that would get a label."""
        left_out = self.unfit if replaces else self.unfit | self.labelled
        return [pk for pk in self.ids if pk not in left_out]


def read_filters(given: Mapping[str, str]) -> Filters:
    """Of a body. Raises InvalidInput with every fault, of unknown names too."""
    filters: Filters = KINDS[QueueSubject.DECISION].read_filters(given)
    return filters


def read_selection(given: QueryDict) -> Selection:
    """From a query: filters of the list, `id` any number of times, `before`; `chosen` says that ids are meant. Raises
    InvalidInput."""
    ids, before = _read_ids(given, "id"), _read_ids(given, "before")
    if len(ids) > MOST_CHOSEN or (not ids and "chosen" in given):
        fault = FieldFault("id", f"{len(ids)} decisions are selected", f"1 to {MOST_CHOSEN:,}")
        raise InvalidInput("The selection is invalid.", faults=[fault])
    return Selection(parse_filters(given), ids, before[-1] if before else None)


def _read_ids(given: QueryDict, name: str) -> tuple[uuid.UUID, ...]:
    try:
        return tuple(dict.fromkeys(uuid.UUID(text) for text in given.getlist(name) if text))
    except ValueError as error:
        fault = FieldFault(name, "is not an id", "a decision's id")
        raise InvalidInput("The selection is invalid.", faults=[fault]) from error


def find_matching(workspace: Workspace, selection: Selection, *, right: str | None = None) -> Matching:
    """What matches now; `right` is the correction. One statement, and a second where the look ends before the ledger
    does. Ids that name no decision of the workspace match nothing; raises InvalidInput where all are such."""
    look = _start_look(workspace, selection)
    fits = "true"
    if right is not None:
        look.columns |= {"options", "action", "agent_version_id"}
        look.values["right"] = json.dumps(right)
        fits = _FITS
    look.values["limit"] = MOST_IN_BULK + 1
    rows = look.run(f"d.id, {_LABELLED}, {fits}", "ORDER BY d.id DESC LIMIT %(limit)s")
    ids = tuple(row[0] for row in rows)
    if selection.ids and not ids:
        faults = [fault for _, fault in find_missing(workspace, selection.ids)]
        raise InvalidInput("None of these decisions can be labelled.", faults=faults)
    # Ids that are taken together stay what they are.
    bound = selection.before or (uuid.UUID(int=ids[0].int + 1) if ids and not selection.ids else None)
    return Matching(
        selection=replace(selection, before=bound),
        ids=ids,
        labelled=frozenset(row[0] for row in rows if row[1]),
        unfit=frozenset(row[0] for row in rows if not row[2]),
        older=None if selection.ids or len(ids) > MOST_IN_BULK else look.last(),
    )


def find_missing(workspace: Workspace, ids: Sequence[uuid.UUID]) -> list[tuple[int, FieldFault]]:
    """The places in the list of ids that name no decision of the workspace, or an erased one, and what is wrong."""
    there = Decision.objects.for_workspace(workspace).filter(id__in=ids).exclude(content_hash=ERASED_HASH)
    known = set(there.values_list("id", flat=True))
    reason, expected = "is not a decision of this workspace, or was erased", "a decision's id"
    return [
        (index, FieldFault(f"decisions[{index}]", f"{pk} {reason}", expected))
        for index, pk in enumerate(ids)
        if pk not in known
    ]


def _start_look(workspace: Workspace, selection: Selection) -> NewestDecisions:
    if selection.ids:
        look = NewestDecisions(workspace, Filters(), most=MOST_CHOSEN)
        look.put("id = ANY(%(chosen)s)", chosen=list(selection.ids))
    else:
        given = selection.filters
        search = read_search(workspace, given.q, unit=given.unit, before=selection.before)
        filters = Filters() if search.by == "id" else given  # a lookup by id ignores the filters
        look = NewestDecisions(workspace, filters, most=WALKED, search=search)
    if selection.before is not None:
        look.put("id < %(before)s", before=selection.before)
    look.put(NOT_ERASED)
    return look


def describe_filters(selection: Selection) -> dict[str, str]:
    """The filters that may be kept: what was searched for, and a unit, may be a person's name."""
    kept = [name for name in FILTERS if name not in {"q", "unit", "order"}]
    return {name: value for name in kept if (value := getattr(selection.filters, name))}

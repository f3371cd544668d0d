"""The ledger for pages: filters, a search, and one page of rows.

The ledger may hold millions of decisions and has few indexes, since each slows ingest. So every statement walks at most
a fixed number of the newest decisions before the cursor by an index (of the agent, or of the unit, item or external id
searched for), and filters those. `Page.go_on` says where a look ended that found too little; the next page continues
there.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

from django.db import connection
from django.utils import timezone

from decisions.answer_ids import read_decision_id
from decisions.models import Agent, Decision, Verdict
from decisions.models.finish_reasons import INCOMPLETE, FinishReason
from decisions.models.verdicts import THAT_COUNTS
from decisions.queries.by_name import FIRST, LAST, find_named
from models_registry.errors import UnknownVersion
from models_registry.models import Arm
from models_registry.versions.references import find_version
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Workspace
from workspaces.storage.ids import uuid7_bound

LOOK = 5_000
"""How many decisions one page walks for a filter that no index serves, and how many its chart counts."""
QUEUE_LOOK = 2_000
"""Among how many of the newest decisions the most uncertain are found."""
NO_VERDICT = "no_verdict"
UNCERTAIN = "uncertain"
INCOMPLETE_ANSWERS = "incomplete"
ENDINGS = (INCOMPLETE_ANSWERS, *FinishReason.values)
"""Why an answer ended: one reason, or any that leaves it incomplete."""
ENDING_CHOICES = ((INCOMPLETE_ANSWERS, "Incomplete answers"), *FinishReason.choices)
VERDICTS = (NO_VERDICT, *Verdict.values)
WINDOWS: Mapping[str, tuple[str, dt.timedelta]] = {
    "1h": ("Last hour", dt.timedelta(hours=1)),
    "24h": ("Last 24 hours", dt.timedelta(hours=24)),
    "7d": ("Last 7 days", dt.timedelta(days=7)),
}


@dataclass(frozen=True, slots=True)
class Filters:
    """What a list is narrowed to; empty is all. As in the address: `agent` is a slug, `version` like filer:7,
    `finish_reason` one of ENDINGS, `unit` an exact name, `q` what is searched for: see Search. `order` is newest first,
    or the lowest confidence first."""

    agent: str = ""
    verdict: str = ""
    version: str = ""
    arm: str = ""
    since: str = ""
    finish_reason: str = ""
    unit: str = ""
    q: str = ""
    order: str = ""

    @property
    def query(self) -> str:
        return urlencode({name: value for name in FILTERS if (value := getattr(self, name))})

    @property
    def narrowed(self) -> bool:
        return bool(self.without("order").query)

    def without(self, *names: str) -> Filters:
        return replace(self, **dict.fromkeys(names, ""))


FILTERS = tuple(field.name for field in fields(Filters))


def parse_filters(given: Mapping[str, str]) -> Filters:
    """Gathers every fault. Raises InvalidInput. An unknown agent or version is no fault: it finds nothing."""
    filters = Filters(**{name: given.get(name, "").strip()[:200] for name in FILTERS})
    allowed = {
        "verdict": VERDICTS,
        "arm": Arm.values,
        "since": tuple(WINDOWS),
        "finish_reason": ENDINGS,
        "order": (UNCERTAIN,),
    }
    faults = [
        FieldFault(name, f"{getattr(filters, name)!r} is unknown", ", ".join(values))
        for name, values in allowed.items()
        if getattr(filters, name) and getattr(filters, name) not in values
    ]
    if faults:
        raise InvalidInput("The filter is invalid.", faults=faults)
    return filters


def read_ending(text: str) -> list[str]:
    """The reasons that one of ENDINGS means. Raises InvalidInput."""
    if text not in ENDINGS:
        fault = FieldFault("finish_reason", f"{text[:40]!r} is unknown", ", ".join(ENDINGS))
        raise InvalidInput("The filter is invalid.", faults=[fault])
    return [str(reason) for reason in INCOMPLETE] if text == INCOMPLETE_ANSWERS else [text]


NAMED = 250
"""How many of a name's newest decisions one page looks at."""
MOST_WORDS = 8


@dataclass(frozen=True, slots=True)
class Search:
    """What a search's text is to this ledger. A decision's id or the name of a unit, item or external id finds `ids`,
    however old: the newest NAMED of them, and `more` says that there may be others. Any other text is `words` that must
    all stand in state, action or reasoning; they are looked for among the newest decisions of the look."""

    ids: tuple[uuid.UUID, ...] | None = None
    by: str = ""
    more: bool = False
    words: tuple[str, ...] = ()


def read_search(workspace: Workspace, q: str, *, unit: str = "", before: uuid.UUID | None = None) -> Search:
    """A word beyond MOST_WORDS is left out. With `before`, a name's decisions that are older than this id. Without `q`
    those of the unit, if one is named."""
    between = (FIRST, before or LAST)
    if not q:
        if not unit:
            return Search()
        ids = find_named(workspace, unit, columns=("unit",), between=between, most=NAMED)
        return Search(tuple(ids), by="unit", more=len(ids) == NAMED)
    with suppress(ValueError):  # else it is a name or words
        wanted = read_decision_id(q)
        if Decision.objects.for_workspace(workspace).filter(id=wanted).exists():
            return Search((wanted,), by="id")
    ids = find_named(workspace, q, between=between, most=NAMED)
    # A name whose decisions are all newer than the page is still a name.
    if ids or (before and find_named(workspace, q, most=1)):
        return Search(tuple(ids), by="name", more=len(ids) == NAMED)
    return Search(words=tuple(dict.fromkeys(q.split()))[:MOST_WORDS])


@dataclass(frozen=True, slots=True)
class Page:
    """`older`: the next page begins after this id. `go_on`: the look ended there and the page is not full."""

    ids: tuple[uuid.UUID, ...]
    older: uuid.UUID | None = None
    go_on: uuid.UUID | None = None


_VERDICT = f"CROSS JOIN LATERAL (SELECT coalesce({THAT_COUNTS}, '{NO_VERDICT}') AS verdict) judged"


class NewestDecisions:
    """The newest decisions that an index finds, and the conditions that the others must meet among them."""

    def __init__(
        self,
        workspace: Workspace,
        filters: Filters,
        *,
        most: int,
        search: Search | None = None,
        ascending: bool = False,
    ) -> None:
        search = read_search(workspace, filters.q, unit=filters.unit) if search is None else search
        self.values: dict[str, Any] = {"workspace": workspace.id, "most": most}
        self.inside = ["workspace_id = %(workspace)s"]
        self.among: list[str] = []
        self.columns = {"id"}
        self.order = "ASC" if ascending else "DESC"
        self.more = search.more
        if search.ids is not None:
            self.put("id = ANY(%(ids)s)", ids=list(search.ids))
        if filters.agent:
            agent = Agent.objects.for_workspace(workspace).filter(slug=filters.agent).values_list("id", flat=True)
            self.values["agent"] = agent.first()
            if search.ids is not None:
                self.ask("d.agent_id = %(agent)s", "agent_id")
            else:
                # Alone, or the planner takes the workspace's index and walks over all the other agents' decisions.
                self.inside = ["agent_id = %(agent)s"]
        if filters.since:
            self.put("id >= %(since)s", since=uuid7_bound(timezone.now() - WINDOWS[filters.since][1]))
        if filters.version:
            version = _version_id(workspace, filters.version)
            self.ask("d.model_version_id = %(version)s", "model_version_id", version=version)
        if filters.finish_reason:
            reasons = read_ending(filters.finish_reason)
            self.ask("d.finish_reason = ANY(%(reasons)s)", "finish_reason", reasons=reasons)
        if filters.unit:
            self.ask("d.unit = %(unit)s", "unit", unit=filters.unit)
        if filters.arm:
            # Not EXISTS: the planner would join, and compare each decision with each exposure.
            arm = "(SELECT e.arm FROM models_registry_exposure e WHERE e.id = d.exposure_id) = %(arm)s"
            self.ask(arm, "exposure_id", arm=filters.arm)
        if search.words:
            patterns = [f"%{_LIKE.sub(_escaped, word)}%" for word in search.words]
            self.ask(f"{_TEXT} ILIKE ALL (%(words)s)", "state", "action", "reasoning", words=patterns)
        if filters.verdict:
            self.ask("judged.verdict = %(verdict)s", verdict=filters.verdict)

    def put(self, condition: str, **values: Any) -> None:
        """A condition that the index serves."""
        self.inside.append(condition)
        self.values |= values

    def ask(self, condition: str, *columns: str, **values: Any) -> None:
        """A condition on these columns that is looked at row by row."""
        self.among.append(condition)
        self.columns |= set(columns)
        self.values |= values

    def walk(self, columns: str) -> str:
        """SQL of the newest decisions that the index finds."""
        return (
            f"SELECT {columns} FROM decisions_decision WHERE {' AND '.join(self.inside)}"  # noqa: S608
            f" ORDER BY id {self.order} LIMIT %(most)s"
        )

    def run(self, select: str, rest: str, *, judged: bool = False) -> list[tuple[Any, ...]]:
        judged = judged or any("judged." in condition for condition in self.among)
        columns = self.columns | ({"workspace_id"} if judged else set())
        statement = f"""
            SELECT {select} FROM ({self.walk(", ".join(sorted(columns)))}) d {_VERDICT if judged else ""}
            {"WHERE " + " AND ".join(self.among) if self.among else ""} {rest}
        """  # noqa: S608 - the parts are this module's own; what a person gave stands in values
        with connection.cursor() as cursor:
            cursor.execute(statement, self.values)
            return cursor.fetchall()

    def last(self) -> uuid.UUID | None:
        """Where the look ends, when it ends before the ledger does."""
        if (ids := self.values.get("ids")) is not None:
            return ids[-1] if self.more and ids[-1] >= self.values.get("since", FIRST) else None
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT id FROM ({self.walk('id')}) d OFFSET %(most)s - 1", self.values)  # noqa: S608
            found = cursor.fetchone()
        return found[0] if found else None


_TEXT = "concat_ws(' ', d.state::text, d.action::text, d.reasoning)"
_LIKE = re.compile(r"[\\%_]")


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"


def _version_id(workspace: Workspace, text: str) -> uuid.UUID | None:
    try:
        return find_version(workspace, text).id
    except UnknownVersion:
        return None


def find_page(
    workspace: Workspace, filters: Filters, *, size: int, before: uuid.UUID | None = None, search: Search | None = None
) -> Page:
    """Ids of one page. One statement; a second where the look found too little. `search` is what `filters.q` is."""
    if search is None:
        search = read_search(workspace, filters.q, unit=filters.unit, before=None if filters.order else before)
    if search.by == "id":
        return Page(search.ids or ())  # a lookup by id ignores the filters
    uncertain = filters.order == UNCERTAIN
    look = NewestDecisions(workspace, filters, most=QUEUE_LOOK if uncertain else LOOK, search=search)
    rest = "ORDER BY d.id DESC"
    if uncertain:
        look.columns.add("confidence")
        rest = "ORDER BY coalesce(d.confidence, 2), d.id DESC"
        if before is not None:
            last = Decision.objects.for_workspace(workspace).filter(id=before).values_list("confidence", flat=True)
            look.ask(
                "(coalesce(d.confidence, 2) > %(sure)s OR coalesce(d.confidence, 2) = %(sure)s AND d.id < %(before)s)",
                sure=2.0 if (confidence := last.first()) is None else confidence,
                before=before,
            )
    elif before is not None:
        look.put("id < %(before)s", before=before)
    look.values["limit"] = size + 1
    ids = tuple(row[0] for row in look.run("d.id", f"{rest} LIMIT %(limit)s"))
    if len(ids) > size:
        return Page(ids[:size], older=ids[size - 1])
    return Page(ids, go_on=look.last() if (look.among or look.more) and not uncertain else None)


def find_neighbours(workspace: Workspace, filters: Filters, pk: uuid.UUID) -> tuple[uuid.UUID | None, uuid.UUID | None]:
    """The next newer and the next older decision inside the filter, by time."""
    found = []
    for ascending, condition in ((True, "id > %(pk)s"), (False, "id < %(pk)s")):
        look = NewestDecisions(workspace, filters.without("q"), most=LOOK, search=Search(), ascending=ascending)
        look.put(condition, pk=pk)
        rows = look.run("d.id", f"ORDER BY d.id {look.order} LIMIT 1")
        found.append(rows[0][0] if rows else None)
    return found[0], found[1]

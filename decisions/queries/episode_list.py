"""Episodes for lists and queues: the filters, and what they find, each part by an index."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from urllib.parse import urlencode

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from decisions.ingest.episodes import TRACE
from decisions.models import Agent, Decision, Episode, Step
from decisions.models.episode import HELD_OUT
from decisions.queries.browse import WINDOWS
from decisions.queries.by_name import find_named
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Workspace
from workspaces.storage.ids import uuid7_bound

LOOK = 2_000
"""Among how many of the newest episodes failures are looked for, which no index serves; and how many of a name."""
DECISIONS = 10_000
"""How many decisions of a unit are looked at for the episodes that they are of."""
CLOCKS = dt.timedelta(hours=1)
"""How far a client's clock may be ahead of ours."""
STATES = {"failed": "With failures"}


@dataclass(frozen=True, slots=True)
class Filters:
    """What a list is narrowed to; empty is all. `q` is exactly an id, a name, a trace or a unit."""

    agent: str = ""
    session: str = ""
    unit: str = ""
    since: str = ""
    state: str = ""
    q: str = ""

    @property
    def query(self) -> str:
        return urlencode({name: value for name in FILTERS if (value := getattr(self, name))})

    @property
    def narrowed(self) -> bool:
        return bool(self.query)


FILTERS = tuple(field.name for field in fields(Filters))


def parse_filters(given: Mapping[str, str]) -> Filters:
    """Gathers every fault. Raises InvalidInput. An unknown agent or session is no fault: it finds nothing."""
    filters = Filters(**{name: given.get(name, "").strip()[:200] for name in FILTERS})
    faults = [
        FieldFault(name, f"{getattr(filters, name)!r} is unknown", ", ".join(known))
        for name, known in (("since", WINDOWS), ("state", STATES))
        if getattr(filters, name) and getattr(filters, name) not in known
    ]
    if faults:
        raise InvalidInput("The filter is invalid.", faults=faults)
    return filters


def walk_episodes(
    workspace: Workspace, filters: Filters, *, after: uuid.UUID | None = None, before: uuid.UUID | None = None
) -> QuerySet[Episode]:
    """Between two ids, newest first, whatever their `state`: each part by an index, whatever the ledger holds."""
    found: QuerySet[Episode] = Episode.objects.for_workspace(workspace).order_by("-id")
    if filters.agent:
        # By its id: joined by its slug, an agent of few episodes is looked for among all.
        agent = Agent.objects.for_workspace(workspace).filter(slug=filters.agent).first()
        found = found.filter(agent_id=agent.id) if agent is not None else found.none()
    if filters.session:
        found = found.filter(session=filters.session)
    elif not filters.q:
        # Nobody was served by them: they are shown where a session or a name is asked for.
        found = found.exclude(session__startswith=HELD_OUT)
    if filters.unit:
        found = found.filter(of_unit(workspace, filters.unit))
    if filters.since:
        since = timezone.now() - WINDOWS[filters.since][1]
        # No index holds the start. An episode's id is of when we first heard of it, so not long before its start.
        found = found.filter(started_at__gte=since, id__gte=uuid7_bound(since - CLOCKS))
    if after is not None:
        found = found.filter(id__gt=after)
    if before is not None:
        found = found.filter(id__lt=before)
    if filters.q:
        found = found.filter(id__in=_find_named(workspace, filters.q, before))
    return found


def with_failures(found: QuerySet[Episode]) -> QuerySet[Episode]:
    return found.filter(Exists(Step.objects.filter(episode=OuterRef("pk"), success=False)))


def find_episodes(workspace: Workspace, filters: Filters, *, before: uuid.UUID | None = None) -> QuerySet[Episode]:
    """Of a list, newest first."""
    found = walk_episodes(workspace, filters, before=before)
    if filters.state == "failed":
        found = with_failures(found.filter(id__in=found.values("id")[:LOOK]))
    return found


def find_episodes_named(workspace: Workspace, name: str) -> list[uuid.UUID]:
    """Those that their agents call so, by the index of names, which begins with the agent; or that of a trace, as
    clients name it."""
    if match := TRACE.match(name):
        return list(Episode.objects.for_workspace(workspace).filter(trace=match[1]).values_list("id", flat=True))
    agents = list(Agent.objects.for_workspace(workspace).values_list("id", flat=True))
    return list(Episode.objects.filter(agent__in=agents, external_id=name).values_list("id", flat=True))


def of_unit(workspace: Workspace, unit: str) -> Q:
    """Episodes whose unit somebody told, and those of which nobody did and one of whose decisions has it: of these,
    among its DECISIONS newest."""
    return Q(unit=unit) | Q(unit="", id__in=_find_by_decisions(workspace, unit))


def _find_by_decisions(workspace: Workspace, unit: str) -> list[uuid.UUID]:
    ids = find_named(workspace, unit, columns=["unit"], most=DECISIONS)
    decisions = Decision.objects.filter(id__in=ids, episode__isnull=False)
    return list(decisions.order_by().values_list("episode_id", flat=True).distinct()) if ids else []


def _find_named(workspace: Workspace, q: str, before: uuid.UUID | None) -> set[uuid.UUID]:
    """Episodes whose id, name, trace or unit this is: a look at an index each, since none serves an OR of them."""
    own = Episode.objects.for_workspace(workspace)
    agents = list(Agent.objects.for_workspace(workspace).values_list("id", flat=True))
    ways = [
        own.filter(agent__in=agents, external_id=q),
        own.filter(trace=q.lower().removeprefix("trace:")),
        own.filter(unit=q),
        own.filter(unit="", id__in=_find_by_decisions(workspace, q)),
    ]
    with suppress(ValueError):  # else it is a name
        ways.append(own.filter(id=uuid.UUID(q)))
    if before is not None:
        ways = [way.filter(id__lt=before) for way in ways]
    return {pk for way in ways for pk in way.order_by("-id").values_list("id", flat=True)[:LOOK]}

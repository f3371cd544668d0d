"""Finds episodes by name or trace, and makes new ones."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Collection, Iterable, Mapping

from decisions.erasure.names import EPISODE, episode_name, find_erased
from decisions.models import Episode
from workspaces.access.actors import Actor

TRACE = re.compile(r"^trace:([0-9a-f]{32})$")
"""A name that means the episode of an OpenTelemetry trace, whichever agent it was first seen with."""
Named = tuple[uuid.UUID, str]
"""An episode as a client names it: the agent's id and the episode's name."""


def ensure_episodes(*, by: Actor, named: Mapping[Named, dt.datetime]) -> dict[Named, uuid.UUID]:
    """Ids of the episodes of these names; what is missing is made, started at the given moment.

    A name that was erased leads to the episode that had it, which stays erased: it is not stored again. One query for
    names that are there, of traces and others each; three more where some are new. Call inside a transaction. In one
    order everywhere, so that two batches with the same names do not wait for each other.
    """
    found = _find_episodes(by, named)
    if missing := sorted(set(named) - set(found), key=str):
        found |= _find_erased_names(by, [key for key in missing if not TRACE.match(key[1])])
        missing = [key for key in missing if key not in found]
        traces: dict[str, Named] = {}
        made = []
        for key in missing:
            if match := TRACE.match(key[1]):
                traces.setdefault(match[1], key)
            else:
                made.append(Episode(workspace=by.workspace, agent_id=key[0], external_id=key[1], started_at=named[key]))
        made += [
            Episode(workspace=by.workspace, agent_id=key[0], trace=trace, started_at=named[key])
            for trace, key in sorted(traces.items())
        ]
        Episode.objects.bulk_create(made, ignore_conflicts=True)
        found |= _find_episodes(by, missing)
    return {key: found[key] for key in named}


def _find_episodes(by: Actor, named: Collection[Named]) -> dict[Named, uuid.UUID]:
    traces = {key: match[1] for key in named if (match := TRACE.match(key[1]))}
    plain = set(named) - set(traces)
    found: dict[Named, uuid.UUID] = {}
    if plain:
        rows = Episode.objects.filter(agent_id__in={key[0] for key in plain}, external_id__in={key[1] for key in plain})
        found = {
            (agent, name): row
            for agent, name, row in rows.values_list("agent_id", "external_id", "id")
            if (agent, name) in plain
        }
    if traces:
        by_trace = Episode.objects.for_workspace(by.workspace).filter(trace__in=set(traces.values()))
        ids = dict(by_trace.values_list("trace", "id"))
        found |= {key: ids[trace] for key, trace in traces.items() if trace in ids}
    return found


def find_erased_episodes(*, by: Actor, named: Collection[Named]) -> set[Named]:
    """Those of the names whose episodes were erased. Two queries for any number."""
    traces = {key: match[1] for key in named if (match := TRACE.match(key[1]))}
    found = set(_find_erased_names(by, set(named) - set(traces)))
    if traces:
        rows = Episode.objects.for_workspace(by.workspace).filter(trace__in=traces.values())
        gone = {row.trace for row in rows.only("trace", "external_id") if row.is_erased}
        found |= {key for key, trace in traces.items() if trace in gone}
    return found


def _find_erased_names(by: Actor, named: Iterable[Named]) -> dict[Named, uuid.UUID]:
    names = {episode_name(*key): key for key in named}
    found = find_erased(by.workspace, EPISODE, names)
    return {names[name]: row for name, row in found.items() if row is not None}

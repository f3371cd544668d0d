"""Who asks whom: the key of a chat, the agent that it names and who serves that, as they were read last.

Each of them is kept in the process under the stamp of its rows (`workspaces.storage.row_cache`), which costs a query
each. Here all three are, and cost none: a chat is begun with them, and its call is opened only where the stamps of all
these rows still hold, which the statement that opens it looks at. Where they do not, or the chat is refused, all is
read anew.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from decisions.agents.current import ACTING, CurrentAgent, find_agents
from models_registry.errors import NoChampion
from models_registry.routing.routes import STAMPS, Routes, find_routes
from workspaces.access import actors
from workspaces.access.services import find_key, opens
from workspaces.models import ApiKey
from workspaces.storage.prepared import prepared_cursor
from workspaces.storage.row_cache import STAMP


@dataclass(frozen=True, slots=True)
class Standing:
    """A key, an agent of its workspace with the version that acts, and who serves it; `stamp` is that of their rows."""

    stamp: str
    key: ApiKey
    current: CurrentAgent
    routes: Routes


class OutOfDate(Exception):
    """A row behind a standing has changed since it was read."""


_KEPT: dict[tuple[str, str], Standing] = {}
MOST = 1024
_STAMP = f"""
SELECT concat_ws(' ', {STAMP.format("k")}, {STAMP.format("w")}, {STAMP.format("a")}, v.id,
                 ({STAMPS.format(model="a.registered_model_id")}))
  FROM workspaces_apikey k JOIN workspaces_workspace w ON w.id = k.workspace_id
  JOIN decisions_agent a ON a.workspace_id = w.id AND a.slug = %(slug)s {ACTING}
 WHERE k.prefix = %(prefix)s
"""  # noqa: S608 - names of our own
_UNCHANGED = f"({_STAMP}) = %(stamp)s"


def unchanged(standing: Standing) -> tuple[str, dict[str, str]]:
    """SQL, with its parameters: all rows behind the standing are as they were."""
    return _UNCHANGED, {"slug": standing.current.agent.slug, "prefix": standing.key.prefix, "stamp": standing.stamp}


def recall_standing(*, token: str, slug: str) -> Standing | None:
    """As it was read last, without a query. None where it never was, or the token is wrong."""
    prefix, _, secret = token.partition(".")
    kept = _KEPT.get((prefix, slug))
    return kept if kept is not None and opens(kept.key, secret) else None


def keep_standing(*, token: str, slug: str) -> None:
    """For the next chat, where all is there."""
    prefix, _, _ = token.partition(".")
    with prepared_cursor() as cursor:
        cursor.execute(_STAMP, {"slug": slug, "prefix": prefix})
        row = cursor.fetchone()
    key = find_key(token)
    if row is None or key is None:
        return
    current = find_agents(actors.program(key), [slug]).get(slug)
    if current is None or current.agent.registered_model is None:
        return
    with contextlib.suppress(NoChampion):
        found = Standing(row[0], key, current, find_routes(current.agent.registered_model))
        if len(_KEPT) >= MOST:
            _KEPT.clear()
        _KEPT[prefix, slug] = found

"""Who asks whom: the key of a chat, the agent that it names and who serves that, by one query.

Each of them is kept in the process under the stamp of its rows (`workspaces.row_cache`); here all three are, under the
stamps of all these rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from decisions.agents.current import ACTING, CurrentAgent, find_agents
from models_registry.errors import NoChampion
from models_registry.routes import STAMPS, Routes, find_routes
from workspaces import actors
from workspaces.models import ApiKey
from workspaces.prepared import prepared_cursor
from workspaces.row_cache import STAMP, RowCache
from workspaces.services import find_key, opens


@dataclass(frozen=True, slots=True)
class Standing:
    """A key, an agent of its workspace with the version that acts, and who serves it."""

    key: ApiKey
    current: CurrentAgent
    routes: Routes


_KEPT: RowCache[Standing] = RowCache()
_STAMPS = f"""
SELECT concat_ws(' ', {STAMP.format("k")}, {STAMP.format("w")}, {STAMP.format("a")}, v.id,
                 ({STAMPS.format(model="a.registered_model_id")}))
  FROM workspaces_apikey k JOIN workspaces_workspace w ON w.id = k.workspace_id
  JOIN decisions_agent a ON a.workspace_id = w.id AND a.slug = %s {ACTING}
 WHERE k.prefix = %s
"""  # noqa: S608 - names of our own


def find_standing(*, token: str, slug: str) -> Standing | None:
    """None where one of them is not there, or the token is wrong: whoever looks at them in turn learns which."""
    prefix, _, secret = token.partition(".")
    with prepared_cursor() as cursor:
        cursor.execute(_STAMPS, [slug, prefix])
        row = cursor.fetchone()
    if row is None:
        return None
    if (kept := _KEPT.find((prefix, slug), row[0])) is not None:
        return kept if opens(kept.key, secret) else None
    key = find_key(token)
    current = find_agents(actors.program(key), [slug]).get(slug) if key is not None else None
    if key is None or current is None or current.agent.registered_model is None:
        return None
    try:
        found = Standing(key, current, find_routes(current.agent.registered_model))
    except NoChampion:
        return None
    _KEPT.keep((prefix, slug), row[0], found)
    return found

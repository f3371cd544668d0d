"""Who serves a model now: its router, and the places of every version that it may name.

Both are read anew when a row behind them has changed, which one query tells (`workspaces.storage.row_cache`). `decide`
and chats call it for every request.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from models_registry.backends.places import Place, find_places
from models_registry.models import RegisteredModel
from models_registry.routing.router import Router
from workspaces.storage.prepared import prepared_cursor
from workspaces.storage.row_cache import STAMP, RowCache


@dataclass(frozen=True, slots=True)
class Routes:
    """`places` by version, in the order in which they are asked."""

    router: Router
    places: Mapping[uuid.UUID, tuple[Place, ...]]


_ROUTES: RowCache[Routes] = RowCache()
# A stamp is a place on a page and the transaction that wrote it: it differs after any change, the prober's too.
STAMPS = f"""
SELECT string_agg(stamp, ',' ORDER BY stamp) FROM (
  SELECT {STAMP.format("n")} AS stamp FROM models_registry_alias n WHERE n.registered_model_id = {{model}}
   UNION ALL
  SELECT concat({STAMP.format("e")}, {STAMP.format("p")}) FROM models_registry_experiment e
    JOIN models_registry_phase p ON p.experiment_id = e.id
   WHERE e.registered_model_id = {{model}} AND e.state = 'running'
   UNION ALL
  SELECT {STAMP.format("r")} FROM models_registry_variant r JOIN models_registry_experiment e ON e.id = r.experiment_id
   WHERE e.registered_model_id = {{model}} AND e.state = 'running'
   UNION ALL
  SELECT {STAMP.format("h")} FROM models_registry_holdout h
   WHERE h.registered_model_id = {{model}} AND h.ended_at IS NULL
   UNION ALL
  SELECT concat({STAMP.format("d")}, {STAMP.format("b")}) FROM models_registry_modelversion v
    JOIN models_registry_deployment d ON d.version_id = v.id JOIN models_registry_backend b ON b.id = d.backend_id
   WHERE v.registered_model_id = {{model}}
) AS stamped
"""  # noqa: S608 - names of our own
"""SQL: the stamp of all rows behind the routes of {model}, which must not use an alias of this query: an inner
one hides an outer one."""
_STAMPS = STAMPS.format(model="%(model)s::uuid")


def find_routes(model: RegisteredModel) -> Routes:
    """Raises NoChampion."""
    with prepared_cursor() as cursor:
        cursor.execute(_STAMPS, {"model": model.id})
        stamp = cursor.fetchone()[0] or ""
    found = _ROUTES.find(model.id, stamp)
    if found is None:
        router = Router(model)
        found = Routes(router, find_places(router.versions))
        _ROUTES.keep(model.id, stamp, found)
    return found

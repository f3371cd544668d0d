"""What a key with limits may not do for itself or for others: widen what it may ask and spend.

Every service by which limits could be got around asks here. People, jobs and commands are bound by none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workspaces.access.actors import Actor
from workspaces.errors import FieldFault, NotAllowed
from workspaces.models import ApiKey

BY_ADMIN = "an admin does it, on the pages or with a key without this limit"


def refuse_wider_key(by: Actor, limits: Mapping[str, Any]) -> None:
    """Checks a key that is made, or whose new secret is shown. A second key would have a budget of its own, so a key
    with a budget gets none. Raises NotAllowed."""
    if by.key is not None and by.key.spend_a_day is not None:
        fault = FieldFault("spend_a_day", "of this key would not bind the other one", BY_ADMIN)
        raise NotAllowed("A key with a budget gets no other key.", faults=[fault])
    _refuse(_find_wider(by.key, limits) if by.key is not None else [])


def refuse_wider_limits(by: Actor, key: ApiKey, changed: Mapping[str, Any]) -> None:
    """Checks limits of a key before they are `changed`. Raises NotAllowed."""
    if by.key is None or not changed:
        return
    if key.id == by.key.id:
        faults = [FieldFault(name, "are its own" if name == "agents" else "is its own", BY_ADMIN) for name in changed]
        raise NotAllowed("A key does not change its own limits.", faults=faults)
    faults = _find_wider(by.key, changed)
    if by.key.spend_a_day is not None and "spend_a_day" in changed:
        before, after = key.spend_a_day, changed["spend_a_day"]
        if before is not None and (after is None or after > before):
            faults.append(FieldFault("spend_a_day", "would be raised by a key with a budget", BY_ADMIN))
    _refuse(faults)


def refuse_with_budget(by: Actor, deed: str) -> None:
    """Refuses what makes calls cheaper, or costs what no key pays. `deed`: as in "sets prices". Raises NotAllowed."""
    if by.key is not None and by.key.spend_a_day is not None:
        fault = FieldFault("spend_a_day", "would not hold", BY_ADMIN)
        raise NotAllowed(f"A key with a budget {deed}.", faults=[fault])


def refuse_new_admin(by: Actor) -> None:
    """Who becomes an admin lifts every limit. Raises NotAllowed."""
    key = by.key
    if key is not None and (key.spend_a_day is not None or key.requests_a_minute is not None or key.agents):
        raise NotAllowed("A key with limits makes nobody an admin; an admin does it.")


def _find_wider(own: ApiKey, limits: Mapping[str, Any]) -> list[FieldFault]:
    """Those of the limits that are wider than the own ones."""
    faults = []
    requests: int | None = limits.get("requests_a_minute")
    agents: Sequence[str] = limits.get("agents", ())
    most: int | None = own.requests_a_minute
    if most is not None and "requests_a_minute" in limits and (requests is None or requests > most):
        faults.append(FieldFault("requests_a_minute", "is wider than this key's own", f"at most {most:,}"))
    if own.agents and "agents" in limits and (not agents or set(agents) - set(own.agents)):
        faults.append(FieldFault("agents", "are more than this key's own", f"some of {', '.join(own.agents)}"))
    return faults


def _refuse(faults: list[FieldFault]) -> None:
    if faults:
        raise NotAllowed("A key gives no other key wider limits than its own.", faults=faults)

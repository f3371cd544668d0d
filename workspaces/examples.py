"""What the OpenAPI document shows of this floor, and how an example is written. PURE.

All floors tell one story: Ann writes notes, the agent `filer` puts each into a folder, the notes app asks it and
records what became of the note. `project.openapi` puts the examples in, and a test sends each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

JSON = "application/json"
MOMENT = "2026-11-20T08:00:00Z"
KEY = "01a1f871-0b4b-74da-869a-6564b8a1abcd"


@dataclass(frozen=True, slots=True)
class Example:
    """One exchange with an operation: what is asked, and what comes back. Ids are those of the story's constants.

    `path` and `query` are parameters by name; `media` is the answer's type, a request's body is always JSON.
    """

    answer: Any
    status: int = 200
    request: Any = None
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    media: str = JSON
    name: str = "example"


def page(*results: Any) -> dict[str, Any]:
    """A list that needs no second page."""
    return {"next": None, "previous": None, "results": list(results)}


A_KEY = {
    "id": KEY,
    "name": "notes app",
    "prefix": "5f2c91d07a3e",
    "scopes": ["decisions:write", "feedback:write"],
    "state": "live",
    "created_at": MOMENT,
    "expires_at": None,
    "revoked_at": None,
    "last_used_at": None,
    "previous_until": None,
}
NEW_KEY = A_KEY | {"token": "5f2c91d07a3e.k8Jx2vQm4TzYpW7nRb1cLd6sHf3gAe9u"}

EXAMPLES: Mapping[str, Sequence[Example]] = {
    "keys_list": [Example(page(A_KEY))],
    "create_key": [Example(NEW_KEY, 201, {"name": "notes app", "scopes": ["decisions:write", "feedback:write"]})],
    "rotate_key": [
        Example(NEW_KEY | {"previous_until": "2026-11-20T09:00:00Z"}, 200, {"overlap_seconds": 3600}, {"id": KEY})
    ],
    "revoke_key": [Example(A_KEY | {"state": "revoked", "revoked_at": MOMENT}, path={"id": KEY})],
}

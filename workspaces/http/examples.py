"""Examples of this floor for the OpenAPI document, and how examples are written. PURE.

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
MEMBER = "01a1f872-3c1d-7a52-9d0e-2f6b8c4e7a10"
INVITATION = "01a1f873-77aa-7b31-8c55-90d2e1f3b6c4"
ENTRY = "01a1f874-18f0-7c9e-a2b7-5d4c3b2a1908"
ADMIN_EMAIL = "cleo@example.org"
WORKSPACE = "01a1f870-52be-7f04-b1c3-7e9d8a6f5c21"


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
    "requests_a_minute": None,
    "spend_a_day": None,
    "agents": [],
}
LIMITS = {"requests_a_minute": 600, "spend_a_day": "2.500000", "agents": ["filer"]}
NEW_KEY = A_KEY | {"token": "5f2c91d07a3e.k8Jx2vQm4TzYpW7nRb1cLd6sHf3gAe9u"}

A_MEMBER = {
    "id": MEMBER,
    "email": "ann@example.org",
    "name": "Ann",
    "role": "labeller",
    "state": "active",
    "created_at": MOMENT,
    "last_log_in": None,
}
AN_INVITATION = {
    "id": INVITATION,
    "email": "ben@example.org",
    "role": "labeller",
    "state": "open",
    "created_at": MOMENT,
    "expires_at": "2026-11-27T08:00:00Z",
    "accepted_at": None,
    "revoked_at": None,
}
A_WORKSPACE = {"id": WORKSPACE, "slug": "notes", "name": "Notes", "approval_required": False, "created_at": MOMENT}
AN_ENTRY = {
    "id": ENTRY,
    "at": MOMENT,
    "actor": "admin@example.org",
    "action": "person.invited",
    "target": f"invitation:{INVITATION}",
    "details": {"email": "ben@example.org", "role": "labeller"},
}
LINK = "https://reckoner.example.org/invitation?token=k8Jx2vQm4TzYpW7nRb1cLd6sHf3gAe9uk8Jx2vQm4Tz"

EXAMPLES: Mapping[str, Sequence[Example]] = {
    "keys_list": [Example(page(A_KEY))],
    "create_key": [Example(NEW_KEY, 201, {"name": "notes app", "scopes": ["decisions:write", "feedback:write"]})],
    "change_key": [Example(A_KEY | LIMITS, 200, LIMITS | {"spend_a_day": "2.50"}, {"id": KEY})],
    "rotate_key": [
        Example(NEW_KEY | {"previous_until": "2026-11-20T09:00:00Z"}, 200, {"overlap_seconds": 3600}, {"id": KEY})
    ],
    "revoke_key": [Example(A_KEY | {"state": "revoked", "revoked_at": MOMENT}, path={"id": KEY})],
    "members_list": [Example(page(A_MEMBER))],
    "change_member": [Example(A_MEMBER | {"role": "viewer"}, 200, {"role": "viewer"}, {"id": MEMBER})],
    "invitations_list": [Example(page(AN_INVITATION))],
    "invite_person": [
        Example(AN_INVITATION | {"url": LINK}, 201, {"email": "ben@example.org", "role": "labeller"}),
    ],
    "revoke_invitation": [Example(AN_INVITATION | {"state": "revoked", "revoked_at": MOMENT}, path={"id": INVITATION})],
    "read_workspace": [Example(A_WORKSPACE)],
    "create_workspace": [
        Example(
            A_WORKSPACE | {"slug": "mail", "name": "Mail"}, 201, {"name": "Mail", "slug": "mail", "admin": ADMIN_EMAIL}
        )
    ],
    "change_workspace": [Example(A_WORKSPACE, 200, {"name": "Notes"})],
    "audit_list": [Example(page(AN_ENTRY), query={"action": "person.invited", "since": "2026-11-20"})],
}

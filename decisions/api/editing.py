"""What calls that change an agent share: finding it, and the version that the change is based on."""

from __future__ import annotations

import re
from typing import Any

from rest_framework.request import Request

from decisions.errors import UnknownAgent
from decisions.models import Agent
from workspaces.errors import FieldFault, InvalidInput
from workspaces.http.permissions import acting

ETAG = re.compile(r'"?([0-9]{1,9})"?', re.ASCII)
STATED_ETAG = '^"?[0-9]{1,9}"?$'


def get_agent(request: Request, slug: str) -> Agent:
    """Raises UnknownAgent."""
    agent: Agent | None = Agent.objects.for_workspace(acting(request).workspace).filter(slug=slug).first()
    if agent is None:
        raise UnknownAgent(f"There is no agent {slug!r} in this workspace.")
    return agent


def read_expected(request: Request, in_body: Any, *, field: str) -> int:
    """The version that the change is based on, by the body's field or the header If-Match. Raises InvalidInput."""
    if in_body is not None and (type(in_body) is not int or not 0 < in_body < 2**31):
        raise InvalidInput(
            "Say which version the change is based on.",
            faults=[FieldFault(field, f"{str(in_body)[:40]!r} is not a version's number", "a whole number above 0")],
        )
    header = request.headers.get("If-Match", "").strip()
    if not header:
        if in_body is None:
            fault = FieldFault(field, "is missing", "the version that the change is based on, or If-Match")
            raise InvalidInput("Say which version the change is based on.", faults=[fault])
        return int(in_body)
    number = ETAG.fullmatch(header)
    if number is None or (in_body is not None and int(number[1]) != in_body):
        reason = "is not an ETag of an agent" if number is None else f"differs from {field}, {in_body}"
        raise InvalidInput("If-Match is invalid.", faults=[FieldFault("If-Match", reason, 'such as "3"')])
    return int(number[1])

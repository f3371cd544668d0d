"""The statuses that the OpenAPI document states for each operation: what the API answers is held to them."""

from __future__ import annotations

import re
from functools import cache

from tools.openapi import operations, whole_document

NOT_ALLOWED, FAULT = 405, 500


@cache
def _stated() -> list[tuple[str, re.Pattern[str], frozenset[int]]]:
    """Method, path and statuses of each operation."""
    return [
        (method.upper(), re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path))), _statuses(operation))
        for method, path, operation in operations(whole_document())
    ]


def _statuses(operation: dict[str, dict[str, object]]) -> frozenset[int]:
    return frozenset(int(status) for status in operation["responses"])


def find_undocumented(method: str, url: str, status: int) -> str | None:
    """What is wrong with an answer's status; None where its operation states it, and for what is no operation."""
    path = url.partition("?")[0]
    stated = [statuses for verb, pattern, statuses in _stated() if verb == method and pattern.fullmatch(path)]
    if not stated or status in (NOT_ALLOWED, FAULT) or any(status in statuses for statuses in stated):
        return None
    return f"{method} {path} answered {status}, and OpenAPI states only {sorted(stated[0])}"

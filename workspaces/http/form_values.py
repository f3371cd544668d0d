"""Refuses values that no query parameter and no form field may hold, before any view reads them.

PostgreSQL stores no NUL, and Python reads no number of more than 4,300 digits: either would end in a 500 somewhere.
JSON bodies have limits of their own (workspaces.http.parsing).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render

from workspaces.errors import FieldFault, InvalidInput
from workspaces.http.api_errors import json_error

MAX_DIGITS = 100
LONG_NUMBER = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")
OF_PROGRAMS = ("/api/", "/v1/")


def find_value_faults(values: QueryDict) -> list[FieldFault]:
    """Faults of names and values. A name that is itself not usable is not repeated."""
    faults = []
    for name, found in values.lists():
        field = name if "\x00" not in name and not LONG_NUMBER.search(name) else "a name"
        for text in (name, *found):
            if "\x00" in text:
                faults.append(FieldFault(field[:100], "contains a NUL character", "text"))
            elif number := LONG_NUMBER.search(text):
                reason = f"contains a number of {len(number[0])} digits"
                faults.append(FieldFault(field[:100], reason, f"at most {MAX_DIGITS} digits"))
    return faults


class FormValuesMiddleware:
    """Of pages the query and the form, of programs the query: their bodies are JSON."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> HttpResponse | None:
        by_program = request.path.startswith(OF_PROGRAMS)
        faults = find_value_faults(request.GET) if request.META.get("QUERY_STRING") else []
        if request.method == "POST" and not by_program:
            faults += find_value_faults(request.POST)
        if not faults:
            return None
        what = "form" if request.method == "POST" and not by_program else "query"
        error = InvalidInput(f"The {what} is invalid.", faults=faults)
        if by_program:
            return json_error(request, error)
        return render(request, "errors/refused.html", {"error": error}, status=error.status)

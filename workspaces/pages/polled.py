"""Parts of pages that follow something until it is over: htmx polls them, and an answer with 286 ends that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from workspaces.models import Role
from workspaces.pages.guard import PageRequest, View, workspace_page

STOP_POLLING = 286
"""htmx swaps such an answer in and asks no more."""


@dataclass(frozen=True)
class Followed:
    """What a part shows of something that goes on, and whether that is over."""

    context: dict[str, Any]
    over: bool


def answer_part(request: PageRequest, template: str, followed: Followed) -> HttpResponse:
    """Renders the part; the last one ends the polling."""
    return render(request, template, followed.context, status=STOP_POLLING if followed.over else 200)


def polled_part(
    template: str, *, role: str = Role.VIEWER
) -> Callable[[Callable[Concatenate[PageRequest, ...], Followed]], View]:
    """Makes the view of a polled part of a function that reads what goes on."""

    def decorate(read: Callable[Concatenate[PageRequest, ...], Followed]) -> View:
        @require_safe
        @workspace_page(role=role)
        @wraps(read)
        def view(request: PageRequest, **address: Any) -> HttpResponse:
            return answer_part(request, template, read(request, **address))

        return view

    return decorate

"""Pages that ask before they do something: what stops, promotes or removes is confirmed on a page with one button."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from workspaces.errors import InvalidInput
from workspaces.models import Role
from workspaces.pages.guard import PageRequest, View, workspace_page

LONGEST_REASON = 200


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """What a page asks, the button that says yes, what that does, and the message afterwards.

    `after`: the address to go to, where it is not the page that the person came from.
    """

    title: str
    explanation: str
    button: str
    do: Callable[[], object]
    done: str
    asks_reason: bool = False
    dangerous: bool = True
    after: str = ""


def confirmed(*, back: str) -> Callable[[Callable[Concatenate[PageRequest, ...], Confirmation]], View]:
    """Makes an admin's page of a function that returns what is to be confirmed: GET asks, POST does it.

    `back` names the page that the person came from; it has the same arguments.
    """

    def decorate(ask: Callable[Concatenate[PageRequest, ...], Confirmation]) -> View:
        @require_http_methods(["GET", "HEAD", "POST"])
        @workspace_page(role=Role.ADMIN)
        @wraps(ask)
        def view(request: PageRequest, **address: Any) -> HttpResponse:
            place = reverse(back, kwargs={"slug": request.workspace.slug, **address})
            return answer_confirmation(request, ask(request, **address), back=place)

        return view

    return decorate


def answer_confirmation(request: PageRequest, confirmation: Confirmation, *, back: str) -> HttpResponse:
    """GET asks. POST does it and goes on; where a reason is asked and `do` refuses it, the page asks again."""
    fault = ""
    if request.method == "POST":
        try:
            confirmation.do()
        except InvalidInput as error:
            if not confirmation.asks_reason:
                raise
            fault = next((fault.reason for fault in error.faults if fault.field == "reason"), error.message)
        else:
            messages.success(request, confirmation.done)
            return redirect(confirmation.after or back)
    context = {"confirmation": confirmation, "back": back, "fault": fault}
    return render(request, "partials/confirm.html", context, status=400 if fault else 200)


def read_reason(request: PageRequest) -> str:
    """Returns the reason that was given on the page; services refuse an empty one."""
    return " ".join(request.POST.get("reason", "").split())[:LONGEST_REASON]

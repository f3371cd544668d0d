"""May this actor call this view? Views name the scope that each method needs."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from workspaces.actors import Actor


class HasScope(BasePermission):
    """The view's `scopes` maps a method to the scope it needs. A method without one is refused."""

    message = "This key or role lacks the scope that the call needs."

    def has_permission(self, request: Request, view: Any) -> bool:
        actor = request.user
        scope = getattr(view, "scopes", {}).get(request.method)
        if not isinstance(actor, Actor) or scope is None:
            return False
        if not actor.may(scope):
            self.message = f"This call needs the scope {scope}."
            return False
        return True


def acting(request: Request) -> Actor:
    """Who sends this request, for `by=`. The permission above has seen to it that there is someone."""
    actor = request.user
    assert isinstance(actor, Actor)
    return actor

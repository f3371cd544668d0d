"""Checks that an actor has the scope that a view's method needs."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import MethodNotAllowed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from workspaces.access.actors import Actor


class HasScope(BasePermission):
    """The view's `scopes` maps a method to the scope it needs; HEAD needs GET's. Any other method is a 405."""

    message = "This key or role does not have the scope for this call."

    def has_permission(self, request: Request, view: Any) -> bool:
        actor, scopes = request.user, getattr(view, "scopes", {})
        if not isinstance(actor, Actor):
            return False
        scope = scopes.get("GET" if request.method == "HEAD" else request.method)
        if scope is None:
            view.headers["Allow"] = ", ".join([*scopes, *(["HEAD"] if "GET" in scopes else [])])
            raise MethodNotAllowed(str(request.method))
        if not actor.may(scope):
            self.message = f"This call needs the scope {scope}."
            return False
        return True


def acting(request: Request) -> Actor:
    """Who sends this request, for `by=`. The permission above has seen to it that there is someone."""
    actor = request.user
    assert isinstance(actor, Actor)
    return actor

"""Authenticates API requests: a key in `Authorization: Bearer prefix.secret`, or a logged-in person."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import structlog
from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated
from rest_framework.request import Request

from workspaces.access import actors
from workspaces.access.second_factor import lacks_second_factor
from workspaces.access.services import find_key
from workspaces.models import Membership, Workspace

WORKSPACE_HEADER = "X-Workspace"
INTERNAL_KEY_HEADER = "x-internal-api-key"


class ApiKeyAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[actors.Actor, Any] | None:
        scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if not scheme:
            return None
        if scheme.lower() != "bearer" or not token:
            raise AuthenticationFailed("Send the key as 'Authorization: Bearer PREFIX.SECRET'.")
        # workspaces.http.idempotency may have looked up the key for this request already.
        token, known = token.strip(), getattr(request._request, "api_key", None)
        key = known[1] if known is not None and known[0] == token else find_key(token)
        request._request.api_key = (token, key)  # type: ignore[attr-defined]
        if key is None:
            raise AuthenticationFailed("This key is unknown, expired or revoked.")
        structlog.contextvars.bind_contextvars(actor=f"key:{key.prefix}")
        return actors.program(key), key

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="api"'


class InternalKeyAuthentication(BaseAuthentication):
    """The notes app's own cron: `x-internal-api-key`, in the workspace of the setting and in no other.

    There is no default: without both settings the header opens nothing.
    """

    def authenticate(self, request: Request) -> tuple[actors.Actor, Any] | None:
        given = request.headers.get(INTERNAL_KEY_HEADER)
        if given is None:
            return None
        # Compared as digests of one length, in constant time; a key that is not set equals nothing.
        expected, slug = settings.INTERNAL_API_KEY, settings.INTERNAL_WORKSPACE
        if not expected or not slug or not hmac.compare_digest(_digest(given), _digest(expected)):
            raise AuthenticationFailed("This internal key is unknown.")
        workspace = Workspace.objects.filter(slug=slug).first()
        if workspace is None or request.headers.get(WORKSPACE_HEADER, slug) != slug:
            raise AuthenticationFailed("The internal key does not act in this workspace.")
        return actors.internal(workspace), None

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="api"'


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


class WorkspaceSessionAuthentication(SessionAuthentication):
    """A person's session, in the workspace that the header names or the only one there is."""

    def authenticate(self, request: Request) -> tuple[actors.Actor, Any] | None:
        found = super().authenticate(request)
        if found is None:
            return None
        user = found[0]
        if user.must_change_password:
            raise NotAuthenticated("Change the one-time password on the pages first.")
        if lacks_second_factor(user):
            raise NotAuthenticated("Turn on two-factor authentication on the pages first.")
        memberships = Membership.objects.active().filter(user=user).select_related("workspace")
        slug = request.headers.get(WORKSPACE_HEADER)
        if slug:
            memberships = memberships.filter(workspace__slug=slug)
        chosen = list(memberships.order_by("created_at")[:2])
        if len(chosen) != 1:
            raise NotAuthenticated(f"Name the workspace in the {WORKSPACE_HEADER} header.")
        structlog.contextvars.bind_contextvars(actor=f"person:{user.pk}")
        return actors.person(user, chosen[0].workspace, chosen[0].role), None


class ApiKeyScheme(OpenApiAuthenticationExtension):
    target_class = ApiKeyAuthentication
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "An API key: PREFIX.SECRET"}


class InternalKeyScheme(OpenApiAuthenticationExtension):
    target_class = InternalKeyAuthentication
    name = "internalKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "apiKey", "in": "header", "name": INTERNAL_KEY_HEADER}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = WorkspaceSessionAuthentication
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}

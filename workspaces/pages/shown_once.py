"""Passes a secret to the one page that shows it, in a signed cookie that the page deletes. Nothing is stored here, and
reloading the form that made it makes no second one.
"""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.cache import add_never_cache_headers

SECONDS = 60
COOKIE = "__Host-shown_once" if settings.HTTPS else "shown_once"


def send_secret(response: HttpResponse, secret: str, *, salt: str) -> HttpResponse:
    """`salt` says what it belongs to: only the page that knows the same one can read it."""
    response.set_signed_cookie(
        COOKIE,
        secret,
        salt=salt,
        max_age=SECONDS,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )
    return response


def read_secret(request: HttpRequest, *, salt: str) -> str:
    """Empty when there is none, it is older than a minute, or it belongs to something else."""
    return str(request.get_signed_cookie(COOKIE, default="", salt=salt, max_age=SECONDS))


def end_secret(response: HttpResponse) -> HttpResponse:
    """For the answer that shows it."""
    response.delete_cookie(COOKIE, samesite="Strict")
    add_never_cache_headers(response)
    return response

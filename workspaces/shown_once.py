"""Passes a secret to the one page that shows it, in a signed cookie that the page deletes. Nothing is stored here, and
reloading the form that made it makes no second one.
"""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.cache import add_never_cache_headers

SECONDS = 60
COOKIE = "shown_once"


def send_secret(response: HttpResponse, secret: str, *, path: str, salt: str) -> HttpResponse:
    """`path` is the page that shows it, `salt` what it belongs to."""
    response.set_signed_cookie(
        COOKIE,
        secret,
        salt=salt,
        max_age=SECONDS,
        path=path,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )
    return response


def read_secret(request: HttpRequest, *, salt: str) -> str:
    """Empty when there is none, it is older than a minute, or it belongs to something else."""
    return str(request.get_signed_cookie(COOKIE, default="", salt=salt, max_age=SECONDS))


def end_secret(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """For the answer that shows it."""
    response.delete_cookie(COOKIE, path=request.path, samesite="Strict")
    add_never_cache_headers(response)
    return response

"""The cache that all web processes share: wrong passwords, used codes, limits. Its content may be lost.

Values are JSON: Django's own pickles would let whoever writes to Valkey run code in the web processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import structlog
from django.core.cache import caches
from django.core.cache.backends.redis import RedisCache

from workspaces.storage.broker_errors import AWAY, is_away

logger = structlog.get_logger(__name__)


def _or_own(name: str) -> Callable[..., Any]:
    def method(self: RedisCache, *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(RedisCache, name)(self, *args, **kwargs)
        except AWAY as error:
            if not is_away(error):  # of `incr`: the key is not there
                raise
            logger.warning("cache_of_this_process_only", error=str(error))
            return getattr(caches["process"], name)(*args, **kwargs)

    method.__name__ = name
    return method


class JSONSerializer:
    """Of a cached value. A number stays one, so that the server can count it up."""

    def dumps(self, value: Any) -> int | bytes:
        return value if type(value) is int else json.dumps(value).encode()

    def loads(self, stored: bytes) -> Any:
        return json.loads(stored)


class SharedCache(RedisCache):
    """While its server is away every process counts for itself: a log-in goes on, with limits."""

    add = _or_own("add")
    get = _or_own("get")
    set = _or_own("set")
    touch = _or_own("touch")
    delete = _or_own("delete")
    has_key = _or_own("has_key")
    incr = _or_own("incr")

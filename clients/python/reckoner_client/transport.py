"""HTTP to one Reckoner: pooled connections, one try a call, and what an answer means for trying again."""

from __future__ import annotations

import datetime as dt
import email.utils
import os
from dataclasses import dataclass
from typing import Any

import msgspec
import urllib3

from reckoner_client.errors import ConfigurationError, FieldFault, Refused, Unavailable

__all__ = ["API_PATH", "Reply", "Transport", "refused"]

API_PATH = "/api/v1"
LONGEST_RETRY_AFTER = 300.0
# The server, or something in front of it, cannot take it now; the same will do later.
LATER = frozenset({408, 425, 429, 502, 503, 504, 507})
_CONNECTIONS = 32
# Pools of a parent process. Their sockets are the parent's to use, and their locks may be held for ever by a thread
# that does not exist here: they are neither used nor closed nor collected.
_inherited: list[urllib3.PoolManager] = []


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `retry_after`: seconds that the server asked to wait, at most 300."""

    status: int
    body: bytes
    retry_after: float | None = None

    @property
    def later(self) -> bool:
        """Whether the same call should be made again after a pause."""
        return self.status in LATER


class _Fault(msgspec.Struct):
    field: str = ""
    reason: str = ""
    expected: str = ""


class _Error(msgspec.Struct):
    code: str = "unknown"
    message: str = ""
    fields: list[_Fault] = []
    request_id: str | None = None


class _Envelope(msgspec.Struct):
    error: _Error


def refused(reply: Reply) -> Refused:
    """The API's error envelope as an exception; of an answer without one, its beginning."""
    try:
        error = msgspec.json.decode(reply.body, type=_Envelope).error
    except msgspec.DecodeError:
        beginning = reply.body[:200].decode("utf-8", "replace")
        return Refused(reply.status, "unknown", f"an answer that is not Reckoner's: {beginning}")
    fields = tuple(FieldFault(fault.field, fault.reason, fault.expected) for fault in error.fields)
    return Refused(reply.status, error.code, error.message, fields, error.request_id)


class Transport:
    """Calls paths under `url` with `key`. Safe for threads, and after a fork once `forget` was called."""

    def __init__(self, url: str, key: str, *, version: str) -> None:
        """Raises ConfigurationError for an address that is none."""
        try:
            parsed = urllib3.util.parse_url(url)
        except urllib3.exceptions.LocationParseError as error:
            raise ConfigurationError(f"{url!r} is not an address.") from error
        if parsed.scheme not in {"http", "https"} or not parsed.host:
            raise ConfigurationError(f"{url!r} is not an address: http://… or https://…")
        path = (parsed.path or "").rstrip("/")
        self.url = f"{parsed.scheme}://{parsed.netloc}{path or API_PATH}"
        self._headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "User-Agent": f"reckoner-client/{version}",
        }
        self._pool = self._make_pool()

    @staticmethod
    def _make_pool() -> urllib3.PoolManager:
        return urllib3.PoolManager(num_pools=2, maxsize=_CONNECTIONS, retries=False)

    def call(self, method: str, path: str, body: bytes | None = None, *, timeout: float) -> Reply:
        """One try; waits at most `timeout` seconds to connect and between bytes. Raises Unavailable."""
        limit = urllib3.Timeout(connect=min(timeout, 5.0), read=timeout)
        try:
            answer = self._pool.request(
                method, self.url + path, body=body, headers=self._headers, timeout=limit, redirect=False
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unavailable(f"{self.url} does not answer: {type(error).__name__}") from error
        return Reply(answer.status, answer.data, _seconds(answer.headers.get("Retry-After")))

    def forget(self) -> None:
        """In a forked child: leaves the parent's connections to the parent."""
        _inherited.append(self._pool)
        self._pool = self._make_pool()

    def close(self) -> None:
        self._pool.clear()


def from_environment(given: str | None, name: str, what: str) -> str:
    """`given`, or the variable `name`. Raises ConfigurationError where neither is there."""
    value = given or os.environ.get(name, "")
    if not value:
        raise ConfigurationError(f"No {what}: give it, or set {name}.")
    return value


def _seconds(header: str | None) -> float | None:
    """`Retry-After` as seconds from now: a number, or a date."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            moment = email.utils.parsedate_to_datetime(header)
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=dt.UTC)
        seconds = (moment - dt.datetime.now(dt.UTC)).total_seconds()
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER) if seconds == seconds else None


def decode(body: bytes, kind: Any) -> Any:
    """JSON as `kind`. Raises Unavailable: an answer that cannot be read is none."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable(f"The answer is not what the API answers: {error}") from error

"""HTTP to one Reckoner: pooled connections, one try a call, and what an answer means for trying again."""

from __future__ import annotations

import base64
import datetime as dt
import email.utils
import encodings.idna  # noqa: F401 - a socket's first address imports it: a fork at that moment would leave its lock held
import os
import urllib.parse
import urllib.request
from collections.abc import Callable
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

    def __init__(self, url: str, key: str | Callable[[], str], *, version: str, proxy: str | None = None) -> None:
        """`proxy`: see `Reckoner`. Raises ConfigurationError for an address or a proxy that is none."""
        try:
            parsed = urllib3.util.parse_url(url)
        except urllib3.exceptions.LocationParseError as error:
            raise ConfigurationError(f"{url!r} is not an address.") from error
        if parsed.scheme not in {"http", "https"} or not parsed.host:
            raise ConfigurationError(f"{url!r} is not an address: http://… or https://…")
        path = (parsed.path or "").rstrip("/")
        self.url = f"{parsed.scheme}://{parsed.netloc}{path or API_PATH}"
        self._key = key if callable(key) else _usable_key(key)
        self._headers = {"Content-Type": "application/json", "User-Agent": f"reckoner-client/{version}"}
        self._proxy = _proxy_for(parsed) if proxy is None else _proxy_at(proxy, "proxy") if proxy else None
        self._pool = self._make_pool()

    def _make_pool(self) -> urllib3.PoolManager:
        if self._proxy is None:
            return urllib3.PoolManager(num_pools=2, maxsize=_CONNECTIONS, retries=False)
        headers = None
        if self._proxy.auth:
            login = base64.b64encode(urllib.parse.unquote(self._proxy.auth).encode()).decode()
            headers = {"Proxy-Authorization": f"Basic {login}"}
        return urllib3.ProxyManager(
            self._proxy._replace(auth=None).url,
            num_pools=2,
            maxsize=_CONNECTIONS,
            retries=False,
            proxy_headers=headers,
        )

    def call(self, method: str, path: str, body: bytes | None = None, *, timeout: float) -> Reply:
        """One try; waits at most `timeout` seconds to connect and between bytes. Raises Unavailable."""
        limit = urllib3.Timeout(connect=min(timeout, 5.0), read=timeout)
        headers = self._headers | {"Authorization": f"Bearer {self._current_key()}"}
        try:
            answer = self._pool.request(
                method, self.url + path, body=body, headers=headers, timeout=limit, redirect=False
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            through = f" through the proxy {self._proxy.host}" if self._proxy is not None else ""
            raise Unavailable(f"{self.url} does not answer{through}: {type(error).__name__}") from error
        return Reply(answer.status, answer.data, _seconds(answer.headers.get("Retry-After")))

    def _current_key(self) -> str:
        """Raises Unavailable when the host's function does not give one: the next try asks it again."""
        if isinstance(self._key, str):
            return self._key
        try:
            return _usable_key(self._key())
        except Exception as error:
            raise Unavailable(f"the function that gives the key failed: {type(error).__name__}: {error}") from error

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


def _usable_key(key: str) -> str:
    """Files and secrets often end in a line break. Raises ConfigurationError for what no header can hold."""
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigurationError("The key is empty, or has characters that no key has.")
    return key


def _proxy_for(target: urllib3.util.Url) -> urllib3.util.Url | None:
    """What HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, or the system's settings, say of this address."""
    proxies = urllib.request.getproxies()
    found = proxies.get(str(target.scheme)) or proxies.get("all")
    place = f"{target.host}:{target.port}" if target.port else str(target.host)
    if not found or urllib.request.proxy_bypass(place):
        return None
    return _proxy_at(found, f"{target.scheme}_proxy of the environment")


def _proxy_at(address: str, where: str) -> urllib3.util.Url:
    try:
        proxy = urllib3.util.parse_url(address if "://" in address else f"http://{address}")
    except urllib3.exceptions.LocationParseError:
        proxy = urllib3.util.Url()
    if proxy.scheme not in {"http", "https"} or not proxy.host:
        # Without the address: it may hold a password.
        raise ConfigurationError(f"The {where} is not http://… or https://…; proxy='' goes around it.")
    return proxy


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

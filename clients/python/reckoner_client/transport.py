"""HTTP to one Reckoner: pooled connections, and one try a call."""

from __future__ import annotations

import encodings.idna  # noqa: F401 - a socket's first address imports it: a fork at that moment would leave its lock held
import os
import urllib.request
from collections.abc import Callable
from email.utils import formatdate

import urllib3

from reckoner_client.errors import ConfigurationError, Unavailable
from reckoner_client.replies import Reply

LONGEST_RETRY_AFTER = 300.0
# Pools of a parent process. Their sockets are the parent's to use, and their locks may be held for ever by a thread
# that does not exist here: they are neither used nor closed nor collected.
_inherited: list[urllib3.PoolManager] = []


class Transport:
    """Calls paths under `url` with `key`. Safe for threads, and after a fork once `forget` was called.

    Raises ConfigurationError for an address, a key or a proxy that is none.
    """

    def __init__(self, url: str | None, key: str | Callable[[], str] | None, *, version: str) -> None:
        address = _address(url or _from_environment("RECKONER_URL", "address"), "The address")
        self.url = f"{address.scheme}://{address.netloc}{(address.path or '').rstrip('/') or '/api/v1'}"
        self._key = key if callable(key) else _usable_key(key or _from_environment("RECKONER_KEY", "key"))
        self._headers = {"Content-Type": "application/json", "User-Agent": f"reckoner-client/{version}"}
        proxy = urllib.request.getproxies().get(str(address.scheme))
        bypass = proxy is None or urllib.request.proxy_bypass(address.netloc or "")
        self._proxy = None if proxy is None or bypass else _address(proxy, "The proxy in the environment")
        self._pool = self._make_pool()

    def _make_pool(self) -> urllib3.PoolManager:
        if self._proxy is None:
            return urllib3.PoolManager(num_pools=2, maxsize=32, retries=False)
        login = urllib3.util.make_headers(proxy_basic_auth=self._proxy.auth)
        proxy = self._proxy._replace(auth=None).url
        return urllib3.ProxyManager(proxy, num_pools=2, maxsize=32, retries=False, proxy_headers=login)

    def call(self, path: str, body: bytes | None, *, timeout: float) -> Reply:
        """One POST, or without a body one GET; waits at most `timeout` seconds to connect and between bytes. Raises
        Unavailable."""
        limit = urllib3.Timeout(connect=min(timeout, 5.0), read=timeout)
        # By the Date the server sees whether this machine's clock is right.
        headers = self._headers | {"Authorization": f"Bearer {self._current_key()}", "Date": formatdate(usegmt=True)}
        try:
            method = "GET" if body is None else "POST"
            answer = self._pool.request(
                method, self.url + path, body=body, headers=headers, timeout=limit, redirect=False
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unavailable(f"{self.url} does not answer: {type(error).__name__}") from error
        return Reply(answer.status, answer.data, _seconds(answer.headers.get("Retry-After")))

    def _current_key(self) -> str:
        """Raises Unavailable when the host's function does not give one: the next try asks it again."""
        try:
            return self._key if isinstance(self._key, str) else _usable_key(self._key())
        except Exception as error:
            raise Unavailable(f"the function that gives the key failed: {type(error).__name__}: {error}") from error

    def forget(self) -> None:
        """In a forked child: leaves the parent's connections to the parent."""
        _inherited.append(self._pool)
        self._pool = self._make_pool()


def _from_environment(name: str, what: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise ConfigurationError(f"No {what}: give it, or set {name}.")
    return value


def _usable_key(key: str) -> str:
    """Files and secrets often end in a line break. Raises ConfigurationError for what no header can hold."""
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigurationError("The key is empty, or has characters that no key has.")
    return key


def _address(text: str, what: str) -> urllib3.util.Url:
    try:
        found = urllib3.util.parse_url(text)
    except urllib3.exceptions.LocationParseError:
        found = urllib3.util.Url()
    if found.scheme not in {"http", "https"} or not found.host:  # not quoted: it may hold a password
        raise ConfigurationError(f"{what} is not http://… or https://….")
    return found


def _seconds(header: str | None) -> float:
    """`Retry-After`, a number or a date, as seconds from now."""
    try:
        return min(urllib3.Retry().parse_retry_after(header), LONGEST_RETRY_AFTER) if header else 0.0
    except urllib3.exceptions.InvalidHeader:
        return 0.0

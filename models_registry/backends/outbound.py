"""The way to servers that an admin has named: only those that the operator allows, at addresses that were checked
(`models_registry.backends.pinned`). Redirects are not followed, and no proxy of the environment is used.
"""

from __future__ import annotations

import errno
import socket
import ssl
import threading
import time
from functools import cache
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
from django.conf import settings

from models_registry.backends.endpoint import Endpoint
from models_registry.backends.origins import PORTS, origin_of
from models_registry.backends.pinned import AddressRefused, PinnedTransport, choose_address
from models_registry.errors import BackendUnavailable
from workspaces.errors import FieldFault

MOST_BYTES = 32 * 1024 * 1024
"""Of one answer, streamed or whole. A stream costs some 200 bytes a token."""
MOST_LINE = 4 * 1024 * 1024
"""Bytes of one line of a stream."""
SENT = (httpx.ReadTimeout, httpx.ReadError, httpx.RemoteProtocolError, httpx.DecodingError)
"""What `fetch` raises when the server has the request."""
HOW = "the operator allows it by RECKONER_BACKEND_URLS"


def find_url_fault(url: str) -> FieldFault | None:
    """Why a backend may not be at this URL; None where it may."""
    if not url.isprintable() or " " in url:  # urlsplit drops line breaks without a word
        return FieldFault("url", f"{url[:200]!r} contains spaces or control characters", "https://host/v1")
    try:
        parts = urlsplit(url)
        origin = origin_of(url)
    except ValueError:
        return FieldFault("url", f"{url[:200]!r} is not a URL", "https://host/v1")
    if parts.scheme not in PORTS or not parts.hostname:
        return FieldFault("url", f"{url[:200]!r} is not a URL", "https://host/v1")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        return FieldFault("url", "contains more than host and path", "https://host/v1; a key belongs in a variable")
    if origin not in {origin_of(one) for one in settings.BACKEND_URLS}:
        return FieldFault("url", f"the address {parts.scheme}://{parts.netloc} is not allowed here", HOW)
    return None


def _checked_socket(info: aiohttp.AddrInfoType) -> socket.socket:
    """The same in an event loop, of every address that is tried, whether a name was resolved to it or the URL holds it.
    Raises PermissionError, after which the next one is tried."""
    family, kind, protocol, _, place = info
    try:
        choose_address("The host", [str(place[0])])
    except AddressRefused as error:
        raise PermissionError(errno.EACCES, str(error)) from error
    return socket.socket(family, kind, protocol)


@cache
def _certificates() -> ssl.SSLContext:
    """Read once a process: it takes 30 ms, which every client would spend, that of a server without TLS too."""
    return httpx.create_ssl_context()


_clients: dict[tuple[str, bool], httpx.Client] = {}
_making = threading.Lock()


def http_client(url: str, *, own: bool) -> httpx.Client:
    """One pooled client a process and server; connections outlive requests. `own`: our model server, which the operator
    has set and nobody else can."""
    with _making:
        if (found := _clients.get((url, own))) is None:
            transport = (httpx.HTTPTransport if own else PinnedTransport)(verify=_certificates())
            found = httpx.Client(base_url=url, transport=transport, trust_env=False, follow_redirects=False)
            _clients[url, own] = found
    return found


def fetch(endpoint: Endpoint, method: str, path: str, body: Any, seconds: float) -> httpx.Response:
    """An answer of any status, read whole, of at most MOST_BYTES and within `seconds`. Raises httpx.HTTPError, and
    BackendUnavailable for an answer that is too long and for a URL that is none."""
    client = http_client(endpoint.url, own=endpoint.backend is None)
    ends, content = time.monotonic() + seconds, bytearray()
    try:
        with client.stream(
            method,
            endpoint.url + path,
            json=body,
            headers=headers_of(endpoint),
            timeout=timeout_of(endpoint, seconds),
        ) as response:
            for piece in response.iter_bytes():
                content += piece
                if len(content) > MOST_BYTES:
                    raise too_long(endpoint).after(seconds - (ends - time.monotonic()))
                if time.monotonic() > ends:  # the time-out is between two reads
                    raise httpx.ReadTimeout("The answer is not at its end.", request=response.request)
    except httpx.InvalidURL as error:
        raise BackendUnavailable(f"{endpoint.name} has no valid URL: {error}.") from error
    headers = [(name, value) for name, value in response.headers.multi_items() if name != "content-encoding"]
    return httpx.Response(response.status_code, headers=headers, content=bytes(content), request=response.request)


def too_long(endpoint: Endpoint) -> BackendUnavailable:
    return BackendUnavailable(f"{endpoint.name} answered with more than {MOST_BYTES // 1024**2} MiB.")


def close_clients() -> None:
    """Closes what is pooled in this process, before it forks or ends."""
    with _making:
        for client in _clients.values():
            client.close()
        _clients.clear()


def async_session(*, own: bool) -> aiohttp.ClientSession:
    """Pooled connections for whoever keeps it, to any number of servers: it belongs to one event loop. Any number of
    answers may grow at once. `own` as in `http_client`. A request's `trace_request_ctx` is called when it is sent."""
    checked = None if own else _checked_socket
    connector = aiohttp.TCPConnector(limit=0, use_dns_cache=False, socket_factory=checked)
    sending = aiohttp.TraceConfig()
    sending.on_request_headers_sent.append(_tell_sent)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trace_configs=[sending])


async def _tell_sent(session: aiohttp.ClientSession, context: SimpleNamespace, parameters: Any) -> None:
    if context.trace_request_ctx is not None:
        context.trace_request_ctx()


def headers_of(endpoint: Endpoint) -> dict[str, str]:
    """Raises BackendUnavailable where the key is not there."""
    key = endpoint.secret
    return {"Authorization": f"Bearer {key}"} if key else {}


def timeout_of(endpoint: Endpoint, seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=min(endpoint.connect_seconds, seconds))


def async_timeout(endpoint: Endpoint, seconds: float) -> aiohttp.ClientTimeout:
    """The same for `async_session`: between two reads, however long the whole answer takes."""
    return aiohttp.ClientTimeout(total=None, sock_connect=min(endpoint.connect_seconds, seconds), sock_read=seconds)

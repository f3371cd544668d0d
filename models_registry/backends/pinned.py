"""Connections to servers that people have named, at addresses that were checked. PURE.

A host's name is resolved here, its addresses are checked, and the connection goes to the address that was: a name that
changes between the check and the call leads nowhere else. Web and workers use it by
`models_registry.backends.outbound`, and the engine for the judge of a run.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

import httpx

NAT64 = ipaddress.ip_network("64:ff9b::/96")
CREDENTIALS = ipaddress.ip_address("fd00:ec2::254")
"""Where Amazon's machines get their credentials by IPv6; elsewhere the address is link-local."""


class AddressRefused(httpx.ConnectError):
    """A host has no address that may be asked."""


def choose_address(host: str, found: Sequence[str]) -> str:
    """The first address that may be connected to. Raises AddressRefused.

    Link-local ones never: that is where clouds hand out their machines' credentials. Private ones are where a team's
    own servers are, and the operator has allowed the host.
    """
    for text in found:
        address = ipaddress.ip_address(text.partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address):
            address = address.ipv4_mapped or address
        end = _find_end(address)
        if not (end.is_link_local or end.is_multicast or end.is_unspecified or end == CREDENTIALS):
            return str(address)
    raise AddressRefused(f"{host} has no address that may be asked: {', '.join(found)[:200] or 'none'}.")


def _find_end(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address to which a gateway on the way would lead, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour or address


class PinnedTransport(httpx.HTTPTransport):
    """Resolves, checks, and connects to what was checked."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        try:
            found = socket.getaddrinfo(host, request.url.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpx.ConnectError(f"{host} is not known: {error}", request=request) from error
        address = choose_address(host, [str(one[4][0]) for one in found])
        if address != host:
            # Certificates are still checked against the name, which also stays in the header Host.
            request.extensions = {**request.extensions, "sni_hostname": host}
            request.url = request.url.copy_with(host=address)
        return super().handle_request(request)

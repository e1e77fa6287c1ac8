"""Where webhooks may go: addresses of the public internet, decided on what a name resolves to and nothing else."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence

import httpx

from app.errors import InvalidInput

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

MAX_URL = 2_000
LOCAL_NAMES = ("localhost", ".localhost", ".local", ".internal", ".lan", ".home.arpa")

HELD_BACK = frozenset({ipaddress.ip_address("168.63.129.16")})
"""Public by its number, and a cloud's (Azure's) own service to the machines in it."""

TRANSLATING = tuple(
    ipaddress.ip_network(n) for n in ("2002::/16", "2001::/32", "64:ff9b::/96", "64:ff9b:1::/48", "::/96")
)
"""IPv6 that stands for an IPv4 address, which a gateway would go to: 6to4, Teredo, NAT64, and the old form."""


class AddressRefused(Exception):
    """The name leads nowhere, or to where webhooks are not sent; the text may be shown to the subscriber."""


def check_url(url: str, *, allow_private: bool) -> None:
    """Raise InvalidInput unless `url` is one that a webhook may have; a name is resolved only when it is used."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError, UnicodeError):
        raise InvalidInput.of("url", "must be an http:// or https:// address") from None
    if len(url) > MAX_URL or not url.isprintable() or " " in url:
        raise InvalidInput.of("url", f"must have at most {MAX_URL} printable characters and no blanks")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidInput.of("url", "must be an http:// or https:// address")
    if not 1 <= (parsed.port or 80) <= 65535:
        raise InvalidInput.of("url", "must have a port from 1 to 65535")
    if parsed.userinfo or parsed.fragment:
        raise InvalidInput.of("url", "must have no user name, password or fragment")
    host = parsed.host.rstrip(".").lower()
    try:
        refused = not is_allowed(host, allow_private=allow_private)
    except ValueError:
        refused = not allow_private and any(
            host == name.lstrip(".") or (name.startswith(".") and host.endswith(name)) for name in LOCAL_NAMES
        )
    if refused:
        raise InvalidInput.of("url", "must lead to a public address")


def is_allowed(address: str, *, allow_private: bool) -> bool:
    """Whether webhooks may go to this IP address.

    Private networks and this machine only where that is allowed; link-local addresses, where clouds keep their
    credentials, multicast and the like never. Raises ValueError for what is no address.
    """
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_allowed(str(ip.ipv4_mapped), allow_private=allow_private)
        if ip.scope_id is not None:
            return False
        if ip != ipaddress.IPv6Address("::1") and any(ip in network for network in TRANSLATING):
            return False
    if ip in HELD_BACK or ip.is_link_local or ip.is_multicast or ip.is_unspecified:
        return False
    if ip.is_reserved and not ip.is_loopback:
        return False
    if ip.is_global:
        return True
    return allow_private and (ip.is_private or ip.is_loopback)


async def choose_address(host: str, port: int, resolve: Resolve, *, allow_private: bool) -> str:
    """The IP address to connect to. A host with a single address that is not allowed is refused as a whole.

    Raises AddressRefused.
    """
    try:
        addresses = [str(ipaddress.ip_address(host))]
    except ValueError:
        try:
            addresses = list(await resolve(host, port))
        except (OSError, UnicodeError):
            addresses = []
    if not addresses:
        raise AddressRefused("its name does not resolve")
    try:
        allowed = all(is_allowed(address, allow_private=allow_private) for address in addresses)
    except ValueError:
        allowed = False
    if not allowed:
        raise AddressRefused("its address is not public")
    return addresses[0]


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as the system's resolver gives them. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))

"""Where webhooks may go: addresses of the public internet, decided on what a name resolves to and nothing else."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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


NOBODYS = tuple(ipaddress.ip_network(n) for n in ("192.0.0.0/24", "192.88.99.0/24", "fec0::/10", "3fff::/20"))
"""Of special use, though Python's tables call at least some of each public: protocol assignments (RFC 6890), relays of
6to4 (RFC 7526), the old site-local addresses (RFC 3879), and examples in documents (RFC 9637)."""

LOOKUPS = 16
"""Names that are looked up at the same time: as many as a worker sends messages."""


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
        raise InvalidInput.of("url", "must resolve to a public address")


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
    if any(ip in network for network in NOBODYS):
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


class Resolver:
    """The system's resolver, in threads of its own: a lookup cannot be called off, and one that hangs must keep neither
    its caller nor anybody else's lookups waiting."""

    def __init__(self, threads: int = LOOKUPS, look_up: Callable[..., Any] = socket.getaddrinfo) -> None:
        self._threads = ThreadPoolExecutor(threads, "webhook-dns")
        self._free = threading.BoundedSemaphore(threads)
        self._look_up = look_up

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name. Raises OSError, and AddressRefused at once while every thread is taken."""
        if not self._free.acquire(blocking=False):
            raise AddressRefused("too many names are being resolved")
        try:
            lookup = self._threads.submit(self._look_up, host, port, type=socket.SOCK_STREAM)
        except BaseException:
            self._free.release()
            raise
        lookup.add_done_callback(lambda _: self._free.release())
        found = await asyncio.wrap_future(lookup)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


resolve_host: Resolve = Resolver().resolve

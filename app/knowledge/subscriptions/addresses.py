"""Allowed targets of webhooks: public addresses, checked on the addresses that a name resolves to."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any
from uuid import UUID

import httpx

from app.concurrency.turns import Turns
from app.errors import InvalidInput

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

MAX_URL = 2_000
MAX_HOST = 253
"""Characters of a name in the DNS (RFC 1035)."""
LOCAL_NAMES = ("localhost", ".localhost", ".local", ".internal", ".lan", ".home.arpa")

CLOUD_SERVICES = frozenset({ipaddress.ip_address("168.63.129.16")})
"""A public address that Azure uses for an internal service of its virtual machines."""

TRANSLATING = tuple(
    ipaddress.ip_network(n) for n in ("2002::/16", "2001::/32", "64:ff9b::/96", "64:ff9b:1::/48", "::/96")
)
"""IPv6 networks whose addresses contain an IPv4 address that a gateway would forward to: 6to4, Teredo, NAT64, and the
deprecated IPv4-compatible addresses."""


SPECIAL_USE = tuple(
    ipaddress.ip_network(n) for n in ("192.0.0.0/24", "192.88.99.0/24", "fec0::/10", "3fff::/20")
)
"""Special-use networks that Python treats as public, at least in part: protocol assignments (RFC 6890), 6to4 relays
(RFC 7526), deprecated site-local addresses (RFC 3879), and documentation examples (RFC 9637)."""

METADATA = frozenset({ipaddress.ip_address("fd00:ec2::254"), ipaddress.ip_address("fd20:ce::254")})
"""Private addresses at which AWS and Google Cloud serve credentials: refused even if private networks are allowed."""

LOOKUPS, SHARE = 64, 4
"""Simultaneous name lookups, and those of one tenant. A lookup that hangs holds its place for up to half a minute
after its message has failed: the places are enough for all tenants that a worker serves in that time."""
LOOKUP_PATIENCE = 3.0
"""Seconds that a lookup waits for a place."""

sending_tenant: ContextVar[UUID | None] = ContextVar("sending_tenant", default=None)
"""The tenant that names are resolved for; a tenant whose names hang leaves the places of others free."""


class LookupsBusy(Exception):
    """No place for a lookup became free in time: a fault of neither the name nor its endpoint."""


class AddressRefused(Exception):
    """The name does not resolve, or resolves to a forbidden address. The message can be shown to the subscriber."""


def check_url(url: str, *, allow_private: bool) -> None:
    """Raise InvalidInput unless a webhook can have this URL. A host name is resolved later, for each delivery."""
    try:
        parsed = httpx.URL(url)
        host = parsed.host.rstrip(".").lower()  # decodes an international name, which can be malformed
    except (httpx.InvalidURL, ValueError, UnicodeError):
        raise InvalidInput.of("url", "must be an http:// or https:// address") from None
    if len(url) > MAX_URL or not url.isprintable() or " " in url:
        raise InvalidInput.of("url", f"must have at most {MAX_URL} printable characters and no blanks")
    if parsed.scheme not in ("http", "https") or not host:
        raise InvalidInput.of("url", "must be an http:// or https:// address")
    if len(parsed.raw_host) > MAX_HOST:
        raise InvalidInput.of("url", f"must have a host of at most {MAX_HOST} characters")
    if not 1 <= (parsed.port or 80) <= 65535:
        raise InvalidInput.of("url", "must have a port from 1 to 65535")
    if parsed.userinfo or parsed.fragment:
        raise InvalidInput.of("url", "must have no user name, password or fragment")
    try:
        refused = not is_allowed(host, allow_private=allow_private)
    except ValueError:
        refused = not allow_private and any(
            host == name.lstrip(".") or (name.startswith(".") and host.endswith(name)) for name in LOCAL_NAMES
        )
    if refused:
        raise InvalidInput.of("url", "must resolve to a public address")


def is_allowed(address: str, *, allow_private: bool) -> bool:
    """Whether webhooks can go to this IP address.

    Private networks and this machine only with `allow_private`. Never link-local addresses, where clouds serve
    credentials, nor multicast and similar addresses. Raises ValueError for a malformed address.
    """
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return is_allowed(str(ip.ipv4_mapped), allow_private=allow_private)
        if ip.scope_id is not None:
            return False
        if ip != ipaddress.IPv6Address("::1") and any(ip in network for network in TRANSLATING):
            return False
    if any(ip in network for network in SPECIAL_USE):
        return False
    if ip in CLOUD_SERVICES | METADATA or ip.is_link_local or ip.is_multicast or ip.is_unspecified:
        return False
    if ip.is_reserved and not ip.is_loopback:
        return False
    if ip.is_global:
        return True
    return allow_private and (ip.is_private or ip.is_loopback)


async def choose_address(host: str, port: int, resolve: Resolve, *, allow_private: bool) -> str:
    """Choose the IP address to connect to. A host with any forbidden address is refused.

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
    """Uses the system's resolver in its own threads, because a lookup cannot be cancelled.

    A lookup that hangs delays neither its caller nor the lookups of other parts of the service.
    """

    def __init__(
        self,
        threads: int = LOOKUPS,
        look_up: Callable[..., Any] = socket.getaddrinfo,
        *,
        share: int = SHARE,
        patience: float = LOOKUP_PATIENCE,
    ) -> None:
        """`share` is the most lookups of one tenant, `patience` in seconds."""
        self._threads = ThreadPoolExecutor(threads, "webhook-dns")
        self._turns = Turns(threads)
        self._share = share
        self._patience = patience
        self._look_up = look_up

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Resolve a name for `sending_tenant`. Raises OSError, and LookupsBusy when no place becomes free in time."""
        tenant, loop = sending_tenant.get(), asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._patience):
                await self._turns.acquire(tenant, most=self._share)
        except TimeoutError:
            raise LookupsBusy("the service is resolving too many names") from None
        try:
            lookup = self._threads.submit(self._look_up, host, port, type=socket.SOCK_STREAM)
        except BaseException:
            self._turns.release(tenant)
            raise
        lookup.add_done_callback(lambda _: self._release(loop, tenant))
        found = await asyncio.wrap_future(lookup)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    def _release(self, loop: asyncio.AbstractEventLoop, tenant: UUID | None) -> None:
        """Free a place, from the thread of its lookup."""
        try:
            loop.call_soon_threadsafe(self._turns.release, tenant)
        except RuntimeError:  # the loop has ended, so no caller waits
            self._turns.release(tenant)


resolve_host: Resolve = Resolver().resolve

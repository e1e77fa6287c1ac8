"""Send messages to subscribers, at a limited pace for each host. Their secrets are stored encrypted."""

import ipaddress
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from uuid import UUID

import httpx

from app.db.database import Database
from app.db.queries.deliveries import Delivery, Handshake, take_turns
from app.knowledge.subscriptions.webhooks import (
    MAX_HOST,
    EndpointAnswer,
    SecretSealer,
    SecretUnreadable,
    WebhookSender,
    sending_tenant,
)

PER_MINUTE = 600
"""Messages to one host in a minute."""
WINDOWS_PER_MINUTE = 10
"""`tenancy.take_turns` counts in windows of six seconds."""
CHALLENGES = 20
"""One challenge for this many messages: its host has not agreed to anything yet."""
HOSTS_OF_AN_ADDRESS = 10
"""An address gets as many messages as this many hosts: many names can lead to one machine, and one machine can serve
the endpoints of many tenants. Of challenges it gets as many as one host."""
IPV6_NETWORK = 64
"""Bits of a network that counts as one address."""
TENANTS_CHALLENGES = 3
"""Most challenges of one tenant in a window, to all hosts together."""


class SendPace:
    """Gives messages their turns at a host. Tenants that wait for turns at the same host have equal shares."""

    def __init__(self, database: Database, per_minute: int = PER_MINUTE) -> None:
        """`per_minute` is the most messages to one host; at least ten."""
        self._database = database
        self._quota = per_minute // WINDOWS_PER_MINUTE

    async def admit(self, tenant_id: UUID, urls: Sequence[str]) -> list[float]:
        """For each message to one of these URLs, the seconds to wait; 0 if it may be sent now.

        Raises DatabaseUnavailable.
        """
        return await self._take(tenant_id, [find_host(url) for url in urls], self._quota)

    async def admit_challenges(self, tenant_id: UUID, urls: Sequence[str]) -> list[float]:
        """As `admit`, for challenges: fewer for each host, and for each tenant. Raises DatabaseUnavailable."""
        waits = await self._take(tenant_id, [f"challenges of {tenant_id}"] * len(urls), TENANTS_CHALLENGES)
        admitted = [place for place, wait in enumerate(waits) if not wait]
        hosts = [f"challenges to {find_host(urls[place])}" for place in admitted]
        quota = max(1, self._quota // CHALLENGES)
        for place, wait in zip(admitted, await self._take(tenant_id, hosts, quota), strict=True):
            waits[place] = wait
        return waits

    async def admit_at(self, tenant_id: UUID, address: str) -> float:
        """Seconds to wait before a message to this IP address, which several hosts can have.

        Raises DatabaseUnavailable.
        """
        quota = HOSTS_OF_AN_ADDRESS * self._quota
        return (await self._take(tenant_id, [f"address {find_network(address)}"], quota))[0]

    async def admit_challenge_at(self, tenant_id: UUID, address: str) -> float:
        """As `admit_at`, for a challenge. Raises DatabaseUnavailable."""
        quota = max(1, self._quota // CHALLENGES)
        return (await self._take(tenant_id, [f"challenges at {find_network(address)}"], quota))[0]

    async def _take(self, tenant_id: UUID, destinations: Sequence[str], quota: int) -> list[float]:
        if not destinations:
            return []
        wanted = Counter(destinations)
        names = sorted(wanted)
        async with self._database.shared_session(tenant_id) as session:
            turns = await take_turns(session, names, [wanted[name] for name in names], quota)
        left = {turn.destination: turn.granted for turn in turns}
        waits = {turn.destination: turn.wait_seconds for turn in turns}
        found: list[float] = []
        for destination in destinations:
            left[destination] -= 1
            found.append(0.0 if left[destination] >= 0 else waits[destination])
        return found


def find_network(address: str) -> str:
    """An IP address as it is counted: of IPv6, its network."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(ipaddress.ip_network((int(ip), IPV6_NETWORK), strict=False))
    return str(ip)


def find_host(url: str) -> str:
    """The host of a URL, in the form in which hosts are compared; a longer one than a name can be is cut."""
    return httpx.URL(url).host.rstrip(".").lower()[:MAX_HOST]


async def send_message(
    sender: WebhookSender,
    sealer: SecretSealer,
    tenant_id: UUID,
    endpoint: Handshake | Delivery,
    message_id: UUID,
    body: bytes,
    *,
    admit: Callable[[UUID, str], Awaitable[float]],
    echo: str | None = None,
) -> EndpointAnswer:
    """Post one message once for a tenant, as `WebhookSender.send`; a secret that no key decrypts is an error of it.

    Call it in a task of its own: the tenant is part of the task's context. `admit` takes the tenant's turn at an IP
    address. Raises what it raises.
    """
    try:
        secret = sealer.open(endpoint.secret)
    except SecretUnreadable as error:
        return EndpointAnswer(str(error))
    sending_tenant.set(tenant_id)
    name = f"msg_{message_id.hex}"
    return await sender.send(endpoint.url, secret, name, body, echo=echo, admit=partial(admit, tenant_id))

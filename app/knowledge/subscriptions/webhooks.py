"""Send webhooks, signed according to the Standard Webhooks specification 1.0, to web ports of public addresses only.

The pace is limited for each host, and secrets are stored encrypted.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import secrets
import socket
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass
from typing import Any
from uuid import UUID

import httpx
import orjson
from cryptography.fernet import Fernet, InvalidToken

from app.concurrency.turns import Turns
from app.contract.saved_searches import MAX_URL
from app.db.database import Database
from app.db.queries.deliveries import take_turns
from app.errors import InvalidInput

SEAL_PREFIX = "fernet"


class SecretUnreadable(Exception):
    """No configured key decrypts a stored secret."""


class SecretSealer:
    """Encrypts with the first key and decrypts with any; without keys, secrets are stored as they are.

    A sealed secret names its key: `fernet:KEY:TOKEN`.
    """

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        """Each key is 32 bytes in URL-safe base64."""
        self._keys = {hashlib.sha256(key).hexdigest()[:8]: Fernet(key) for key in keys}

    @property
    def mark(self) -> str:
        """The start of secrets that are sealed with the first key; empty without keys."""
        return f"{SEAL_PREFIX}:{next(iter(self._keys))}:" if self._keys else ""

    def seal(self, secret: str) -> str:
        """Encrypt a secret for the database."""
        if not self._keys:
            return secret
        return self.mark + next(iter(self._keys.values())).encrypt(secret.encode()).decode()

    def open(self, stored: str) -> str:
        """Decrypt a stored secret; one that was stored before there was a key is returned. Raises SecretUnreadable."""
        if not stored.startswith(f"{SEAL_PREFIX}:"):
            return stored
        key, _, token = stored.removeprefix(f"{SEAL_PREFIX}:").partition(":")
        try:
            return self._keys[key].decrypt(token).decode()
        except (KeyError, InvalidToken):
            raise SecretUnreadable("no configured key decrypts the secret") from None


Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

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


SPECIAL_USE = tuple(ipaddress.ip_network(n) for n in ("192.0.0.0/24", "192.88.99.0/24", "fec0::/10", "3fff::/20"))
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
    """The name does not resolve, or the address or port is forbidden. The message can be shown to the subscriber."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Where webhooks can go: to these ports of public addresses and, with `allow_private`, of private ones.

    On other ports, services listen that were not meant to get HTTP requests from here.
    """

    allow_private: bool = False
    ports: tuple[range, ...] = (range(80, 81), range(443, 444), range(8080, 8444))

    def __str__(self) -> str:
        """The ports, as in `80, 443, 8080 to 8443`."""
        return ", ".join(f"{p.start}" if len(p) == 1 else f"{p.start} to {p.stop - 1}" for p in self.ports)

    def have_port_of(self, url: httpx.URL) -> bool:
        """Whether webhooks can go to the port of this URL."""
        return any(find_port(url) in allowed for allowed in self.ports)


def find_port(url: httpx.URL) -> int:
    """The port of a URL, by default that of its scheme."""
    return url.port or (443 if url.scheme == "https" else 80)


def check_url(url: str, targets: Targets) -> None:
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
        refused = not is_allowed(host, allow_private=targets.allow_private)
    except ValueError:
        refused = not targets.allow_private and any(
            host == name.lstrip(".") or (name.startswith(".") and host.endswith(name)) for name in LOCAL_NAMES
        )
    if refused:
        raise InvalidInput.of("url", "must resolve to a public address")
    if not targets.have_port_of(parsed):
        raise InvalidInput.of("url", f"must have one of the ports {targets}")


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
    """Choose the IP address to connect to. A host with any forbidden address is refused. Raises AddressRefused."""
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


Admit = Callable[[str], Awaitable[float]]
"""Takes a turn at an IP address; returns the seconds to wait, 0 if the message may be sent now."""

SIGNING_PREFIX = "whsec_"
SECRET_BYTES = (24, 64)
SECONDS = 10.0
"""Time limit from the name lookup to the headers of the response, or to the end of the answer to a challenge. Other
bodies are not read."""
MAX_ECHO = 4096
"""Bytes of the answer to a challenge."""
MAX_RETRY_AFTER = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class EndpointAnswer:
    """The outcome of a message at its endpoint; `error` is None if the endpoint accepted it.

    Attributes:
        gone: the endpoint wants no more messages (410).
        own_fault: the endpoint failed, not the message, so other messages would fail too.
        overloaded: nothing was sent, because this service is busy or the address has had enough; it does not count.
        retry_after: seconds from the `Retry-After` header, or until the address gets more.
    """

    error: str | None = None
    gone: bool = False
    own_fault: bool = False
    overloaded: bool = False
    retry_after: float | None = None


def make_secret() -> str:
    """Generate a new secret."""
    return SIGNING_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def read_secret(secret: str) -> bytes:
    """Decode the key of a secret. Raises InvalidInput."""
    try:
        key = base64.b64decode(secret.removeprefix(SIGNING_PREFIX).encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    low, high = SECRET_BYTES
    if not secret.startswith(SIGNING_PREFIX) or not low <= len(key) <= high:
        raise InvalidInput.of("secret", f"must be {SIGNING_PREFIX} and {low} to {high} bytes in base64")
    return key


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Compute the value of `webhook-signature`; `timestamp` is in seconds since 1970."""
    content = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(read_secret(secret), content, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


@dataclass(eq=False)
class WebhookSender:
    """Posts messages. The name is resolved once and the connection goes to the checked address.

    No second lookup, redirect or proxy from the environment can lead to another address.
    """

    targets: Targets = Targets()  # immutable
    _: KW_ONLY
    seconds: float = SECONDS
    resolve: Resolve = resolve_host
    tls: ssl.SSLContext | None = None

    async def send(
        self,
        url: str,
        secret: str,
        message_id: str,
        body: bytes,
        *,
        echo: str | None = None,
        admit: Admit | None = None,
    ) -> EndpointAnswer:
        """Post one message once; with `echo`, the endpoint has to answer with this text.

        Nothing is sent if `admit` returns seconds to wait for the address, and what `admit` raises is raised. No
        behaviour of the endpoint makes this raise.
        """
        try:
            async with asyncio.timeout(self.seconds):
                target = httpx.URL(url)
                address = await self._choose_address(target)
                if admit is not None and (wait := await admit(address)):
                    return EndpointAnswer("its address gets no more messages now", overloaded=True, retry_after=wait)
                return await self._send(target, address, secret, message_id, body, echo)
        except TimeoutError:
            return EndpointAnswer(f"no answer within {self.seconds:g} seconds", own_fault=True)
        except LookupsBusy as error:
            return EndpointAnswer(str(error), overloaded=True)
        except AddressRefused as error:
            return EndpointAnswer(str(error), own_fault=True)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            reason = "its certificate is not valid" if _is_certificate(error) else "the connection failed"
            return EndpointAnswer(reason, own_fault=True)

    async def _choose_address(self, url: httpx.URL) -> str:
        if not self.targets.have_port_of(url):  # a subscription can be older than the setting
            raise AddressRefused("its port is not allowed")
        host = url.raw_host.decode("ascii")
        return await choose_address(host, find_port(url), self.resolve, allow_private=self.targets.allow_private)

    async def _send(
        self, url: httpx.URL, address: str, secret: str, message_id: str, body: bytes, echo: str | None
    ) -> EndpointAnswer:
        timestamp = int(time.time())
        if self.tls is None:
            self.tls = httpx.create_ssl_context(trust_env=False)
        async with httpx.AsyncClient(
            verify=self.tls, trust_env=False, follow_redirects=False, timeout=self.seconds
        ) as client:
            request = client.build_request(
                "POST",
                url.copy_with(host=address),
                content=body,
                headers={
                    "host": url.netloc.decode("ascii"),
                    "content-type": "application/json",
                    "user-agent": "knowledge-search-webhooks",
                    "accept-encoding": "identity",
                    "webhook-id": message_id,
                    "webhook-timestamp": str(timestamp),
                    "webhook-signature": sign(secret, message_id, timestamp, body),
                },
                extensions={"sni_hostname": url.raw_host.decode("ascii")},
            )
            answer = await client.send(request, stream=True)
            try:
                said = b"" if echo is None or not answer.is_success else await _read_start(answer)
            finally:
                await answer.aclose()
        if echo is not None and answer.is_success and not is_echo(said, echo):
            return EndpointAnswer("the endpoint did not answer with the challenge")
        return _judge(answer)


def is_echo(said: bytes, challenge: str) -> bool:
    """Whether an endpoint answered with the challenge: as text, or as `{"challenge": "…"}`."""
    text = said.strip()
    if text.startswith(b"{"):
        try:
            answer = orjson.loads(text)
        except orjson.JSONDecodeError:
            return False
        text = str(answer.get("challenge")).encode()
    return hmac.compare_digest(text, challenge.encode())


async def _read_start(answer: httpx.Response) -> bytes:
    """The body, as sent, up to MAX_ECHO bytes."""
    said = b""
    async for part in answer.aiter_raw():
        said += part[: MAX_ECHO - len(said)]
        if len(said) >= MAX_ECHO:
            break
    return said


def _judge(answer: httpx.Response) -> EndpointAnswer:
    if answer.is_success:
        return EndpointAnswer()
    status = answer.status_code
    retry_after = None
    if (asked := answer.headers.get("retry-after", "")).isascii() and asked.isdigit():
        retry_after = min(float(asked[:9]), MAX_RETRY_AFTER)
    reason = f"the endpoint answered {status}"
    if answer.is_redirect:
        reason += "; redirects are not followed"
    return EndpointAnswer(
        reason,
        gone=status == 410,
        own_fault=not 400 <= status < 500 or status in (401, 403, 404, 408, 410, 429),
        retry_after=retry_after,
    )


def _is_certificate(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


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

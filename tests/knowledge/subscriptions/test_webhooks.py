"""Webhooks: addresses, seals and requests."""

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import cast
from uuid import UUID

import pytest
from cryptography import x509
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.contract.saved_searches import NewSavedSearch
from app.errors import InvalidInput
from app.knowledge.subscriptions.service import SubscriptionService
from app.knowledge.subscriptions.webhooks import (
    MAX_RETRY_AFTER,
    AddressRefused,
    LookupsBusy,
    Resolver,
    SecretSealer,
    SecretUnreadable,
    Targets,
    WebhookSender,
    check_url,
    choose_address,
    is_allowed,
    make_secret,
    read_secret,
    resolve_host,
    sending_tenant,
    sign,
)
from app.settings.groups import WebhookSettings, parse_ports
from tests.fixtures.workers import run_due
from tests.knowledge.subscriptions.endpoint import ANYWHERE, Endpoint, open_endpoint, resolving
from tests.knowledge.subscriptions.subscribing import OWNER, Desk

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class NameServer(asyncio.DatagramProtocol):
    """A name server on this machine; each query takes the next of `answers`, addresses of IPv4 (RFC 1035)."""

    def __init__(self) -> None:
        self.answers: list[list[str]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        records = [b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + ip_address(a).packed for a in self.answers.pop(0)]
        head = data[:2] + b"\x81\x80\0\1" + len(records).to_bytes(2, "big") + bytes(4)
        self._transport.sendto(head + data[12:] + b"".join(records), addr)


def look_up(server: tuple[str, int], host: str) -> list[tuple[int, int, int, str, tuple[str, int]]]:
    """Ask the name server for a host's addresses, as `socket.getaddrinfo` does."""
    name = b"".join(len(label).to_bytes(1, "big") + label.encode() for label in host.split(".")) + b"\0"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(10)
        asking.sendto(b"kb\1\0\0\1\0\0\0\0\0\0" + name + b"\0\1\0\1", server)
        answer = asking.recv(512)
    records = answer[12 + len(name) + 4 :]
    found = [str(ip_address(records[end - 4 : end])) for end in range(16, len(records) + 1, 16)]
    return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, 0)) for address in found]


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with open_endpoint() as opened:
        yield opened


def test_signature_equals_the_example_of_the_specification() -> None:
    """The example is from the tests of the reference libraries."""
    body = b'{"test": 2432232314}'
    signature = sign(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_generated_secrets_are_valid_and_unique() -> None:
    made = {make_secret() for _ in range(10)}
    assert len(made) == 10
    assert all(len(read_secret(secret)) == 32 for secret in made)


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_!!!", SECRET[6:], "whsec_c2hvcnQ=", "whsec_" + "A" * 200, "whsec_ü"]
)
def test_a_secret_of_another_form_is_refused(secret: str) -> None:
    with pytest.raises(InvalidInput, match="secret"):
        read_secret(secret)


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "localhost", "0"])
async def test_no_spelling_of_a_local_address_is_allowed(endpoint: Endpoint, host: str) -> None:
    answer = await WebhookSender(Targets(ports=ANYWHERE.ports)).send(
        f"http://{host}:{endpoint.port}/", SECRET, "msg_1", b"{}"
    )
    assert answer.error in ("its address is not public", "its name does not resolve")
    assert endpoint.received == []


async def test_the_connection_uses_the_checked_address(endpoint: Endpoint) -> None:
    """A second lookup would return another address."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["192.0.2.1"]

    sender = WebhookSender(ANYWHERE, resolve=resolve)
    answer = await sender.send(f"http://hooks.example:{endpoint.port}/a?b=c", SECRET, "msg_1", b'{"a":1}')
    assert answer.error is None
    assert asked == ["hooks.example"]
    (request,) = endpoint.received
    assert (request.path, request.body) == ("/a?b=c", b'{"a":1}')
    assert request.headers["host"] == f"hooks.example:{endpoint.port}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == "msg_1"
    assert request.is_signed_with(SECRET)


async def test_a_name_that_is_rebound_reaches_no_private_address(endpoint: Endpoint) -> None:
    """A name server gives each answer once: a public address to be checked, then a private one."""
    names = NameServer()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: names, local_addr=("127.0.0.1", 0))
    server = transport.get_extra_info("sockname")
    resolver = Resolver(look_up=lambda host, port, type: look_up(server, host))
    connected: list[str] = []

    async def admit(address: str) -> float:
        connected.append(address)
        return 1.0

    url = f"http://rebound.example:{endpoint.port}/"
    sender = WebhookSender(Targets(ports=ANYWHERE.ports), resolve=resolver.resolve)
    answers: list[tuple[list[str], str | None]] = [
        (["8.8.8.8"], "its address gets no more messages now"),
        (["127.0.0.1"], "its address is not public"),
        (["8.8.8.8", "127.0.0.1"], "its address is not public"),
        (["169.254.169.254"], "its address is not public"),
        ([], "its name does not resolve"),
    ]
    try:
        for addresses, error in answers:
            names.answers = [addresses, ["127.0.0.1"]]
            assert (await sender.send(url, SECRET, "m", b"{}", admit=admit)).error == error
            assert names.answers == [["127.0.0.1"]], "asked once, so that the second answer is not used"
        assert (connected, endpoint.received) == (["8.8.8.8"], [])
        # Where private networks are allowed, a name is also resolved once, and the connection uses that answer.
        names.answers = [["127.0.0.1"], ["192.0.2.1"]]
        assert (await WebhookSender(ANYWHERE, resolve=resolver.resolve).send(url, SECRET, "m", b"{}")).error is None
        assert (len(names.answers), len(endpoint.received)) == (1, 1)
    finally:
        transport.close()


async def test_the_resolved_name_equals_the_requested_name(endpoint: Endpoint) -> None:
    """It is spelt as in the request and the certificate, not by Python's older IDNA rules ("strasse")."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    sender = WebhookSender(ANYWHERE, resolve=resolve)
    assert (await sender.send(f"http://straße.example:{endpoint.port}/", SECRET, "m", b"{}")).error is None
    assert asked == ["xn--strae-oqa.example"]
    assert endpoint.received[0].headers["host"] == f"xn--strae-oqa.example:{endpoint.port}"


async def test_proxies_of_the_environment_are_not_used(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_endpoint() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await WebhookSender(ANYWHERE).send(endpoint.url, SECRET, "m", b"{}")).error is None
        assert (len(endpoint.received), proxy.received) == (1, [])


@pytest.mark.parametrize(
    ("status", "gone", "own_fault"),
    [
        ("500 X", False, True), ("503 X", False, True), ("429 X", False, True), ("410 Gone", True, True),
        ("404 X", False, True), ("400 X", False, False), ("422 X", False, False), ("501 X", False, True),
    ],
)  # fmt: skip
async def test_an_error_response_names_the_side_at_fault(
    endpoint: Endpoint, status: str, gone: bool, own_fault: bool
) -> None:
    endpoint.answer = lambda _: status
    endpoint.extra = "retry-after: 17\r\n"
    answer = await WebhookSender(ANYWHERE).send(endpoint.url, SECRET, "m", b"{}")
    assert answer.error == f"the endpoint answered {status[:3]}"
    assert (answer.gone, answer.own_fault, answer.retry_after) == (gone, own_fault, 17)


@pytest.mark.parametrize(
    ("asked", "told"),
    [("86400", 86_400), ("86401", MAX_RETRY_AFTER), ("9" * 400, MAX_RETRY_AFTER), ("-5", None), ("soon", None)],
)
async def test_an_endpoint_cannot_delay_its_messages_for_more_than_a_day(
    endpoint: Endpoint, asked: str, told: float | None
) -> None:
    endpoint.answer = lambda _: "503 X"
    endpoint.extra = f"retry-after: {asked}\r\n"
    answer = await WebhookSender(ANYWHERE).send(endpoint.url, SECRET, "m", b"{}")
    assert answer.retry_after == told


@pytest.mark.parametrize("status", ["301 M", "302 F", "303 S", "307 T", "308 P"])
@pytest.mark.parametrize("echo", [None, "word"])
async def test_a_redirect_is_not_followed(endpoint: Endpoint, status: str, echo: str | None) -> None:
    async with open_endpoint() as other:
        endpoint.answer = lambda _: status
        for place in (f"http://127.0.0.1:{other.port}/", f"//127.0.0.1:{other.port}/", "/other"):
            endpoint.extra = f"location: {place}\r\nrefresh: 0; url={place}\r\n"
            answer = await WebhookSender(ANYWHERE).send(endpoint.url, SECRET, "m", b"{}", echo=echo)
            assert answer.error == f"the endpoint answered {status[:3]}; redirects are not followed"
        assert (len(endpoint.received), other.received) == (3, [])


async def test_a_silent_endpoint_takes_no_longer_than_the_time_limit(endpoint: Endpoint) -> None:
    endpoint.hold = asyncio.Event()
    answer = await WebhookSender(ANYWHERE, seconds=0.2).send(endpoint.url, SECRET, "m", b"{}")
    assert (answer.error, answer.own_fault) == ("no answer within 0.2 seconds", True)


async def test_the_time_limit_includes_a_slow_resolver() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        await asyncio.sleep(60)
        return []

    sender = WebhookSender(resolve=resolve, seconds=0.1)
    assert (await sender.send("https://x.example", SECRET, "m", b"{}")).error == "no answer within 0.1 seconds"


async def test_a_hanging_name_server_delays_no_other_lookup() -> None:
    """Its lookups cannot be cancelled: those of other tenants and of other parts of the service still work.

    The tenant's own further names are not resolved, which counts against no endpoint.
    """
    silent = threading.Event()

    def look_up(host: str, port: int, **_: int) -> list[tuple[str, tuple[str, int]]]:
        if host == "silent.example":
            silent.wait(30)
        return [("", ("8.8.8.8", port))]

    resolver = Resolver(8, look_up, share=2, patience=0.02)
    sender = WebhookSender(resolve=resolver.resolve, seconds=0.1)
    try:
        sending_tenant.set(UUID(int=1))
        for _ in range(2):
            answer = await sender.send("https://silent.example", SECRET, "m", b"{}")
            assert answer.error == "no answer within 0.1 seconds"
        for host in ("silent.example", "good.example"):
            answer = await sender.send(f"https://{host}", SECRET, "m", b"{}")
            assert (answer.overloaded, answer.own_fault) == (True, False)
        sending_tenant.set(UUID(int=2))
        async with asyncio.timeout(60):
            assert await resolver.resolve("good.example", 443) == ["8.8.8.8"]
            assert await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 1)
    finally:
        silent.set()
    sending_tenant.set(UUID(int=1))
    async with asyncio.timeout(60):
        while True:
            try:
                assert await resolver.resolve("good.example", 443) == ["8.8.8.8"]
                break
            except LookupsBusy:
                await asyncio.sleep(0.01)


async def test_eight_tenants_whose_names_hang_leave_places_for_others() -> None:
    silent = threading.Event()

    def look_up(host: str, port: int, **_: int) -> list[tuple[str, tuple[str, int]]]:
        if host.endswith(".silent.example"):
            silent.wait(30)
        return [("", ("8.8.8.8", port))]

    resolver = Resolver(look_up=look_up, patience=0.1)

    async def hang(tenant: int, number: int) -> None:
        sending_tenant.set(UUID(int=tenant))
        with contextlib.suppress(LookupsBusy):
            await resolver.resolve(f"n{number}.silent.example", 443)

    hanging = [asyncio.create_task(hang(tenant, n)) for tenant in range(1, 9) for n in range(16)]
    try:
        await asyncio.wait(hanging, timeout=0.3)
        sending_tenant.set(UUID(int=9))
        async with asyncio.timeout(60):
            assert await resolver.resolve("good.example", 443) == ["8.8.8.8"]
    finally:
        silent.set()
        await asyncio.gather(*hanging)


async def test_the_system_resolver_is_used() -> None:
    assert "127.0.0.1" in await resolve_host("127.0.0.1", 80)


async def test_the_certificate_must_match_the_name(tmp_path: Path) -> None:
    """The connection goes to an IP address; the certificate is verified against the name."""
    server, authority = make_certificate(tmp_path, "hooks.example")
    async with open_endpoint(server) as endpoint:
        sender = WebhookSender(ANYWHERE, resolve=resolving("127.0.0.1"), tls=authority)
        good = await sender.send(f"https://hooks.example:{endpoint.port}/", SECRET, "m", b"{}")
        assert good.error is None
        for wrong in ("other.example", "127.0.0.1"):
            bad = await sender.send(f"https://{wrong}:{endpoint.port}/", SECRET, "m", b"{}")
            assert bad.error == "its certificate is not valid"
        assert len(endpoint.received) == 1


def make_certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A TLS context for a server with a certificate for `name`, and one for a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain = folder / "chain.pem"
    chain.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain)
    return server, ssl.create_default_context(cafile=str(chain))


PUBLIC = ["8.8.8.8", "2606:4700:4700::1111", "193.99.144.80"]
PRIVATE = [
    "127.0.0.1", "127.255.0.9", "10.1.2.3", "172.16.0.1", "192.168.0.1", "::1", "fd00::1", "::ffff:10.0.0.1",
    "100.64.0.1",
]  # fmt: skip
NEVER = [
    "169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1",  # noqa: S104
    "255.255.255.255", "240.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:7f00:1::", "::7f00:1",
    "168.63.129.16", "fe80::1%eth0", "fec0::1", "192.88.99.1", "::ffff:192.88.99.1", "3fff::1", "192.0.0.8",
    "fd00:ec2::254", "fd20:ce::254",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_allowed(address, allow_private=False)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_need_the_operators_permission(address: str) -> None:
    assert not is_allowed(address, allow_private=False)
    if address != "100.64.0.1":  # shared between a carrier's customers, so not a private network
        assert is_allowed(address, allow_private=True)


@pytest.mark.parametrize("address", NEVER)
def test_unroutable_addresses_are_never_allowed(address: str) -> None:
    assert not is_allowed(address, allow_private=True)


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "ftp://example.com", "file:///etc/passwd", "http://", "http:///x", "https://u:p@example.com",
        "https://example.com/#x", "http://127.0.0.1/", "http://[::1]/", "http://[::ffff:10.0.0.1]/",
        "http://localhost:8000", "http://db.internal", "http://169.254.169.254/latest", "https://exa mple.com",
        "https://example.com:99999", "https://example.com/" + "x" * 2000, "http://127.0.0.1./", "http://x.localhost.",
        "https://example.com/\n", "http://xn--/", "https://xn--a.example/", "https://" + "a." * 125 + "test/",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_public_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidInput, match="url"):
        check_url(url, Targets())


def test_other_addresses_are_accepted() -> None:
    for url in (
        "https://example.com",
        "http://example.com:8080/a?b=c",
        "https://93.184.216.34/x",
        "https://bücher.example/",
    ):
        check_url(url, Targets())
    check_url("http://localhost:8080/", Targets(allow_private=True))


@pytest.mark.parametrize("port", [1, 22, 25, 79, 81, 442, 444, 3306, 5432, 6379, 8079, 8444, 9200, 11211, 65535])
async def test_a_port_that_is_not_for_the_web_is_refused_at_once_and_at_delivery(port: int) -> None:
    url = f"https://example.com:{port}/hook"
    with pytest.raises(InvalidInput, match="url: must have one of the ports 80, 443, 8080 to 8443"):
        check_url(url, Targets())
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return PUBLIC[:1]

    answer = await WebhookSender(resolve=resolve).send(url, SECRET, "m", b"{}")
    assert (answer.error, answer.own_fault, asked) == ("its port is not allowed", True, [])


@pytest.mark.parametrize("url", ["http://example.com", "https://example.com", "https://example.com:8443/"])
def test_the_ports_of_the_web_are_accepted_and_the_operator_chooses_others(url: str) -> None:
    check_url(url, Targets())
    with pytest.raises(InvalidInput, match=r"^url: must have one of the ports 9000$"):
        check_url(url, Targets(ports=(range(9000, 9001),)))
    assert str(Targets()) == "80, 443, 8080 to 8443"
    assert parse_ports(WebhookSettings().ports) == Targets().ports


async def test_a_name_with_one_private_address_is_refused() -> None:
    for addresses in (["10.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["nonsense"], []):
        with pytest.raises(AddressRefused):
            await choose_address("x.example", 443, resolving(*addresses), allow_private=False)
    chosen = await choose_address("x.example", 443, resolving(*PUBLIC), allow_private=False)
    assert chosen == PUBLIC[0]


def test_the_listed_addresses_are_valid() -> None:
    assert all(ip_address(a.partition("%")[0]) for a in PUBLIC + PRIVATE + NEVER)


OLD, NEW = Fernet.generate_key(), Fernet.generate_key()
SEALING_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


async def subscribe(desk: Desk, *keys: bytes) -> None:
    saved, _ = await desk.services.saved_searches.save(
        desk.tenant.id, OWNER, NewSavedSearch("mine", {"query": "harbour", "mode": "keyword"})
    )
    service = SubscriptionService(
        desk.services.database, desk.services.trail, desk.services.jobs, SecretSealer(keys), ANYWHERE
    )
    made, _ = await service.subscribe(desk.tenant.id, OWNER, saved.id, desk.endpoint.url, SEALING_SECRET)
    assert made.secret == SEALING_SECRET


async def stored(desk: Desk) -> str:
    return str((await desk.sql("select secret from subscriptions"))[0])


def test_a_sealed_secret_names_its_key_and_is_opened_by_any_key() -> None:
    sealed = SecretSealer([OLD]).seal(SEALING_SECRET)
    assert sealed.startswith(SecretSealer([OLD, NEW]).mark)
    assert SEALING_SECRET not in sealed
    assert SecretSealer([NEW, OLD]).open(sealed) == SEALING_SECRET
    for keys in ((), (NEW,)):
        with pytest.raises(SecretUnreadable):
            SecretSealer(keys).open(sealed)
    with pytest.raises(SecretUnreadable):
        SecretSealer([OLD]).open(sealed[:-4] + "AAAA")
    assert SecretSealer().open(SecretSealer().seal(SEALING_SECRET)) == SEALING_SECRET


async def test_the_database_has_no_secret_in_plain_text_and_messages_are_signed_with_it(desk: Desk) -> None:
    await subscribe(desk, OLD)
    await desk.confirm()
    assert SEALING_SECRET.removeprefix("whsec_") not in await stored(desk)
    await desk.write("The harbour")
    await run_due(desk.services.worker)
    assert desk.endpoint.received == [], "the worker has no key"
    await desk.sql("update deliveries set run_at = now(), attempts = 0")
    await desk.sql("update subscriptions set retry_at = null")
    await desk.deliverer(keys=(NEW, OLD)).deliver(desk.tenant.id)
    (message,) = desk.endpoint.received
    given = message.headers
    assert given["webhook-signature"] == sign(
        SEALING_SECRET, given["webhook-id"], int(given["webhook-timestamp"]), message.body
    )


async def test_the_sweep_encrypts_with_the_first_key(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    await subscribe(desk)
    assert await stored(desk) == SEALING_SECRET
    await desk.deliverer().tidy(desk.tenant.id)
    assert await stored(desk) == SEALING_SECRET
    for keys in ((OLD,), (NEW, OLD), (NEW,)):
        await desk.deliverer(keys=keys).tidy(desk.tenant.id)
        now = await stored(desk)
        assert now.startswith(SecretSealer(keys).mark)
        assert SecretSealer(keys).open(now) == SEALING_SECRET
        await desk.deliverer(keys=keys).tidy(desk.tenant.id)
        assert await stored(desk) == now
    with caplog.at_level(logging.ERROR):
        await desk.deliverer(keys=(OLD,)).tidy(desk.tenant.id)
    assert await stored(desk) == now
    assert "not in KB_ENCRYPTION_KEY" in caplog.text

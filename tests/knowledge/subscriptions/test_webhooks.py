"""Sending a webhook: its signature, and the addresses that it may reach."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.errors import InvalidInput
from app.knowledge.subscriptions.webhooks import (
    MAX_RETRY_AFTER,
    LookupsBusy,
    Resolver,
    WebhookSender,
    make_secret,
    read_secret,
    resolve_host,
    sending_tenant,
    sign,
)
from tests.knowledge.subscriptions.endpoint import Endpoint, open_endpoint
from tests.knowledge.subscriptions.resolving import resolving

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


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
    answer = await WebhookSender().send(f"http://{host}:{endpoint.port}/", SECRET, "msg_1", b"{}")
    assert answer.error in ("its address is not public", "its name does not resolve")
    assert endpoint.received == []


async def test_the_connection_uses_the_checked_address(endpoint: Endpoint) -> None:
    """A second lookup would return another address."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["192.0.2.1"]

    sender = WebhookSender(allow_private=True, resolve=resolve)
    answer = await sender.send(f"http://hooks.example:{endpoint.port}/a?b=c", SECRET, "msg_1", b'{"a":1}')
    assert answer.error is None
    assert asked == ["hooks.example"]
    (request,) = endpoint.received
    assert (request.path, request.body) == ("/a?b=c", b'{"a":1}')
    assert request.headers["host"] == f"hooks.example:{endpoint.port}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == "msg_1"
    assert request.is_signed_with(SECRET)


async def test_the_resolved_name_equals_the_requested_name(endpoint: Endpoint) -> None:
    """It is spelt as in the request and the certificate, not by Python's older IDNA rules ("strasse")."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    sender = WebhookSender(allow_private=True, resolve=resolve)
    assert (await sender.send(f"http://straße.example:{endpoint.port}/", SECRET, "m", b"{}")).error is None
    assert asked == ["xn--strae-oqa.example"]
    assert endpoint.received[0].headers["host"] == f"xn--strae-oqa.example:{endpoint.port}"


async def test_proxies_of_the_environment_are_not_used(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_endpoint() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert (await WebhookSender(allow_private=True).send(endpoint.url, SECRET, "m", b"{}")).error is None
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
    answer = await WebhookSender(allow_private=True).send(endpoint.url, SECRET, "m", b"{}")
    assert answer.error == f"the endpoint answered {status[:3]}"
    assert (answer.gone, answer.own_fault, answer.retry_after) == (gone, own_fault, 17)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("86400", 86_400),
        ("86401", MAX_RETRY_AFTER),
        ("9" * 400, MAX_RETRY_AFTER),
        ("-5", None),
        ("soon", None),
    ],
)
async def test_an_endpoint_cannot_delay_its_messages_for_more_than_a_day(
    endpoint: Endpoint, asked: str, told: float | None
) -> None:
    endpoint.answer = lambda _: "503 X"
    endpoint.extra = f"retry-after: {asked}\r\n"
    answer = await WebhookSender(allow_private=True).send(endpoint.url, SECRET, "m", b"{}")
    assert answer.retry_after == told


async def test_a_redirect_is_not_followed(endpoint: Endpoint) -> None:
    endpoint.answer = lambda _: "307 Temporary Redirect"
    endpoint.extra = f"location: http://127.0.0.1:{endpoint.port}/other\r\n"
    answer = await WebhookSender(allow_private=True).send(endpoint.url, SECRET, "m", b"{}")
    assert answer.error == "the endpoint answered 307; redirects are not followed"
    assert len(endpoint.received) == 1


async def test_a_silent_endpoint_takes_no_longer_than_the_time_limit(endpoint: Endpoint) -> None:
    endpoint.hold = asyncio.Event()
    answer = await WebhookSender(allow_private=True, seconds=0.2).send(endpoint.url, SECRET, "m", b"{}")
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
        sender = WebhookSender(
            allow_private=True,
            resolve=resolving("127.0.0.1"),
            tls=authority,
        )
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
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain)
    return server, ssl.create_default_context(cafile=str(chain))

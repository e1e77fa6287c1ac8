"""The service on a real server, and its start."""

import asyncio
import signal
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from asgi_lifespan import LifespanManager

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.documents.process import parsing
from app.knowledge.worker import Worker
from app.main import create_app
from app.settings import IngestionSettings, Settings
from tests.fixtures.documents import write_pdf
from tests.fixtures.http.callers import SECRET, Caller, make_token
from tests.fixtures.http.expectations import expect_problem
from tests.fixtures.http.serving import serve, start_service

MEGABYTE = b"a" * (1 << 20)
HEAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'


@pytest.fixture(scope="module")
async def address(settings: Settings, api_services: Services, verifier: TokenVerifier) -> AsyncIterator[str]:
    """The address of a separate application: the test shuts it down, which it must not do to the shared one."""
    async with serve(create_app(settings, api_services, verifier)) as url:
        yield url


async def pieces(count: int, head: bytes = b"") -> AsyncIterator[bytes]:
    """A body of unannounced length."""
    yield head
    for _ in range(count):
        yield MEGABYTE


async def talk(address: str, request: bytes) -> bytes:
    """Send bytes, and read until the server closes the connection."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer


async def hang_up(address: str, request: bytes) -> None:
    """Send bytes that must not be answered yet, and close the connection."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await reader.read(1)
    writer.close()


async def test_head_leaves_its_connection_usable_for_the_next_request(address: str) -> None:
    head = b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    get = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = await talk(address, head + get)
    first, second, body = answer.split(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200")
    assert second.startswith(b"HTTP/1.1 200")
    length = f"content-length: {len(body)}".encode()
    assert length in first.lower()
    assert length in second.lower()


@pytest.mark.slow
async def test_an_upload_of_60_megabytes_is_answered_with_413(caller: Caller) -> None:
    expect_problem(await caller.upload("big.txt", MEGABYTE * 60, "text/plain"), 413)
    expect_problem(await caller.upload("big.txt", MEGABYTE * 50 + b"a", "text/plain"), 413)
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = await caller.post("/knowledge/assets", content=pieces(60, HEAD), headers=headers)
    expect_problem(answer, 413)
    assert (await caller.get("/knowledge/assets")).json()["items"] == []


@pytest.mark.slow
async def test_a_large_body_without_a_token_is_answered_with_401(caller: Caller) -> None:
    for path in ("/knowledge/search", "/knowledge/assets"):
        expect_problem(await caller.http.post(path, content=pieces(40)), 401)
        expect_problem(await caller.http.post(path, content=MEGABYTE * 40), 401)
    assert (await caller.search("still here"))["results"] == []


async def test_a_chunked_search_is_answered(caller: Caller) -> None:
    async def body() -> AsyncIterator[bytes]:
        for part in (b'{"query"', b': "har', b'bour"}'):
            yield part

    answer = await caller.post("/knowledge/search", content=body(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 200


async def test_a_caller_that_hangs_up_does_not_affect_others(caller: Caller, address: str) -> None:
    head = f"POST /knowledge/search HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {caller.token}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    await hang_up(address, head.encode() + b'{"query": ')
    assert (await caller.http.get("/healthz")).status_code == 200


async def test_an_answer_states_its_length_and_type(caller: Caller) -> None:
    answer = await caller.post("/knowledge/search", {"query": "harbour"})
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.headers["content-type"] == "application/json"
    assert "x-request-id" in answer.headers


@pytest.mark.slow
async def test_the_service_indexes_in_the_background_and_finishes_requests_on_shutdown(
    service_dsn: str, services: Services
) -> None:
    tenant = await services.tenants.create(NewTenant("served"), actor="test")
    settings = {
        "DATABASE_URL": service_dsn,
        "EMBEDDING_PROVIDER": "mock",
        "EMBEDDING_DIMENSIONS": "16",
        "JWT_SECRET": SECRET,
    }
    async with start_service(settings) as service:
        async with httpx.AsyncClient(base_url=service.url, trust_env=False, timeout=60) as client:
            admin = Caller(client, tenant.id, make_token(tenant.id, Role.TENANT_ADMIN))
            pdf = write_pdf([["The harbour opens at six."]])
            asset = (await admin.upload("a.pdf", pdf, "application/pdf")).json()
            async with asyncio.timeout(60):
                while asset["status"] not in ("indexed", "failed"):
                    await asyncio.sleep(0.1)
                    asset = (await admin.get(f"/knowledge/assets/{asset['id']}")).json()
            assert asset["status"] == "indexed"
            sent = asyncio.Event()

            async def slow_body() -> AsyncIterator[bytes]:
                yield b'{"query": "harb'
                sent.set()
                await asyncio.sleep(0.5)
                yield b'our", "mode": "keyword"}'

            asking = asyncio.create_task(
                admin.post("/knowledge/search", content=slow_body(), headers={"Content-Type": "application/json"})
            )
            await sent.wait()
            await asyncio.sleep(0.1)
            service.process.send_signal(signal.SIGTERM)
            answer = await asking
            assert answer.status_code == 200
            assert answer.json()["results"][0]["metadata"]["page"] == 1
        async with asyncio.timeout(60):
            assert await service.process.wait() in (0, -signal.SIGTERM)


WARNING = "parser less protected"


class IdleWorker(Worker):
    """Leaves the jobs of other tests alone."""

    def __init__(self) -> None:
        pass

    async def run(self) -> None:
        await asyncio.Event().wait()


async def start(services: Services, verifier: TokenVerifier, *, worker: bool) -> None:
    """Start the application, wait for all that it started, and stop it."""
    settings = Settings(ingestion=IngestionSettings(worker=worker))
    before = asyncio.all_tasks()
    app = create_app(settings, replace(services, worker=IdleWorker()), verifier)
    async with LifespanManager(app):
        checks = [t for t in asyncio.all_tasks() - before if "log_missing" in repr(t.get_coro())]
        assert len(checks) == worker
        await asyncio.gather(*checks)


@pytest.mark.usefixtures("old_kernel")
@pytest.mark.parametrize("worker", [True, False])
async def test_start_names_the_protections_that_the_system_lacks(
    api_services: Services, verifier: TokenVerifier, worker: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await start(api_services, verifier, worker=worker)
    warnings = [record.__dict__["missing"] for record in caplog.records if record.message == WARNING]
    # A service without a worker parses nothing.
    assert len(warnings) == worker
    assert all("Landlock for connections (Linux 6.7)" in missing for missing in warnings)


async def test_start_warns_of_nothing_that_the_system_has(
    api_services: Services, verifier: TokenVerifier, caplog: pytest.LogCaptureFixture
) -> None:
    if missing := await parsing.find_missing_protections():
        pytest.skip(f"this system lacks: {', '.join(missing)}")
    await start(api_services, verifier, worker=True)
    assert WARNING not in caplog.text

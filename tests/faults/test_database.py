"""Faults of the database."""

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import pytest
from asgi_lifespan import LifespanManager
from prometheus_client import REGISTRY

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import build_services
from app.contract.administration import NewTenant
from app.db.database import Database
from app.db.outage import BUSY, PATIENCE, QUIET_SECONDS, Outage
from app.db.schema.catalog import REVISION
from app.db.statements import parse_statement
from app.embeddings.providers.mock import MockProvider
from app.errors import DatabaseUnavailable
from app.main import create_app
from app.settings import IngestionSettings, Settings
from tests.faults.conftest import dsn_through
from tests.faults.proxy import FaultProxy
from tests.faults.scene import AWAY, CONNECT_LIMIT, LIMIT, POOL, Scene
from tests.fixtures.database.cluster import MODEL, Connection, TestDatabase, connected
from tests.fixtures.http.callers import SECRET, Caller, make_token, open_client
from tests.fixtures.http.expectations import expect_problem

TERMINATE = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1"


@pytest.fixture
async def scene(fresh_database: TestDatabase, database_proxy: FaultProxy) -> AsyncIterator[Scene]:
    database = Database(
        dsn_through(database_proxy, fresh_database.name),
        pool_size=POOL,
        pool_timeout=LIMIT,
        connect_timeout=CONNECT_LIMIT,
        statement_timeout=LIMIT,
    )
    services = await build_services(database, MockProvider(MODEL))
    tenant = await services.tenants.create(NewTenant("faults"), actor="test")
    app = create_app(Settings(ingestion=IngestionSettings(worker=False)), services, TokenVerifier(secret=SECRET))
    async with LifespanManager(app), open_client(app) as http:
        caller = Caller(http, tenant.id, make_token(tenant.id, Role.TENANT_ADMIN))
        await caller.add("The harbour opens at six")
        await services.journal.flush()
        scene = Scene(caller, database, database_proxy, fresh_database)
        await scene.expect_service()
        yield scene
        database_proxy.fault = "none"
        await services.close()
    await database.close()


async def test_a_stopped_server_is_a_503_until_it_returns(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="app.db.outage"):
        await scene.proxy.refuse()
        for number in range(5):
            await scene.expect_refusal(await scene.look(), AWAY)
            await scene.expect_refusal(await scene.write(number), AWAY)
        expect_problem(await scene.caller.http.get("/readyz"), 503)
        assert (await scene.caller.http.get("/healthz")).status_code == 200
        await scene.proxy.listen()
        await scene.expect_service()
    lines = [record for record in caplog.records if record.name == "app.db.outage"]
    assert [(line.levelname, line.getMessage()) for line in lines] == [
        ("ERROR", "the database is down"),
        ("WARNING", "the database is back"),
    ]
    assert [line.exc_info is not None for line in lines] == [True, False], "the stack, once"


async def test_connections_reset_while_idle_are_replaced_without_an_error(scene: Scene) -> None:
    for _ in range(3):
        await asyncio.gather(*(scene.look() for _ in range(POOL)))
        scene.proxy.reset_connections()
        await asyncio.sleep(0.05)
        await scene.expect_service()


@pytest.mark.slow
async def test_a_connection_reset_during_a_statement_is_one_503(scene: Scene) -> None:
    async with connected(scene.made.superuser_dsn) as superuser, superuser.transaction():
        await superuser.execute("lock table entries in access exclusive mode")
        asking = asyncio.create_task(scene.look())
        await asyncio.sleep(0.3)
        assert not asking.done()
        scene.proxy.reset_connections()
        await scene.expect_refusal(await asking, AWAY)
    await scene.expect_service()


@pytest.mark.slow
async def test_requests_to_a_silent_server_are_refused_in_time(scene: Scene) -> None:
    scene.proxy.fault = "black hole"
    async with asyncio.timeout(20):
        # More requests than connections: some get no response from the server, the others get no connection.
        answers = await asyncio.gather(*(scene.look() for _ in range(2 * POOL)))
        for answer in answers:
            expect_problem(answer, 503)
            assert "retry-after" in answer.headers
        expect_problem(await scene.caller.http.get("/readyz"), 503)
        scene.proxy.fault = "none"
        # The service retries a silent server after a moment.
        while (await scene.caller.http.get("/readyz")).status_code != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await scene.expect_service()


@pytest.mark.slow
async def test_requests_over_a_slow_network_succeed(scene: Scene) -> None:
    scene.proxy.delay = 0.02
    scene.proxy.fault = "delay"
    assert (await scene.look()).status_code == 200
    assert (await scene.write(1)).status_code == 200
    scene.proxy.fault = "none"
    await scene.expect_service()


async def test_a_lock_timeout_is_a_503_with_its_reason(scene: Scene) -> None:
    async with connected(scene.made.superuser_dsn) as superuser, superuser.transaction():
        await superuser.execute("lock table entries in access exclusive mode")
        await scene.expect_refusal(await scene.look(), "the database took too long to answer")
        await scene.expect_no_leak()
    await scene.expect_service()


async def test_an_exhausted_pool_is_a_503_with_its_reason(scene: Scene) -> None:
    assert scene.caller.tenant_id is not None
    async with (
        scene.database.tenant_session(scene.caller.tenant_id),
        scene.database.tenant_session(scene.caller.tenant_id),
        scene.database.tenant_session(scene.caller.tenant_id),
    ):
        await scene.expect_refusal(await scene.look(), "every database connection is in use at the moment")
    await scene.expect_service()


@pytest.mark.slow
async def test_a_server_at_its_connection_limit_is_a_503_with_its_reason(scene: Scene) -> None:
    async with connected(scene.made.superuser_dsn) as superuser:
        await superuser.execute("alter role kb_service connection limit 0")
        try:
            scene.proxy.reset_connections()
            await asyncio.sleep(0.05)
            await scene.expect_refusal(await scene.look(), "the database accepts no more connections at the moment")
        finally:
            await superuser.execute("alter role kb_service connection limit -1")
    await scene.expect_service()


@pytest.mark.slow
async def test_a_read_only_database_is_still_searched(scene: Scene) -> None:
    async with connected(scene.made.superuser_dsn) as superuser:
        await superuser.execute(f"alter database {scene.made.name} set default_transaction_read_only = on")
        scene.proxy.reset_connections()
        await asyncio.sleep(0.05)
        await scene.expect_refusal(await scene.write(1), "the database is read-only at the moment")
        assert (await scene.look()).status_code == 200
        await superuser.execute(f"alter database {scene.made.name} reset default_transaction_read_only")
    scene.proxy.reset_connections()
    await asyncio.sleep(0.05)
    await scene.expect_service()


async def test_a_refused_login_is_a_503_with_its_reason(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    async with connected(scene.made.superuser_dsn) as superuser:
        await superuser.execute("alter role kb_service nologin")
        try:
            scene.proxy.reset_connections()
            await asyncio.sleep(0.05)
            with caplog.at_level(logging.ERROR, logger="app.db.outage"):
                for _ in range(2):
                    await scene.expect_refusal(await scene.look(), "the database refuses the login of the service")
        finally:
            await superuser.execute("alter role kb_service login")
    assert [line.getMessage() for line in caplog.records] == [
        "database error: the database refuses the login of the service"
    ]
    await scene.expect_service()


async def test_a_busy_pool_leaves_the_service_ready_and_a_silent_database_does_not(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.operations.READINESS_SECONDS", 0.3)
    assert scene.caller.tenant_id is not None
    async with AsyncExitStack() as stack:
        held = [
            await stack.enter_async_context(scene.database.tenant_session(scene.caller.tenant_id)) for _ in range(POOL)
        ]
        for answering in (True, False):
            asking = asyncio.create_task(scene.caller.http.get("/readyz"))
            await asyncio.sleep(0.1)
            if answering:
                await held[0].fetch_value(REVISION)
            assert (await asking).status_code == (200 if answering else 503)
    await scene.expect_service()


async def test_a_database_without_the_newest_migration_is_not_ready(scene: Scene) -> None:
    async with connected(scene.made.superuser_dsn) as superuser:
        needed = await superuser.fetchval("select version_num from alembic_version")
        for revision, status in ((None, 503), ("9999", 200), (needed, 200)):
            await superuser.execute("delete from alembic_version")
            if revision is not None:
                await superuser.execute("insert into alembic_version values ($1)", revision)
            answer = await scene.caller.http.get("/readyz")
            assert answer.status_code == status, revision
            if status == 503:
                assert "knowledge migrate" in expect_problem(answer, 503)["detail"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 MB."""
    if not (sys.platform == "linux" and os.geteuid() == 0):
        pytest.skip("only root can mount a small file system")
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this machine does not let file systems be mounted")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


async def move_database(superuser: Connection, name: str, tablespace: str) -> None:
    """Move a database to a tablespace, with connections refused: the service would reconnect at once."""
    await superuser.execute(f"alter database {name} allow_connections false")
    await superuser.execute(TERMINATE, name)
    await superuser.execute(f"alter database {name} set tablespace {tablespace}")
    await superuser.execute(f"alter database {name} allow_connections true")


@pytest.mark.slow
async def test_a_full_disk_is_a_503_with_its_reason_and_searches_still_work(scene: Scene, small_disk: Path) -> None:
    space = small_disk / "space"
    space.mkdir()
    owner = os.stat(scene.made.address.socket_dir)
    os.chown(space, owner.st_uid, owner.st_gid)
    async with connected(scene.made.address.dsn(database="postgres")) as superuser:
        await superuser.execute(f"create tablespace small location '{space}'")
        scene.proxy.reset_connections()
        await move_database(superuser, scene.made.name, "small")
        try:
            await scene.expect_service()
            filler = small_disk / "filler"
            with contextlib.suppress(OSError), filler.open("wb") as file:
                while True:
                    file.write(b"\0" * 65_536)
                    file.flush()
            text = " ".join(str(number) for number in range(2000))
            bodies = [{"entries": [{"content": f"{n} {i} {text}"} for i in range(50)]} for n in range(3)]
            answers = [await scene.caller.post("/knowledge/entries/bulk", body) for body in bodies]
            await scene.expect_refusal(answers[-1], "the database has no disk space left")
            assert REGISTRY.get_sample_value("knowledge_database_errors_total", {"reason": "disk_full"})
            assert (await scene.look()).status_code == 200
            filler.unlink()
            assert (await scene.caller.post("/knowledge/entries/bulk", bodies[-1])).status_code == 200
            await scene.expect_service()
        finally:
            scene.proxy.reset_connections()
            await move_database(superuser, scene.made.name, "pg_default")
            await superuser.execute("drop tablespace small")


CALLERS = 20
OUTAGE_POOL = 3
OUTAGE_LIMIT = 1.5
"""Time limit in seconds for connecting."""
TURN = 1.0
"""Time limit in seconds for waiting for a turn."""
SHORT = 0.2
"""Seconds that callers wait while the state of the database is in doubt."""
OUTAGE_AWAY = "the database is not reachable at the moment"
SLEEP = parse_statement("sleep", "select pg_sleep(:seconds)")


class ProbedOutage:
    """An `Outage` with a scripted probe and a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.tries = 0
        self.cuts = 0
        self.failure: Exception | None = None
        self.free = asyncio.Event()
        self.outage = Outage(self._ask, self._cut, lambda: self.now)

    async def _ask(self) -> None:
        self.tries += 1
        asked = self.now
        await self.free.wait()
        if self.failure is not None:
            raise self.outage.refuse(self.failure) from self.failure
        self.outage.record_answer(asked)

    def _cut(self) -> None:
        self.cuts += 1

    async def enter(self, failure: Exception | None = None) -> list[BaseException | None]:
        """The outcome for each of many callers when the probe ends in `failure`."""
        self.failure = failure
        self.free.clear()
        entering = [asyncio.create_task(self.outage.wait_until_reachable()) for _ in range(CALLERS)]
        await asyncio.sleep(0)
        self.free.set()
        return await asyncio.gather(*entering, return_exceptions=True)


@pytest.fixture
async def probed() -> AsyncIterator[ProbedOutage]:
    """One whose connection has just been lost."""
    probed = ProbedOutage()
    await probed.outage.wait_until_reachable()
    probed.outage.mark_suspect()
    yield probed
    await probed.outage.close()


async def test_one_probe_decides_for_all_callers(probed: ProbedOutage) -> None:
    for tries in (1, 2):
        outcomes = await probed.enter(ConnectionError())
        assert all(isinstance(error, DatabaseUnavailable) for error in outcomes)
        assert probed.tries == tries
    assert await probed.enter() == [None] * CALLERS
    assert probed.tries == 3
    assert await probed.enter() == [None] * CALLERS
    assert probed.tries == 3


async def test_callers_are_refused_until_a_slow_probe_succeeds(probed: ProbedOutage) -> None:
    waiting = asyncio.create_task(probed.outage.wait_until_reachable())
    await asyncio.sleep(0)
    probed.now += PATIENCE
    for _ in range(3):  # one request waits only once
        with pytest.raises(DatabaseUnavailable):
            await probed.outage.wait_until_reachable()
    probed.now += PATIENCE
    probed.free.set()
    await waiting
    await probed.outage.wait_until_reachable()
    assert probed.tries == 1


async def test_an_error_of_the_database_itself_is_logged_once_until_it_is_over(
    probed: ProbedOutage, caplog: pytest.LogCaptureFixture
) -> None:
    outage = probed.outage

    def refuse(*errors: Exception) -> list[tuple[str, str, bool]]:
        """The level and text of each line, and whether it has a stack."""
        caplog.clear()
        for error in errors:
            assert str(outage.refuse(error)) != OUTAGE_AWAY
            outage.record_answer(probed.now)
        return [(line.levelname, line.getMessage(), line.exc_info is not None) for line in caplog.records]

    full, locked = asyncpg.DiskFullError(), asyncpg.LockNotAvailableError()
    began = ("ERROR", "database error: the database has no disk space left", True)
    over = ("WARNING", "the database error is over: the database has no disk space left", False)
    with caplog.at_level(logging.INFO, logger="app.db.outage"):
        assert refuse(*[full] * 50) == [began], "once, not once a request"
        assert [line[0] for line in refuse(locked, locked)] == ["ERROR"], "each kind is an outage of its own"
        probed.now += QUIET_SECONDS
        assert refuse(full) == []
        caplog.clear()
        probed.now += QUIET_SECONDS + 1
        outage.record_answer(probed.now)
        about = {line.getMessage(): vars(line) for line in caplog.records}
        assert len(about) == 2
        assert (about[over[1]]["seconds"], about[over[1]]["refused"]) == (QUIET_SECONDS, 51)
        outage.record_answer(probed.now)
        assert len(caplog.records) == 2
        assert refuse(full) == [began]
        probed.now += QUIET_SECONDS + 1
        assert refuse(full) == [over, began], "also when no request came in between"


async def test_only_a_response_to_a_later_request_ends_a_doubt(probed: ProbedOutage) -> None:
    waiting = asyncio.create_task(probed.outage.wait_until_reachable())
    await asyncio.sleep(0)
    probed.outage.record_answer(probed.now - 0.1)
    await asyncio.sleep(0)
    assert not waiting.done()
    probed.outage.record_answer(probed.now)
    await waiting
    await probed.outage.wait_until_reachable()


async def test_connections_are_closed_when_all_are_silent(probed: ProbedOutage) -> None:
    await probed.enter(ConnectionRefusedError())
    assert probed.cuts == 0
    probed.now += 1
    await probed.enter(TimeoutError())
    assert probed.cuts == 1
    probed.free.clear()
    waiting = asyncio.create_task(probed.outage.wait_until_reachable())
    await asyncio.sleep(0)
    probed.outage.record_answer(probed.now - 10)  # the response to an older request, on a working connection
    probed.free.set()
    with pytest.raises(DatabaseUnavailable):
        await waiting
    assert probed.cuts == 1


async def test_a_doubt_shortens_only_attempts_already_in_progress(
    probed: ProbedOutage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.outage.PATIENCE", 0.01)

    async def attempt() -> None:
        async with probed.outage.limit(asyncio.get_running_loop().time() + 60):
            await asyncio.Event().wait()

    before = asyncio.create_task(attempt())
    await asyncio.sleep(0)
    probed.outage.mark_suspect()
    probed.outage.record_answer(probed.now)
    after = asyncio.create_task(attempt())
    done, waiting = await asyncio.wait((before, after), timeout=10, return_when=asyncio.FIRST_COMPLETED)
    assert (done, waiting) == ({before}, {after})
    assert isinstance(before.exception(), TimeoutError)
    after.cancel()


@pytest.fixture
async def database(
    fresh_database: TestDatabase,
    database_proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Database]:
    """A small pool through the proxy with short time limits; the parameter is the limit for connecting."""
    monkeypatch.setattr("app.db.outage.PATIENCE", SHORT)
    database = Database(
        dsn_through(database_proxy, fresh_database.name),
        pool_size=OUTAGE_POOL,
        pool_timeout=TURN,
        connect_timeout=getattr(request, "param", OUTAGE_LIMIT),
    )
    async with AsyncExitStack() as stack:
        for _ in range(OUTAGE_POOL):
            await stack.enter_async_context(database.platform_session())
    yield database
    database_proxy.pause, database_proxy.fault = 0.0, "none"
    await database.close()


async def enter(database: Database, seconds: float = 0.0) -> str:
    """The outcome of a statement that takes `seconds`: "done", or the reason of its refusal."""
    try:
        async with database.platform_session() as session:
            await session.fetch(SLEEP, seconds=seconds)
    except DatabaseUnavailable as error:
        return str(error)
    return "done"


async def wait_until_done(database: Database) -> None:
    async with asyncio.timeout(60):
        while await enter(database) != "done":  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("database", [10.0], indirect=True)
async def test_callers_are_served_again_once_a_slow_connection_is_open(
    database: Database, database_proxy: FaultProxy
) -> None:
    database_proxy.pause = 2 * SHORT
    database_proxy.reset_connections()
    await asyncio.sleep(0.05)
    assert await enter(database) == OUTAGE_AWAY
    await wait_until_done(database)
    # Every connection is opened again, even if that is slow.
    assert await asyncio.gather(*(enter(database) for _ in range(OUTAGE_POOL))) == ["done"] * OUTAGE_POOL


async def test_open_connections_work_while_no_new_one_can_be_opened(
    database: Database, database_proxy: FaultProxy
) -> None:
    await database.engine.dispose()
    async with database.platform_session(), database.platform_session():
        database_proxy.pause = 60
        assert await enter(database) == OUTAGE_AWAY
    for _ in range(3):
        assert await asyncio.gather(*(enter(database) for _ in range(OUTAGE_POOL - 1))) == ["done"] * (OUTAGE_POOL - 1)


@pytest.mark.slow
async def test_a_server_that_goes_silent_during_statements_is_down_and_not_busy(
    database: Database, database_proxy: FaultProxy
) -> None:
    running = [asyncio.create_task(enter(database, 60.0)) for _ in range(OUTAGE_POOL)]
    await asyncio.sleep(0.1)
    assert await enter(database) == BUSY
    assert await database.answers(60)
    database_proxy.fault = "black hole"
    assert await enter(database) == OUTAGE_AWAY
    # Statements are cancelled long before their own time limit, so connections are free when the server returns.
    assert await asyncio.gather(*running) == [OUTAGE_AWAY] * OUTAGE_POOL
    assert database.pool_use.in_use == 0
    assert await enter(database) == OUTAGE_AWAY
    database_proxy.fault = "none"
    await wait_until_done(database)


@pytest.mark.slow
async def test_many_callers_of_a_silent_server_share_one_connection_attempt(
    database: Database, database_proxy: FaultProxy
) -> None:
    connections = database_proxy.accepted
    database_proxy.fault = "black hole"
    assert set(await asyncio.gather(*(enter(database) for _ in range(10 * OUTAGE_POOL)))) == {OUTAGE_AWAY}
    # Callers with a turn waited on their connections; one more connection was opened as a probe.
    assert database_proxy.accepted <= connections + 1
    database_proxy.fault = "none"
    await wait_until_done(database)


@pytest.mark.parametrize("error", [FileNotFoundError("mine"), TimeoutError("mine")])
async def test_other_errors_do_not_count_as_database_failures(
    database: Database, error: OSError, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="app.db"), pytest.raises(type(error), match="mine"):
        async with database.platform_session():
            raise error
    assert not caplog.records
    assert await enter(database) == "done"

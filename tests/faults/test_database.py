"""A database that is down, slow, full or unreachable: callers get the reason, and nothing leaks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from asgi_lifespan import LifespanManager

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import build_services
from app.contract.administration import NewTenant
from app.db.database import Database
from app.embeddings.providers.mock import MockProvider
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
    with caplog.at_level(logging.INFO, logger="app.db"):
        await scene.proxy.refuse()
        for number in range(5):
            await scene.expect_refusal(await scene.look(), AWAY)
            await scene.expect_refusal(await scene.write(number), AWAY)
        expect_problem(await scene.caller.http.get("/readyz"), 503)
        assert (await scene.caller.http.get("/healthz")).status_code == 200
        await scene.proxy.listen()
        await scene.expect_service()
    lines = [record for record in caplog.records if record.name == "app.db"]
    assert [line.getMessage() for line in lines] == ["the database is down", "the database is back"]
    assert all(line.exc_info is None for line in lines)


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


@pytest.mark.slow
async def test_a_changed_password_is_a_503(scene: Scene) -> None:
    async with connected(scene.made.superuser_dsn) as superuser:
        await superuser.execute("alter role kb_service nologin")
        try:
            scene.proxy.reset_connections()
            await asyncio.sleep(0.05)
            await scene.expect_refusal(await scene.look(), AWAY)
        finally:
            await superuser.execute("alter role kb_service login")
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
            assert (await scene.look()).status_code == 200
            filler.unlink()
            assert (await scene.caller.post("/knowledge/entries/bulk", bodies[-1])).status_code == 200
            await scene.expect_service()
        finally:
            scene.proxy.reset_connections()
            await move_database(superuser, scene.made.name, "pg_default")
            await superuser.execute("drop tablespace small")

"""Processes that share an embedded Postgres, and how they wait for it."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest

from app.embedded import EmbeddedAddress
from app.embedded.server import EmbeddedPostgres
from app.errors import ConfigurationError
from tests.fixtures.embedded import (
    FAST,
    UserProcess,
    fetch_value,
    find_postmaster,
    find_processes,
    read_state,
    wait_until,
)


@pytest.mark.slow
def test_database_is_utf8_and_sorts_identically_everywhere(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "data") as postgres:  # with the settings that users get
        dsn = postgres.start().dsn()
        locale = "select datlocprovider::text || ' ' || datlocale from pg_database where datname = 'knowledge'"
        assert fetch_value(dsn, "select current_database()") == "knowledge"
        assert fetch_value(dsn, "show server_encoding") == "UTF8"
        assert fetch_value(dsn, locale) == "b C.UTF-8"
        assert fetch_value(dsn, "show fsync") == "on"
        assert fetch_value(dsn, "show jit") == "off"
        assert fetch_value(dsn, "show timezone") == "UTC"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("with  spaces, 'quotes' and \"%s", id="spaces"),
        pytest.param("x" * 150, id="150", marks=pytest.mark.slow),
    ],
)
def test_data_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    data_dir = tmp_path / name
    postgres = EmbeddedPostgres(data_dir, settings=FAST)
    fetch_value(postgres.start().dsn(), "create table kept as select 7 as n")
    postgres.stop()
    assert not find_processes(data_dir)
    assert not (data_dir / "postgres" / "postmaster.pid").exists()
    try:
        assert fetch_value(postgres.start().dsn(), "select n from kept") == 7
    finally:
        postgres.stop()


@pytest.mark.slow
def test_last_process_to_leave_stops_postgres(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    here = EmbeddedPostgres(data_dir, settings=FAST)
    with UserProcess(data_dir) as other, here:
        dsn = other.read_dsn()
        assert here.start().dsn() == dsn
        pid = find_postmaster(data_dir).pid
        here.stop()
        here.stop()
        assert fetch_value(dsn, "select 1") == 1
        assert find_postmaster(data_dir).pid == pid
        other.leave()
        assert not find_processes(data_dir)
        assert not Path(read_state(data_dir)["socket_dir"]).exists()


@pytest.mark.slow
def test_shares_of_one_process_are_counted_separately(prepared_dir: Path) -> None:
    first, second = (EmbeddedPostgres(prepared_dir, settings=FAST) for _ in range(2))
    dsn = first.start().dsn()
    with second:
        first.stop()
        assert fetch_value(dsn, "select 1") == 1
    assert not find_processes(prepared_dir)


def test_concurrent_starts_give_one_postgres(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with ExitStack() as stack:
        users = [stack.enter_context(UserProcess(data_dir)) for _ in range(5)]
        dsns = {user.read_dsn() for user in users}
        assert len(dsns) == 1
        assert fetch_value(dsns.pop(), "select 1") == 1
        postmasters = {p.pid for p in find_processes(data_dir)} & {p.ppid() for p in find_processes(data_dir)}
        assert postmasters == {find_postmaster(data_dir).pid}
    wait_until(lambda: not find_processes(data_dir))


@pytest.mark.slow
def test_two_data_directories_do_not_disturb_each_other(tmp_path: Path) -> None:
    left, right = (EmbeddedPostgres(tmp_path / name, settings=FAST) for name in ("left", "right"))
    with right:
        with left:
            assert left.start().socket_dir != right.start().socket_dir
            fetch_value(left.start().dsn(), "create table mine ()")
            assert fetch_value(right.start().dsn(), "select to_regclass('mine')") is None
        assert fetch_value(right.start().dsn(), "select 1") == 1
        assert not find_processes(tmp_path / "left")


@pytest.mark.slow
def test_a_moved_data_directory_does_not_share_its_socket(prepared_dir: Path, tmp_path: Path) -> None:
    with EmbeddedPostgres(prepared_dir, settings=FAST) as old:
        before = old.start().socket_dir
    prepared_dir.rename(tmp_path / "new")
    with EmbeddedPostgres(tmp_path / "new", settings=FAST) as new:
        assert new.start().socket_dir != before


@pytest.mark.slow
async def test_start_works_inside_a_running_event_loop(prepared_dir: Path) -> None:
    postgres = EmbeddedPostgres(prepared_dir, settings=FAST)
    address = await asyncio.to_thread(postgres.start)
    try:
        assert await asyncio.to_thread(fetch_value, address.dsn(), "select 1") == 1
    finally:
        await asyncio.to_thread(postgres.stop)


def test_data_directory_deleted_during_use_is_left_quietly(prepared_dir: Path, tmp_path: Path) -> None:
    postgres = EmbeddedPostgres(prepared_dir, settings=FAST)
    postgres.start()
    moved = prepared_dir.rename(tmp_path / "trash")
    postgres.stop()
    wait_until(lambda: not find_processes(moved))
    assert not prepared_dir.exists()


@pytest.mark.parametrize(
    ("settings", "named"), [({"port": "1"}, "port"), ({"a b": "1"}, "'a b'"), ({"x;y": ""}, "'x;y'")]
)
def test_setting_that_would_open_the_server_is_refused(tmp_path: Path, settings: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        EmbeddedPostgres(tmp_path, settings=settings)


def test_data_dir_that_is_a_file_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"KB_DATA_DIR: cannot use .*file"):
        EmbeddedPostgres(tmp_path / "file").start()


@pytest.fixture
def start_recovery(prepared_dir: Path) -> Callable[..., EmbeddedPostgres]:
    """Prepare a cluster that stays in recovery until the file `go` appears in its folder."""

    def prepare(start_timeout: float = 600.0) -> EmbeddedPostgres:
        (prepared_dir / "postgres" / "recovery.signal").touch()
        waiting = "while [ ! -e go ]; do sleep 0.1; done; false"
        settings = {**FAST, "restore_command": waiting, "hot_standby": "off"}
        return EmbeddedPostgres(prepared_dir, settings=settings, start_timeout=start_timeout)

    return prepare


def read_password(data_dir: Path) -> str:
    return (data_dir / "postgres.password").read_text().strip()


def is_in_recovery(data_dir: Path) -> bool:
    pid_file = data_dir / "postgres" / "postmaster.pid"
    return pid_file.exists() and pid_file.read_text().splitlines()[7:] == ["starting"]


@pytest.mark.slow
def test_start_waits_through_a_recovery_of_more_than_ten_seconds(
    prepared_dir: Path, start_recovery: Callable[..., EmbeddedPostgres]
) -> None:
    # This takes 11 s on purpose: a limit of 10 s would end it.
    postgres = start_recovery()
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(postgres.start)
        try:
            wait_until(lambda: is_in_recovery(prepared_dir))
            socket_dir = read_state(prepared_dir)["socket_dir"]
            dsn = EmbeddedAddress(socket_dir, read_password(prepared_dir)).dsn()
            with pytest.raises(asyncpg.CannotConnectNowError):
                fetch_value(dsn, "select 1")
            time.sleep(10.5)
            assert not starting.done()
        finally:
            (prepared_dir / "postgres" / "go").touch()
        assert starting.result(60).dsn() == dsn
    assert fetch_value(dsn, "select n from kept") == 7
    postgres.stop()


@pytest.mark.slow
def test_recovery_beyond_the_time_limit_is_abandoned(
    prepared_dir: Path, start_recovery: Callable[..., EmbeddedPostgres]
) -> None:
    postgres = start_recovery(start_timeout=1.0)
    with pytest.raises(ConfigurationError, match=r"not ready after 1 s"):
        postgres.start()
    wait_until(lambda: not find_processes(prepared_dir))


@pytest.mark.slow
def test_postgres_that_dies_is_reported_with_its_log(prepared_dir: Path) -> None:
    postgres = EmbeddedPostgres(prepared_dir, settings={**FAST, "shared_preload_libraries": "no_such_library"})
    with pytest.raises(ConfigurationError) as caught:
        postgres.start()
    assert "no_such_library" in str(caught.value)
    assert str(prepared_dir / "postgres.log") in str(caught.value)
    assert "\n" not in str(caught.value)
    with EmbeddedPostgres(prepared_dir, settings=FAST) as repaired:
        assert fetch_value(repaired.start().dsn(), "select 1") == 1


@pytest.mark.slow
def test_cluster_of_another_version_is_refused_with_its_number(prepared_dir: Path) -> None:
    (prepared_dir / "postgres" / "PG_VERSION").write_text("12\n")
    with pytest.raises(ConfigurationError, match=r"created by Postgres 12, installed is 18"):
        EmbeddedPostgres(prepared_dir).start()


def test_folder_with_other_files_is_not_used_as_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "letter.txt").write_text("dear")
    with pytest.raises(ConfigurationError, match="has files but no database"):
        EmbeddedPostgres(tmp_path).start()
    assert [path.name for path in (tmp_path / "postgres").iterdir()] == ["letter.txt"]


def test_initdb_failure_is_reported_with_its_output(tmp_path: Path) -> None:
    binaries = tmp_path / "install" / "bin"
    binaries.mkdir(parents=True)
    (binaries.parent / "share").mkdir()
    (binaries.parent / "share" / "postgres.bki").touch()
    scripts = {"postgres": "echo postgres 18.6", "pg_config": "true", "initdb": "echo no space left; exit 1"}
    for name, line in scripts.items():
        (binaries / name).write_text(f"#!/bin/sh\n{line}\n")
        (binaries / name).chmod(0o755)
    with pytest.raises(ConfigurationError, match="initdb failed: no space left"):
        EmbeddedPostgres(tmp_path / "data", binaries=binaries).start()
    assert not list((tmp_path / "data").glob(".initdb-*"))

"""Start, join and leave: each data directory has one Postgres, which runs while any process uses it."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.embedded import EmbeddedPostgres
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

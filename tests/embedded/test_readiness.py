"""A start waits for the state that Postgres reports, and reports what went wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from app.embedded import EmbeddedAddress, EmbeddedPostgres
from app.errors import ConfigurationError
from tests.fixtures.embedded import FAST, fetch_value, find_processes, read_state, wait_until


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

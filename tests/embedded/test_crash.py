"""After any process is killed, no process is orphaned, the next start works, and nothing else is harmed."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from app.embedded import EmbeddedAddress
from app.embedded.data_folder import DataFolder
from app.embedded.processes import choose_account, find_binaries
from app.embedded.server import EmbeddedPostgres
from app.embedded.supervisor import RESTART_LIMIT, STEADY_SECONDS, Postmaster
from tests.fixtures.embedded import (
    FAST,
    UserProcess,
    crash,
    fetch_value,
    find_postmaster,
    find_processes,
    read_state,
    wait_until,
)


@pytest.fixture
def user(prepared_dir: Path) -> Iterator[UserProcess]:
    """A process that uses the data directory."""
    with UserProcess(prepared_dir) as user:
        user.read_dsn()
        yield user


def assert_starts_with_data(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir, settings=FAST) as postgres:
        assert fetch_value(postgres.start().dsn(), "select n from kept") == 7
    assert not find_processes(data_dir)


def test_killed_user_leaves_no_postgres(data_dir: Path, user: UserProcess) -> None:
    user.kill()
    wait_until(lambda: not find_processes(data_dir))
    assert_starts_with_data(data_dir)


def test_start_right_after_a_killed_user_keeps_the_data(data_dir: Path, user: UserProcess) -> None:
    user.kill()
    assert_starts_with_data(data_dir)


@pytest.mark.skipif(not psutil.LINUX, reason="only Linux ends a child with its parent; elsewhere the next start does")
@pytest.mark.slow
def test_killed_user_and_supervisor_leave_no_postgres(data_dir: Path, user: UserProcess) -> None:
    supervisor = psutil.Process(read_state(data_dir)["supervisor_pid"])
    user.kill()
    supervisor.kill()
    wait_until(lambda: not find_processes(data_dir))
    assert_starts_with_data(data_dir)


@pytest.mark.slow
def test_start_after_a_full_crash_recovers(data_dir: Path, user: UserProcess) -> None:
    crash(data_dir)
    user.kill()
    assert_starts_with_data(data_dir)


def kill_postmaster(data_dir: Path, address: EmbeddedAddress) -> None:
    killed = find_postmaster(data_dir)
    killed.kill()
    wait_until(lambda: read_state(data_dir)["postmaster_pid"] not in (0, killed.pid))
    assert fetch_value(address.dsn(), "select n from kept") == 7


def test_killed_postmaster_is_restarted_for_its_users(data_dir: Path, user: UserProcess) -> None:
    with EmbeddedPostgres(data_dir, settings=FAST) as postgres:
        address = postgres.start()
        kill_postmaster(data_dir, address)
        assert postgres.start() == address


@pytest.mark.slow
def test_postmaster_that_crashes_rarely_is_always_restarted(data_dir: Path, user: UserProcess) -> None:
    with EmbeddedPostgres(data_dir, settings=FAST) as postgres:
        address = postgres.start()
        for rest in (STEADY_SECONDS + 1, 0):
            for _ in range(RESTART_LIMIT - 1):
                kill_postmaster(data_dir, address)
            time.sleep(rest)


@pytest.mark.slow
def test_postmaster_that_crashes_repeatedly_is_abandoned_until_the_next_start(
    data_dir: Path, user: UserProcess
) -> None:
    with EmbeddedPostgres(data_dir, settings=FAST) as postgres:
        address = postgres.start()
        for _ in range(RESTART_LIMIT - 1):
            kill_postmaster(data_dir, address)
        supervisor = psutil.Process(read_state(data_dir)["supervisor_pid"])
        find_postmaster(data_dir).kill()
        wait_until(lambda: not supervisor.is_running())
        assert read_state(data_dir)["phase"] == "failed"
        assert f"{RESTART_LIMIT} times in a row" in read_state(data_dir)["problem"]
        assert fetch_value(postgres.start().dsn(), "select n from kept") == 7


@pytest.mark.slow
def test_start_revives_a_server_whose_supervisor_was_killed(data_dir: Path, user: UserProcess) -> None:
    with EmbeddedPostgres(data_dir, settings=FAST) as postgres:
        address = postgres.start()
        supervisor = psutil.Process(read_state(data_dir)["supervisor_pid"])
        supervisor.kill()
        wait_until(lambda: not supervisor.is_running())
        assert postgres.start() == address
        assert fetch_value(address.dsn(), "select n from kept") == 7


@pytest.mark.slow
def test_terminated_supervisor_shuts_postgres_down_cleanly(data_dir: Path, user: UserProcess) -> None:
    supervisor = psutil.Process(read_state(data_dir)["supervisor_pid"])
    supervisor.send_signal(signal.SIGINT)  # Ctrl-C is meant for the users
    supervisor.terminate()
    wait_until(lambda: read_state(data_dir)["phase"] == "stopped")
    assert not find_processes(data_dir)
    assert not (data_dir / "postgres" / "postmaster.pid").exists()
    user.kill()
    assert_starts_with_data(data_dir)


@pytest.mark.slow
def test_live_postmaster_without_a_supervisor_is_replaced(data_dir: Path, user: UserProcess) -> None:
    user.leave()
    folder, binaries = DataFolder(data_dir), find_binaries()
    stray = Postmaster(folder, choose_account(folder, binaries), binaries, FAST, data_dir / "postgres")
    try:
        wait_until(lambda: stray.is_ready)
        assert_starts_with_data(data_dir)
        assert not stray.is_alive
    finally:
        stray.stop()


@pytest.mark.slow
def test_pid_file_of_another_process_is_stale(data_dir: Path, user: UserProcess) -> None:
    socket_dir = Path(read_state(data_dir)["socket_dir"])
    owner = (data_dir / "postgres").stat().st_uid
    crash(data_dir)
    user.kill()
    # It belongs to the same user: Postgres itself trusts such a pid file and refuses to start.
    with subprocess.Popen(["sleep", "600"], user=owner) as bystander:
        try:
            for path in (data_dir / "postgres" / "postmaster.pid", socket_dir / ".s.PGSQL.5432.lock"):
                lines = path.read_text().splitlines()
                path.write_text("\n".join([str(bystander.pid), *lines[1:]]) + "\n")
            assert_starts_with_data(data_dir)
            assert bystander.poll() is None
        finally:
            bystander.kill()


@pytest.mark.slow
def test_pid_file_of_another_postgres_is_stale(data_dir: Path, user: UserProcess, tmp_path: Path) -> None:
    crash(data_dir)
    user.kill()
    with EmbeddedPostgres(tmp_path / "other", settings=FAST) as other:
        dsn = other.start().dsn()
        bystander = find_postmaster(tmp_path / "other")
        path = data_dir / "postgres" / "postmaster.pid"
        path.write_text("\n".join([str(bystander.pid), *path.read_text().splitlines()[1:]]) + "\n")
        assert_starts_with_data(data_dir)
        assert bystander.is_running()
        assert fetch_value(dsn, "select 1") == 1


@pytest.mark.parametrize("content", ["", "99999999\n\n\n\n\n\n\n\n\n"])
@pytest.mark.slow
def test_unreadable_pid_file_is_stale(data_dir: Path, user: UserProcess, content: str) -> None:
    crash(data_dir)
    user.kill()
    (data_dir / "postgres" / "postmaster.pid").write_text(content)
    assert_starts_with_data(data_dir)


@pytest.mark.slow
def test_killed_initdb_does_not_block_the_next_start(data_dir: Path) -> None:
    with UserProcess(data_dir) as user:
        wait_until(lambda: list(data_dir.glob(".initdb-*/cluster/base")))
        psutil.Process(read_state(data_dir)["supervisor_pid"]).kill()
        user.kill()
    assert not (data_dir / "postgres").exists()
    with EmbeddedPostgres(data_dir, settings=FAST) as postgres:
        assert fetch_value(postgres.start().dsn(), "select 1") == 1
        assert not list(data_dir.glob(".initdb-*"))

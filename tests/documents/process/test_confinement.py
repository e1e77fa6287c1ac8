"""A parser that is broken into reaches nothing: a payload runs in the real child, after the real confinement.

Each protection is also applied alone, because not every system has all of them. The payload without any protection
reaches everything, so that a protection that is removed makes a test fail.
"""

import json
import os
import pwd
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.documents.process import confinement, parsing
from app.documents.process.confinement import PROTECTIONS
from tests.documents.process.payload import PR_GET_DUMPABLE, REACHED, SECRET

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the payload makes Linux calls")

PROJECT = Path(__file__).parents[3]
IS_ROOT = os.geteuid() == 0
USERS = ("root", "ordinary")
PRIVILEGES = "no new privileges"

PARENT = {"environment", "memory by file", "memory by call", "ptrace"}
FILES = {"read the key", "read another user's file", "read a file", "read by openat2", "list a folder", "import"}
CHANGES = {"create a file", "write a file", "replace a file", "delete a file"}
NETWORK = {"TCP", "UDP", "Unix", "abstract Unix", "listen", "a pair of sockets"}
SIGNALS = {"signal", "signal by pidfd"}
PROCESSES = {"fork", "thread", "exec"}
ALWAYS_ABSENT = {"own descriptors", "own environment"}


@dataclass(frozen=True, slots=True)
class Alone:
    """The attempts that a protection stops without the others."""

    protection: str
    stops: frozenset[str]
    users: tuple[str, ...] = USERS
    needs: tuple[str, ...] = ()


def alone(protection: str, *stops: set[str], users: tuple[str, ...] = USERS, needs: tuple[str, ...] = ()) -> Alone:
    return Alone(protection, frozenset().union(*stops), users, needs)


EACH_ALONE = (
    alone(
        "own user",
        *(PARENT, CHANGES, SIGNALS, {"read the key", "read another user's file", "Unix", "root"}),
        {"limits of the service", "priority of the service"},
        users=("root",),
    ),
    alone("no capabilities", PARENT, {"priority of the service"}),
    alone("no capabilities", {"chroot"}, users=("root",)),
    alone("no capabilities", {"read another user's file"}, users=("ordinary",)),
    alone("no inspection", {"a dump"}),
    alone(PRIVILEGES, {"new privileges"}),
    alone("limits of resources", {"write a file", "more memory", "core dumps", "processor time"}),
    alone("limits of resources", PROCESSES, users=("ordinary",)),
    alone("limits of resources", PROCESSES, users=("root",), needs=("own user",)),
    alone("Landlock", *(PARENT, FILES, CHANGES, SIGNALS, {"TCP", "listen", "abstract Unix"}), needs=(PRIVILEGES,)),
    alone(
        "no new descriptors",
        *(FILES, NETWORK, {"create a file", "write a file", "signal by pidfd"}),
        {"environment", "memory by file", "io_uring", "file in memory"},
    ),
    alone(
        "filter of system calls",
        *(PARENT, FILES, CHANGES, NETWORK, SIGNALS, PROCESSES),
        {"look at a file", "limits of the service", "priority of the service", "exec in place", "io_uring"},
        {"file in memory", "shared memory", "machine code", "namespace"},
        needs=(PRIVILEGES,),
    ),
)


def require(user: str, protections: Sequence[str]) -> None:
    if user == "root" and not IS_ROOT:
        pytest.skip("the tests do not run as root")
    if user == "ordinary" and IS_ROOT and not shutil.which("setpriv"):
        pytest.skip("setpriv, which changes the user, is not installed")
    if user == "ordinary" and not IS_ROOT and "no capabilities" in protections:
        pytest.skip("the user of the tests has no capabilities to give up")
    if "Landlock" in protections and (gap := confinement.describe_gap(confinement.find_version())):
        pytest.skip(f"the kernel has no {gap}")
    if "filter of system calls" in protections and not confinement.is_supported():
        pytest.skip("the filter of system calls is not written for this machine")


def attack(
    folder: Path,
    user: str,
    protections: Sequence[str] | None = None,
    *,
    hidden: bool = False,
    unlimited: int | None = None,
) -> dict[str, str]:
    """Break into the parser of a service of `user`; returns the outcome of each attempt."""
    require(user, protections or ())
    open_place, private = folder / "open", folder / "private"
    folder.chmod(0o755)
    for place in (open_place, private):
        place.mkdir(mode=0o700)
    for name in ("existing", "deletable"):
        (open_place / name).touch()
    for name in ("key", "of-another"):
        (private / name).write_bytes(SECRET)
        (private / name).chmod(0o600)
    wrapper = []
    if IS_ROOT and user == "ordinary":
        account = pwd.getpwnam("nobody")
        for path in (open_place, private, private / "key"):
            os.chown(path, account.pw_uid, account.pw_gid)
        wrapper = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        # The interpreter can be in a folder that is closed to the user.
        wrapper += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    options = {
        "folder": str(open_place),
        "private": str(private),
        "hidden": hidden,
        "protections": protections,
        "unlimited": unlimited,
    }
    ended = subprocess.run(
        [*wrapper, sys.executable, "-B", "-m", "tests.documents.process.victim", json.dumps(options)],
        cwd=PROJECT,
        env={"SECRET": SECRET.decode(), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    outcome: dict[str, str] = json.loads(ended.stdout)
    return outcome


def reached(outcome: dict[str, str]) -> set[str]:
    return {name for name, result in outcome.items() if result == REACHED}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    # Folders of pytest are closed to other users.
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("user", USERS)
async def test_payload_reaches_nothing(folder: Path, user: str) -> None:
    if missing := await parsing.find_missing_protections():
        pytest.skip(f"this system has no {', '.join(missing)}")
    outcome = attack(folder, user, hidden=True)
    assert len(outcome) > 40
    assert reached(outcome) == set()


@pytest.mark.parametrize("user", USERS)
def test_payload_without_protections_reaches_everything(folder: Path, user: str) -> None:
    outcome = attack(folder, user, [])
    expected = set(outcome) - ALWAYS_ABSENT
    if user == "ordinary":
        expected -= {"root", "chroot"}
        if not IS_ROOT:
            expected -= {"read another user's file"}
    # These depend on the container and on Yama.
    optional = {"namespace", "io_uring", "ptrace", "memory by file", "memory by call", "shared memory"}
    assert expected - reached(outcome) <= optional


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("row", "user"),
    [pytest.param(row, user, id=f"{row.protection}-{user}") for row in EACH_ALONE for user in row.users],
)
def test_protection_holds_without_the_others(folder: Path, row: Alone, user: str) -> None:
    stops = set(row.stops)
    if user == "ordinary" and not IS_ROOT:
        stops -= {"read another user's file"}
    assert stops & reached(attack(folder, user, [*row.needs, row.protection])) == set()


def test_every_protection_is_tried_alone() -> None:
    assert {row.protection for row in EACH_ALONE} == PROTECTIONS.keys()


@pytest.mark.parametrize(
    ("limit", "attempt"),
    [
        (resource.RLIMIT_NPROC, "fork"),
        (resource.RLIMIT_FSIZE, "write a file"),
        (resource.RLIMIT_CORE, "core dumps"),
        (resource.RLIMIT_AS, "more memory"),
        (resource.RLIMIT_CPU, "processor time"),
    ],
)
def test_each_limit_stops_an_attempt(folder: Path, limit: int, attempt: str) -> None:
    outcome = attack(folder, "ordinary", ["limits of resources"], unlimited=limit)
    assert attempt in reached(outcome)


def test_hidden_service_keeps_its_secrets_from_its_own_user(folder: Path) -> None:
    assert reached(attack(folder, "ordinary", [], hidden=True)) & PARENT == set()


def test_command_that_reads_settings_hides_its_memory(tmp_path: Path) -> None:
    program = (
        "import ctypes; from app.cli.execution import read_settings; read_settings();"
        f"print(ctypes.CDLL(None).prctl({PR_GET_DUMPABLE}, 0, 0, 0, 0))"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert ended.stdout == "0\n", ended.stderr


@pytest.mark.usefixtures("old_kernel")
async def test_missing_protections_are_named() -> None:
    assert "Landlock for connections (Linux 6.7)" in await parsing.find_missing_protections()


@pytest.mark.usefixtures("broken_parser")
async def test_a_parser_that_does_not_run_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    await parsing.log_missing_protections()
    assert [record.__dict__["missing"] for record in caplog.records] == ["a parser that runs"]

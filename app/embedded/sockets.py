"""Advisory file locks, and the private folder of the server's Unix socket."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import socket
import stat
import tempfile
import time
from pathlib import Path

from app.embedded.data_folder import PORT, DataFolder
from app.embedded.processes import Account
from app.errors import ConfigurationError

POLL_SECONDS = 0.02


class FileLock:
    """One holder's handle on a lock file (flock): shared or exclusive, never both."""

    def __init__(self, folder: DataFolder, path: Path) -> None:
        self._descriptor = folder.open_private(path, os.O_RDWR)

    def try_shared(self, deadline: float = 0.0) -> bool:
        """Acquire the lock together with other shared holders; retry until `deadline` (monotonic seconds)."""
        return self._try(fcntl.LOCK_SH, deadline)

    def try_exclusive(self, deadline: float = 0.0) -> bool:
        """Acquire the lock exclusively; retry until `deadline` (monotonic seconds)."""
        return self._try(fcntl.LOCK_EX, deadline)

    def wait_exclusive(self) -> None:
        """Wait until no other process holds the lock, and acquire it exclusively."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def release(self) -> None:
        """Release the lock, including copies that a forked child inherited."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the lock and close the file."""
        if self._descriptor >= 0:
            self.release()
            os.close(self._descriptor)
            self._descriptor = -1

    def _try(self, operation: int, deadline: float) -> bool:
        while True:
            try:
                fcntl.flock(self._descriptor, operation | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(POLL_SECONDS)
            else:
                return True

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_locked(folder: DataFolder, path: Path) -> bool:
    """Return whether a process holds `path` exclusively."""
    with FileLock(folder, path) as lock:
        return not lock.try_shared()


LONGEST_SOCKET_PATH = 100
"""Bytes; the limits of the operating systems are 103 (macOS) and 107 (Linux)."""


def choose_socket_dir(folder: DataFolder, account: Account, previous: str) -> Path:
    """Return a folder that only `account` can access: `previous` if it belongs to this data directory. Raises
    ConfigurationError when no temporary folder has a path that is short enough."""
    prefix = f"kb-{hashlib.sha256(os.fsencode(folder.root)).hexdigest()[:10]}-"
    parents = [Path(name) for name in dict.fromkeys(("/tmp", tempfile.gettempdir(), "/var/tmp"))]  # noqa: S108  # the folder in it is private
    old = Path(previous)
    if old.parent in parents and old.name.startswith(prefix) and _claim(old, account):
        return old
    for parent in parents:
        try:
            made = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        except OSError:
            continue
        if len(os.fsencode(_name_socket(made))) + len(".lock") <= LONGEST_SOCKET_PATH:
            account.own(made)
            return made
        made.rmdir()
    raise ConfigurationError(
        None,
        f"the embedded Postgres needs a folder for its socket, but none of {', '.join(map(str, parents))} "
        "is writable and has a short path",
        "set TMPDIR",
    )


def can_connect(socket_dir: str) -> bool:
    """Return whether a server accepts connections on the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(5)
        try:
            client.connect(str(_name_socket(Path(socket_dir))))
        except OSError:
            return False
    return True


def remove_socket_dir(socket_dir: Path) -> None:
    """Remove the folder once Postgres has stopped."""
    with contextlib.suppress(OSError):
        for path in socket_dir.glob(".s.PGSQL.*"):
            path.unlink(missing_ok=True)
        socket_dir.rmdir()


def _claim(path: Path, account: Account) -> bool:
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        found = path.lstat()
        private = stat.S_IMODE(found.st_mode) & 0o077 == 0
        return stat.S_ISDIR(found.st_mode) and found.st_uid == account.uid and private
    except OSError:
        return False
    account.own(path)
    return True


def _name_socket(socket_dir: Path) -> Path:
    return socket_dir / f".s.PGSQL.{PORT}"

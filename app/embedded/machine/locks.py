"""Advisory file locks that the kernel releases however their holder ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from app.embedded.data_folder import DataFolder

POLL_SECONDS = 0.02


class FileLock:
    """One holder's handle on a lock file (flock): shared or exclusive, never both."""

    def __init__(self, folder: DataFolder, path: Path) -> None:
        self._descriptor = folder.open_private(path, os.O_RDWR)

    def try_shared(self) -> bool:
        """Take the lock beside other shared holders, if nobody has it exclusively."""
        return self._try(fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        """Take the lock alone, if nobody else has it."""
        return self._try(fcntl.LOCK_EX)

    def wait_shared(self, deadline: float) -> bool:
        """Try `try_shared` until `deadline` (monotonic seconds); say whether it was taken."""
        return _wait(self.try_shared, deadline)

    def wait_exclusive(self, deadline: float) -> bool:
        """Try `try_exclusive` until `deadline` (monotonic seconds); say whether it was taken."""
        return _wait(self.try_exclusive, deadline)

    def release(self) -> None:
        """Let go, also of copies that a forked child inherited."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go and close the file."""
        if self._descriptor >= 0:
            self.release()
            os.close(self._descriptor)
            self._descriptor = -1

    def _try(self, operation: int) -> bool:
        try:
            fcntl.flock(self._descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def __enter__(self) -> FileLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def is_locked(folder: DataFolder, path: Path) -> bool:
    """Say whether some process holds `path` exclusively."""
    with FileLock(folder, path) as lock:
        return not lock.try_shared()


def _wait(attempt: Callable[[], bool], deadline: float) -> bool:
    while not attempt():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True

"""Advisory file locks. The kernel releases them in every case when their holder ends."""

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
        """Acquire the lock together with other shared holders, unless another holder has it exclusively."""
        return self._try(fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        """Acquire the lock exclusively, unless another holder has it."""
        return self._try(fcntl.LOCK_EX)

    def wait_shared(self, deadline: float) -> bool:
        """Retry `try_shared` until `deadline` (monotonic seconds); return whether it succeeded."""
        return _wait(self.try_shared, deadline)

    def wait_exclusive(self, deadline: float) -> bool:
        """Retry `try_exclusive` until `deadline` (monotonic seconds); return whether it succeeded."""
        return _wait(self.try_exclusive, deadline)

    def release(self) -> None:
        """Release the lock, including copies that a forked child inherited."""
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the lock and close the file."""
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
    """Return whether a process holds `path` exclusively."""
    with FileLock(folder, path) as lock:
        return not lock.try_shared()


def _wait(attempt: Callable[[], bool], deadline: float) -> bool:
    while not attempt():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True

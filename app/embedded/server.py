"""The embedded Postgres, as one process uses it."""

import contextlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Self

from app.embedded.cluster import check_settings
from app.embedded.data_folder import DataFolder, EmbeddedAddress, Options, read_or_create_secret, read_state
from app.embedded.processes import find_binaries
from app.embedded.sockets import POLL_SECONDS, FileLock, can_connect, is_locked
from app.errors import ConfigurationError

logger = logging.getLogger("app.embedded")

NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
LAUNCH_SECONDS = 60.0
LAUNCH_ATTEMPTS = 3
STOP_SECONDS = 45.0
"""Slightly longer than the supervisor's time limit for stopping Postgres."""


class EmbeddedPostgres:
    """A share in the Postgres of a data directory, which runs while any share is held.

    Any number of processes may hold shares at the same time, and a process may hold several. The methods block:
    call them through `asyncio.to_thread` where that matters. `settings` (names and values of Postgres settings)
    and `binaries` (the folder of its programs) apply when this call starts the server, not when it joins one.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        settings: Mapping[str, str] = NO_SETTINGS,
        start_timeout: float = 600.0,
        binaries: Path | None = None,
    ) -> None:
        check_settings(settings)
        self._data_dir = data_dir
        self._settings = dict(settings)
        self._start_timeout = start_timeout
        self._binaries = binaries
        self._share: FileLock | None = None

    def start(self) -> EmbeddedAddress:
        """Start or join the server and wait until it is ready. After a crash that can take minutes.

        A repeated call is harmless and restarts a server that was killed. Raises ConfigurationError after
        `start_timeout` seconds, or as soon as the server has failed, with the last lines of its log.
        """
        deadline = time.monotonic() + self._start_timeout
        folder = DataFolder.create(self._data_dir)
        try:
            for _ in range(LAUNCH_ATTEMPTS):
                self._join(folder, deadline)
                if address := self._wait_until_ready(folder, deadline):
                    return address
            raise ConfigurationError(None, f"the embedded Postgres was stopped while it started: see {folder.log}")
        except PermissionError as error:
            self.stop()
            raise ConfigurationError(
                "KB_DATA_DIR",
                f"{error.filename or folder.root} belongs to another user",
                "start as that user, or set KB_DATA_DIR to another folder",
            ) from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Release the share; the last holder waits until Postgres has stopped. Bounded and repeatable."""
        if self._share is None:
            return
        share, self._share = self._share, None
        share.release()
        folder = DataFolder(self._data_dir.expanduser().resolve())
        deadline = time.monotonic() + STOP_SECONDS
        with share, contextlib.suppress(FileNotFoundError):  # the folder may have been deleted
            while is_locked(folder, folder.supervisor_lock):
                if share.try_exclusive():
                    share.release()  # no user is left, and the supervisor is about to notice
                elif share.try_shared():
                    return  # other users are still active
                if time.monotonic() >= deadline:
                    logger.warning("the embedded Postgres has not stopped yet")
                    return
                time.sleep(POLL_SECONDS)

    def _join(self, folder: DataFolder, deadline: float) -> None:
        """Acquire the share and make sure that a supervisor is running."""
        with FileLock(folder, folder.start_lock) as start_lock:
            taken = start_lock.try_exclusive(deadline)
            if taken and self._share is None:
                share = FileLock(folder, folder.users_lock)
                # Not available while the supervisor is stopping Postgres.
                if taken := share.try_shared(deadline):
                    self._share = share
                else:
                    share.close()
            if not taken:
                raise ConfigurationError("KB_DATA_DIR", f"{folder.root} is locked by another process")
            if not is_locked(folder, folder.supervisor_lock):
                self._launch(folder)

    def _launch(self, folder: DataFolder) -> None:
        binaries = self._binaries or find_binaries()
        options = Options(str(folder.root), str(binaries), self._settings, self._start_timeout)
        # -P: modules in the current folder are not imported.
        command = [sys.executable, "-P", "-m", "app.embedded.supervisor"]
        sources = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sources))}
        try:
            subprocess.run(  # noqa: S603  # this interpreter, without a shell
                command,
                input=json.dumps(asdict(options)),
                text=True,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
                timeout=LAUNCH_SECONDS,
                check=True,
            )
        except subprocess.SubprocessError as error:
            output = getattr(error, "stderr", "") or str(error)
            reason = output.strip().splitlines()[-1]
            raise ConfigurationError(None, f"the embedded Postgres could not be launched: {reason}") from error

    def _wait_until_ready(self, folder: DataFolder, deadline: float) -> EmbeddedAddress | None:
        """Return the address, or None when the supervisor has ended without reporting a failure."""
        while True:
            alive = is_locked(folder, folder.supervisor_lock)
            state = read_state(folder)
            if alive and state and state.phase == "ready" and can_connect(state.socket_dir):
                return EmbeddedAddress(state.socket_dir, read_or_create_secret(folder.password))
            if not alive:
                if state and state.phase == "failed":
                    raise ConfigurationError(state.setting, state.problem, state.remedy)
                return None
            if time.monotonic() >= deadline:
                raise ConfigurationError(
                    None, f"the embedded Postgres was not ready after {self._start_timeout:g} s: see {folder.log}"
                )
            time.sleep(POLL_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

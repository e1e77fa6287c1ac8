"""The running Postgres, a child process of the supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from app.embedded.configuration import build_arguments
from app.embedded.data_folder import DataFolder
from app.embedded.machine.account import Account
from app.embedded.machine.binaries import build_environment
from app.embedded.machine.processes import FAST_STOP_SECONDS, IMMEDIATE_STOP_SECONDS, read_pid_file

LARGEST_LOG_BYTES = 10 * 1024 * 1024


class Postmaster:
    """One run of the server. It ends with its parent, even if the parent is killed (Linux)."""

    def __init__(
        self,
        folder: DataFolder,
        account: Account,
        binaries: Path,
        settings: Mapping[str, str],
        socket_dir: Path,
    ) -> None:
        self._folder = folder
        if folder.log.exists() and folder.log.stat().st_size > LARGEST_LOG_BYTES:
            folder.log.replace(folder.log.with_name(folder.log.name + ".1"))
        log = folder.open_private(folder.log, os.O_WRONLY | os.O_APPEND)
        self._log_start = os.fstat(log).st_size
        try:
            self._process = subprocess.Popen(  # noqa: S603  # Postgres's own program, without a shell
                [binaries / "postgres", "-D", folder.cluster, *build_arguments(settings, socket_dir)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=build_environment(),
                cwd="/",
                preexec_fn=account.build_preparation(signal.SIGINT),
            )
        finally:
            os.close(log)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def is_ready(self) -> bool:
        """Whether it reports that it accepts connections; recovery before that can take any time."""
        pid_file = read_pid_file(self._folder.cluster)
        return pid_file is not None and pid_file.pid == self.pid and pid_file.status == "ready"

    def read_log_end(self, lines: int = 6) -> str:
        """Return the last lines of this run's log, joined into one line."""
        with self._folder.log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, file.tell() - 16_384))
            text = file.read().decode(errors="replace")
        return " | ".join(line.strip() for line in text.splitlines()[-lines:] if line.strip())

    def stop(self) -> None:
        """Shut down: in fast mode, then immediate mode, then by kill. Bounded."""
        steps = (
            (signal.SIGINT, FAST_STOP_SECONDS),
            (signal.SIGQUIT, IMMEDIATE_STOP_SECONDS),
            (signal.SIGKILL, IMMEDIATE_STOP_SECONDS),
        )
        for number, seconds in steps:
            self._process.send_signal(number)
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
            return

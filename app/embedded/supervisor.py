"""The process that runs Postgres while the data directory is in use."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from app.embedded.cluster import build_arguments, ensure_cluster
from app.embedded.data_folder import DataFolder, Options, Phase, State, read_state, write_state
from app.embedded.processes import (
    FAST_STOP_SECONDS,
    IMMEDIATE_STOP_SECONDS,
    Account,
    build_environment,
    choose_account,
    read_pid_file,
    remove_stale_files,
    stop_cluster_processes,
)
from app.embedded.sockets import FileLock, choose_socket_dir, remove_socket_dir
from app.errors import ConfigurationError

LARGEST_LOG_BYTES = 10 * 1024 * 1024


class Postmaster:
    """One run of the server. It ends with its parent, even if the parent is killed (Linux)."""

    def __init__(
        self, folder: DataFolder, account: Account, binaries: Path, settings: Mapping[str, str], socket_dir: Path
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


READY_AGAIN_SECONDS = 0.025
RESTART_LIMIT = 5
"""How many times in a row Postgres is restarted after it ended unexpectedly."""
STEADY_SECONDS = 60.0
"""A Postgres that has been ready for this long resets the count, so that one failure a day is tolerated."""
LEFTOVER_SECONDS = 15.0
"""How long to retry while the shared memory of a killed predecessor is still in use."""
LOCK_SECONDS = 5.0


class Supervisor:
    """Prepares the cluster, runs Postgres, and stops it when the last user has left."""

    def __init__(self, options: Options, folder: DataFolder, previous_socket_dir: str) -> None:
        self._options = options
        self._folder = folder
        self._binaries = Path(options.binaries)
        self._users = FileLock(folder, folder.users_lock)
        self._deadline = time.monotonic() + options.start_timeout
        self._socket_dir = Path(previous_socket_dir)
        self._asked_to_stop = False
        self._wake, self._waker = socket.socketpair()

    def run(self) -> None:
        """Run until all users have left. Raises ConfigurationError when Postgres cannot run."""
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        # Signals wake it, and so does the last user that leaves.
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        threading.Thread(target=self._await_users, daemon=True).start()
        signal.signal(signal.SIGTERM, self._ask_to_stop)
        for number in (signal.SIGINT, signal.SIGHUP):
            # The users' lock decides when to end. SIG_IGN would be inherited by Postgres.
            signal.signal(number, lambda *_: None)
        account = choose_account(self._folder, self._binaries)
        self._socket_dir = choose_socket_dir(self._folder, account, str(self._socket_dir))
        try:
            self._serve(account)
        finally:
            remove_socket_dir(self._socket_dir)
        self._report("stopped")

    def _serve(self, account: Account) -> None:
        folder, settings = self._folder, self._options.settings
        ended = 0
        while ended < RESTART_LIMIT:
            self._report("starting")
            stop_cluster_processes(folder.cluster)
            remove_stale_files(folder.cluster, self._socket_dir)
            ensure_cluster(folder, account, self._binaries, settings)
            if self._is_done():
                return
            postmaster = Postmaster(folder, account, self._binaries, settings, self._socket_dir)
            try:
                steady = self._attend(postmaster)
            finally:
                if postmaster.is_alive:
                    with contextlib.suppress(OSError):  # the folder may have been deleted
                        self._report("stopping", postmaster)
                    postmaster.stop()
            if self._is_done():
                return
            ended = 1 if steady else ended + 1
            self._deadline = time.monotonic() + self._options.start_timeout
        raise ConfigurationError(None, f"the embedded Postgres ended {RESTART_LIMIT} times in a row: see {folder.log}")

    def _attend(self, postmaster: Postmaster) -> bool:
        """Watch Postgres until there is no user left, or until it was ready and then ended by itself; return whether it
        had been ready for STEADY_SECONDS."""
        ready, since = False, time.monotonic()
        while not self._is_done():
            if not postmaster.is_alive:
                if ready or self._is_blocked_by_leftovers(postmaster):
                    return ready and time.monotonic() - since >= STEADY_SECONDS
                raise ConfigurationError(
                    None, f"the embedded Postgres did not start: {postmaster.read_log_end()} ({self._folder.log})"
                )
            if not ready and postmaster.is_ready:
                ready, since = True, time.monotonic()
                self._report("ready", postmaster)
            if not ready and time.monotonic() > self._deadline:
                raise ConfigurationError(
                    None,
                    f"the embedded Postgres was not ready after {self._options.start_timeout:g} s: "
                    f"{postmaster.read_log_end()} ({self._folder.log})",
                )
            self._wait(None if ready else READY_AGAIN_SECONDS)
        return True

    def _await_users(self) -> None:
        self._users.wait_exclusive()
        self._waker.send(b"\0")

    def _wait(self, seconds: float | None) -> None:
        """Wait for a signal, the end of Postgres or that of the last user, at most this long."""
        select.select([self._wake], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(4_096)

    def _is_done(self) -> bool:
        # Once acquired, the lock is kept: a user that arrives now waits until Postgres has stopped.
        return self._asked_to_stop or self._users.try_exclusive()

    def _is_blocked_by_leftovers(self, postmaster: Postmaster) -> bool:
        if "shared memory block" not in postmaster.read_log_end():
            return False
        time.sleep(LEFTOVER_SECONDS / RESTART_LIMIT)
        return True

    def _report(self, phase: Phase, postmaster: Postmaster | None = None) -> None:
        pid = postmaster.pid if postmaster else 0
        write_state(self._folder, State(phase, str(self._socket_dir), os.getpid(), pid))

    def _ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        self._asked_to_stop = True


def main() -> None:
    """Detach from the launching process, which gives the options as JSON on standard input, and supervise; return at
    once if a supervisor is already running."""
    options = Options(**json.loads(sys.stdin.read()))
    folder = DataFolder(Path(options.data_dir))
    lock = FileLock(folder, folder.supervisor_lock)
    if not lock.try_exclusive(time.monotonic() + LOCK_SECONDS):
        return
    previous = read_state(folder)
    socket_dir = previous.socket_dir if previous else ""
    write_state(folder, State("starting", socket_dir=socket_dir))
    if os.fork() != 0:
        os._exit(0)  # the child has inherited the lock
    os.chdir("/")
    log = folder.open_private(folder.supervisor_log, os.O_WRONLY | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)
    try:
        Supervisor(options, folder, socket_dir).run()
    except ConfigurationError as error:
        write_state(
            folder, State("failed", socket_dir, setting=error.setting, problem=error.problem, remedy=error.remedy)
        )
    except Exception as error:
        traceback.print_exc()
        problem = f"the embedded Postgres did not start: {error} ({folder.supervisor_log})"
        write_state(folder, State("failed", socket_dir, problem=" ".join(problem.split())))


if __name__ == "__main__":
    main()

"""A service of several processes: starts them, replaces those that end, and passes signals on."""

import contextlib
import gc
import logging
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from app.cli.execution import log_as_service, run_until_stopped
from app.cli.output.failures import log_failure, report_failure
from app.cli.serve.process import Listeners, describe_address, serve
from app.concurrency.memory import SharedMemory
from app.concurrency.part import Figures, Part
from app.errors import ConfigurationError
from app.kernel import die_with_parent
from app.settings import Settings
from app.telemetry.metrics import count_in, publish_process, share_counters

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


@dataclass(slots=True)
class Child:
    """One process. A replacement keeps the `number`; the `place` in the shared memory is its own."""

    pid: int
    number: int
    place: int
    started: float
    figures: Figures
    settings: Settings
    leaving: bool = False

    def send(self, number: int) -> None:
        """Send a signal; a process that has ended is reaped later."""
        os.kill(self.pid, number)


def fork(work: Callable[[], int], *, logs_failure: bool) -> int:
    """Run `work` in a new process, which ends with the status that it returns; returns the process id.

    If `work` fails, the reason is logged if `logs_failure`, and printed otherwise. The process dies with this one. A
    signal that a terminal sends to all of its processes reaches this one only. Raises OSError if the system has no room
    for another process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    # The child's collector would otherwise write to all pages that it shares with this process.
    gc.freeze()
    # Otherwise a signal that comes now would reach the handlers of this process in the child.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        pid = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        raise
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        return pid
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.setpgid(0, 0)
        die_with_parent(signal.SIGKILL, parent)
        status = work()
    except BaseException as error:
        status = log_failure(error) if logs_failure else report_failure(error, as_json=False)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


_PREFIX = "knowledge-metrics-"


@contextlib.contextmanager
def prepare_metrics() -> Iterator[None]:
    """Have the processes count in files that all of them read, in a folder that is removed at the end.

    Call it before the metrics are defined: before `import_modules`.
    """
    _remove_left_folders()
    folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
    try:
        share_counters()
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_left_folders() -> None:
    """Remove the folders of services that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(ValueError, OSError):
            if folder.stat().st_uid == os.getuid() and not psutil.pid_exists(int(folder.name.split("-")[2])):
                shutil.rmtree(folder)


def import_modules() -> None:
    """Import what every process needs, so that they share its memory."""
    # Its threads would not exist in the processes that are forked.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import app.cli.demo
    import app.cli.output.text
    import app.cli.serve.private
    import app.composition.demo
    import app.composition.identity
    import app.composition.services
    import app.main
    import app.web.server  # noqa: F401  # only loaded, as those above


log = logging.getLogger("app.cli.serve")

LOOK_SECONDS = 0.05
"""Interval between checks of processes while they start; at other times, this process only waits for signals."""

START_SECONDS = 120.0
"""A process that replaces another one must serve within this time."""

END_SECONDS = 30.0
"""Seconds after the drain, for the requests in progress and the last writes; then processes are killed."""

STEADY_SECONDS = 30.0
"""A process that served for so long is replaced at once when it ends; others after a growing pause."""

LONGEST_PAUSE_SECONDS = 30.0

FORK_PAUSE_SECONDS = 5.0
"""Pause when the system has no room for another process."""

PUBLISH_SECONDS = 5.0
"""Interval at which this process publishes its own figures."""


class Service:
    """Runs `processes` processes until a signal ends the service.

    SIGHUP replaces them one after another: the new one serves before the old one stops accepting connections.
    """

    def __init__(
        self,
        settings: Settings,
        read_settings: Callable[[], Settings],
        listeners: Listeners,
        processes: int,
        *,
        demo: bool,
    ) -> None:
        self._settings = settings
        """The settings of new processes."""
        self._proven = settings
        """The settings of processes that new settings have not replaced yet; a process has served with them."""
        self._read_settings = read_settings
        self._listeners = listeners
        self._processes: Final = processes
        # One more for a process that replaces another, and the last for this one.
        self._memory = SharedMemory(processes + 2)
        self._own = Part(self._memory, processes + 1, -1, processes)
        self._demo = demo
        self._terminal = [stream for stream in (0, 2) if os.isatty(stream)]
        self._children: dict[int, Child] = {}
        self._due: dict[int, float] = {}
        """When to start the processes that are missing, by number."""
        self._failures = 0
        self._no_fork_until = 0.0
        self._turn: list[int] = []
        """Numbers of the processes that are still to be replaced."""
        self._replacing: tuple[Child, Child] | None = None
        """The old and the new process."""
        self._proven_start = False
        """Whether a process has served, so that the settings are not the reason why another one does not."""
        self._serving = False
        self._status: int | None = None
        self._end = 0.0
        self._signals: list[int] = []
        self._ended_seconds = 0.0
        """Processor time of processes that have ended."""
        self._replaced = 0

    def run(self) -> int:
        """Serve; returns the exit status. Raises ConfigurationError."""
        if not self._demo:
            log_as_service(self._settings)
        with prepare_metrics(), self._catch_signals() as wake:
            import_modules()
            # The others start when the first one serves: a start that fails has one reason, and prints it once.
            try:
                self._start(0, self._settings)
            except OSError as error:
                raise ConfigurationError("KB_WORKERS", f"cannot start a process ({error.strerror})") from error
            while self._children or (self._status is None and self._due):
                self._wait(wake)
                for number in self._take_signals():
                    self._handle(number)
                self._reap()
                self._look_after()
                publish_process(self._own, self._ended_seconds, self._replaced)
        return self._status or 0

    @contextlib.contextmanager
    def _catch_signals(self) -> Iterator[socket.socket]:
        wake, waker = socket.socketpair()
        with wake, waker:
            wake.setblocking(False)
            waker.setblocking(False)
            signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
            numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
            before = {n: signal.signal(n, lambda number, _: self._signals.append(number)) for n in numbers}
            try:
                yield wake
            finally:
                signal.set_wakeup_fd(-1)
                for number, handler in before.items():
                    signal.signal(number, handler)

    def _wait(self, wake: socket.socket) -> None:
        waits = self._replacing or self._due or not self._serving or self._status is not None
        select.select([wake], [], [], LOOK_SECONDS if waits else PUBLISH_SECONDS)
        with contextlib.suppress(BlockingIOError):
            wake.recv(4_096)

    def _take_signals(self) -> list[int]:
        taken, self._signals = self._signals, []
        return [number for number in taken if number != signal.SIGCHLD]

    def _handle(self, number: int) -> None:
        if number != signal.SIGHUP:
            self._stop(number)
        elif not all(os.isatty(stream) for stream in self._terminal):
            self._stop(signal.SIGTERM)  # the terminal was closed
        elif self._status is None and self._serving:
            self._replace_all()

    def _stop(self, number: int, status: int = 0) -> None:
        """Pass the signal on: the processes drain at the first, and end at once at the second."""
        if self._status is None:
            self._status = status
            self._end = time.monotonic() + self._settings.server.drain_seconds + END_SECONDS
            self._due.clear()
            self._turn.clear()
            # Otherwise connections would wait for a process that accepts them.
            self._listeners.close()
        for child in self._children.values():
            child.send(number)

    def _replace_all(self) -> None:
        try:
            settings = self._read_settings()
        except Exception as error:
            log_as_service(self._settings)
            reason = error if isinstance(error, ConfigurationError) else type(error).__name__
            log.error("the processes are not replaced: %s", reason)
            return
        log_as_service(settings)
        self._settings = settings
        self._turn = list(range(self._processes))
        if self._replacing is not None and not self._replacing[0].leaving:
            # It may be waiting for something that the new settings corrected.
            self._replacing[1].send(signal.SIGKILL)
        log.info("replacing the processes", extra={"processes": self._processes})

    def _try_start(self, number: int, settings: Settings) -> Child | None:
        """Start a process; None if the system has no room for it now."""
        try:
            return self._start(number, settings)
        except OSError as error:
            self._no_fork_until = time.monotonic() + FORK_PAUSE_SECONDS
            seconds = round(FORK_PAUSE_SECONDS)
            log.error("cannot start a process now: %s", error.strerror, extra={"seconds": seconds})
            return None

    def _start(self, number: int, settings: Settings) -> Child:
        used = {child.place for child in self._children.values()}
        place = next(place for place in range(self._processes + 1) if place not in used)
        part = Part(self._memory, place, number, self._processes)
        demo = self._demo and number == 0

        def work() -> int:
            count_in(place)
            run_until_stopped(serve(settings, self._listeners, demo=demo, part=part))
            return 0

        pid = fork(work, logs_failure=self._proven_start)
        self._demo = self._demo and not demo
        child = Child(pid, number, place, time.monotonic(), part.figures(), settings)
        self._children[pid] = child
        return child

    def _reap(self) -> None:
        for child in list(self._children.values()):
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                self._ended_seconds += usage.ru_utime + usage.ru_stime
                del self._children[pid]
                served = child.figures.ready
                self._memory.clear(child.place)
                self._note_end(child, os.waitstatus_to_exitcode(status), served)

    def _note_end(self, child: Child, status: int, served: bool) -> None:
        if self._replacing is not None and child in self._replacing:
            old, _ = self._replacing
            self._replacing = None
            if child is old:
                return
            if not old.leaving:
                if child.settings is self._settings:
                    self._give_up_replacing(status)
                return
        if child.leaving or self._status is not None:
            return
        if not self._proven_start:  # it has printed the reason
            self._stop(signal.SIGTERM, status if status > 0 else 1)
            return
        steady = served and time.monotonic() - child.started > STEADY_SECONDS
        self._failures = 0 if steady else self._failures + 1
        pause = min(LONGEST_PAUSE_SECONDS, 2.0 ** (self._failures - 1)) if self._failures > 1 else 0.0
        self._replaced += 1
        self._due[child.number] = time.monotonic() + pause
        log.error(
            "a process ended and is replaced", extra={"pid": child.pid, "status": status, "seconds": round(pause)}
        )

    def _give_up_replacing(self, status: int) -> None:
        self._turn.clear()
        self._settings = self._proven
        log_as_service(self._settings)
        if self._status is None:
            # The new process has logged the reason.
            log.error("the processes are not replaced: a new one did not start", extra={"status": status})

    def _look_after(self) -> None:
        """Start due processes, and continue with work in progress."""
        now = time.monotonic()
        if self._status is not None:
            if now > self._end:
                for child in self._children.values():
                    child.send(signal.SIGKILL)
            return
        settings = self._proven if self._turn or self._replacing else self._settings
        for number in [number for number, due in self._due.items() if due <= now]:
            if now < self._no_fork_until or not self._try_start(number, settings):
                break
            del self._due[number]
        if not self._serving:
            self._start_others(now)
        elif self._replacing is not None:
            self._go_on_replacing(*self._replacing, now)
        elif self._turn and len(self._children) == self._processes and now >= self._no_fork_until:
            self._replace_next()

    def _replace_next(self) -> None:
        number = self._turn[0]
        old = next(c for c in self._children.values() if c.number == number and not c.leaving)
        if new := self._try_start(number, self._settings):
            del self._turn[0]
            self._replacing = old, new

    def _go_on_replacing(self, old: Child, new: Child, now: float) -> None:
        if new.figures.ready and not old.leaving:
            self._proven = new.settings
            old.leaving = True
            old.send(signal.SIGHUP)
            self._end = now + self._settings.server.drain_seconds + END_SECONDS
        elif old.leaving and now > self._end:
            old.send(signal.SIGKILL)
        elif not new.figures.ready and now - new.started > START_SECONDS:
            log.error("a new process did not serve in time", extra={"seconds": round(START_SECONDS)})
            new.send(signal.SIGKILL)

    def _start_others(self, now: float) -> None:
        if not all(child.figures.ready for child in self._children.values()):
            return
        self._proven_start = True
        present = {child.number for child in self._children.values()}
        missing = set(range(self._processes)) - present - self._due.keys()
        if missing and now >= self._no_fork_until:
            self._due |= dict.fromkeys(sorted(missing), now)
            return
        self._serving = True
        log_as_service(self._settings)
        server = self._settings.server
        address = describe_address(server.host, server.port)
        log.info("serving", extra={"address": address, "processes": len(self._children)})

"""The processes of a service, as the one that starts them sees them."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

from app.cli.output.failures import log_failure, report_failure
from app.concurrency.processes.figures import Figures
from app.kernel import die_with_parent
from app.settings import Settings

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


@dataclass(slots=True)
class Child:
    """One process; its `number` is that of the process that it replaces, its `place` in the shared memory its own."""

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

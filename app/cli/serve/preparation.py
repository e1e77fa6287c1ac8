"""Prepare a service once, before its processes start."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from app.telemetry.metrics import share_counters

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
    import app.cli.serve.server
    import app.composition.identity
    import app.composition.services
    import app.main  # noqa: F401  # only loaded, as those above

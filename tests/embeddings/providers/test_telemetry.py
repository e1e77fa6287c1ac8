"""The library that runs the local model sends no reports to its vendor."""

from __future__ import annotations

import subprocess
import sys

import pytest

_COUNT = "import app.embeddings.providers.local, os; print(len(os.listdir('/proc/self/task')))"


@pytest.mark.skipif(sys.platform != "linux", reason="threads are listed by Linux")
def test_onnxruntime_starts_no_thread_of_its_own() -> None:
    """Its reports come from a thread that it starts when it is imported."""
    alone = subprocess.run(
        [sys.executable, "-c", _COUNT],
        env={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert alone.stdout.strip() == "1"

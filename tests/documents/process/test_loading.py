"""What a parsing process loads: each file waits for it."""

from __future__ import annotations

import subprocess
import sys

from app.documents.formats import find_format

LATER = {"app.documents.ocr.recogniser", "app.documents.ocr.layout", "statistics", "pypdfium2"}


def test_process_for_plain_text_loads_no_text_recognition() -> None:
    """It loaded the layout of recognised lines and its libraries, a tenth of its start."""
    command = (
        f"import sys, app.documents.process.child, {find_format('text').reader.split(':')[0]}; "
        f"print(sorted({LATER} & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"

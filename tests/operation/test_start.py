"""What a start of the service does not load."""

import json
import subprocess
import sys

START = """
import json, sys
from app.main import create_app
from app.settings import Settings
create_app(Settings())
print(json.dumps(sorted(sys.modules)))
"""
CONSOLE = {"jinja2", "app.console.rendering", "app.console.routes"}
LIBRARIES = {
    "alembic",
    "fastembed",
    "fsspec",
    "google.genai",
    "onnxruntime",
    "openai",
    "pypdfium2",
    "python_calamine",
    "typer",
}
READERS = {"builder", "encodings", "tables", "text"}
"""Readers that tell the format of an upload; the others run in a process of their own."""


def test_a_start_loads_nothing_that_a_plain_search_does_not_need() -> None:
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert "app.knowledge.search.service" in loaded
    assert loaded & (CONSOLE | LIBRARIES) == set()
    assert {name.split(".")[3] for name in loaded if name.startswith("app.documents.readers.")} == READERS

"""`knowledge serve`, as a separate process."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from app.cli.serve.command import count_processes
from app.cli.serve.process import describe_address
from app.kernel import count_cores
from app.samples import QUERIES, load_entries
from app.settings import load_settings
from tests.cli.conftest import CommandLine, running
from tests.fixtures.embedded import find_processes, wait_until


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def read_until(process: subprocess.Popen[str], word: str, seconds: float = 90) -> str:
    """Its output on stdout up to the line with `word`."""
    assert process.stdout
    assert process.stderr
    errors: list[str] = []
    # A full pipe would block it.
    threading.Thread(target=lambda: errors.extend(process.stderr or ()), daemon=True).start()
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    text = ""
    try:
        while word not in text:
            line = process.stdout.readline()
            assert line, f"it ended early: {text}{''.join(errors)}"
            text += line
    finally:
        timer.cancel()
    return text


@pytest.fixture(params=["shared", pytest.param("empty", marks=pytest.mark.slow)])
def served(
    request: pytest.FixtureRequest, embedded: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path | None:
    """An embedded database with the mock model; or, with the default model, the path of a folder without a database."""
    if request.param == "shared":
        return None
    monkeypatch.setenv("KB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("EMBEDDING_PROVIDER", "local")
    return tmp_path / "data"


def test_demo_is_served_and_its_curl_line_finds_the_sample(embedded: CommandLine, served: Path | None) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    port = str(free_port())
    with running("serve", "--demo", "--port", port) as server:
        text = read_until(server, "/docs")
        (line,) = [line for line in text.splitlines() if line.startswith("curl ")]
        assert f"http://127.0.0.1:{port}/docs" in text
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
        hits = json.loads(done.stdout)["results"]
        assert len(hits) == 3
        expected = next(e for e in load_entries() if e.external_id == QUERIES[0].expected)
        assert expected.content in [hit["content"] for hit in hits]

        again = embedded("serve", "--port", port)
        assert (again.status, again.err.count("\n")) == (1, 1)
        assert again.err.startswith(f"error: KB_PORT: cannot listen on 127.0.0.1, port {port}")

        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=120) == 0
    if served is not None:
        wait_until(lambda: not find_processes(served))


def test_failed_start_is_one_line(knowledge: CommandLine) -> None:
    result = knowledge("serve", "--host", "203.0.113.7", "--port", str(free_port()))
    assert result.status == 1
    assert result.err.count("\n") == 1
    assert result.err.startswith("error: KB_PORT: cannot listen on 203.0.113.7")


@pytest.mark.parametrize(
    ("given", "processes"),
    [
        ({}, 1),
        ({"DATABASE_URL": "postgresql://kb_service@db/knowledge"}, min(4, count_cores())),
        ({"DATABASE_URL": "postgresql://kb_service@db/knowledge", "KB_WORKERS": "7"}, 7),
        ({"KB_WORKERS": "2"}, 2),
    ],
)
def test_processes_are_as_many_as_cores_up_to_four_and_one_with_an_embedded_database(
    given: dict[str, str], processes: int
) -> None:
    assert count_processes(load_settings({"JWT_SECRET": "s" * 32, **given}, None)) == processes


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),  # noqa: S104
        ("::", "http://[::1]:80"),
        ("knowledge.example", "http://knowledge.example:80"),
    ],
)
def test_address_is_one_that_a_caller_can_reach(host: str, address: str) -> None:
    assert describe_address(host, 80) == address

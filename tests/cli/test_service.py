"""The long-running commands, as processes of their own."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.samples import QUERIES, load_entries
from tests.cli.conftest import CommandLine, start_program
from tests.embedded.observation import find_processes, wait_until


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def running(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = start_program(*arguments, **environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], word: str, seconds: float = 90) -> str:
    """What it prints on stdout up to the line with `word`."""
    assert process.stdout
    assert process.stderr
    errors: list[str] = []
    # A full pipe would stop it.
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


@pytest.mark.usefixtures("clean_environment")
@pytest.mark.parametrize("provider", ["mock", pytest.param("local", marks=pytest.mark.slow)])
def test_demo_is_served_and_its_curl_line_finds_the_sample(tmp_path: Path, provider: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    data_dir, port = tmp_path / "data", str(free_port())
    with running(
        "serve", "--demo", "--port", port, KB_DATA_DIR=str(data_dir), EMBEDDING_PROVIDER=provider
    ) as server:
        text = read_until(server, "/docs")
        (line,) = [line for line in text.splitlines() if line.startswith("curl ")]
        assert f"http://127.0.0.1:{port}/docs" in text
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
        hits = json.loads(done.stdout)["results"]
        assert len(hits) == 3
        expected = next(e for e in load_entries() if e.external_id == QUERIES[0].expected)
        assert expected.content in [hit["content"] for hit in hits]

        again = start_program("serve", "--port", port, KB_DATA_DIR=str(data_dir))
        _, error = again.communicate(timeout=60)
        assert again.returncode == 1
        assert error.count("\n") == 1
        assert error.startswith(f"error: KB_PORT: cannot listen on 127.0.0.1, port {port}")

        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=45) == 0
    wait_until(lambda: not find_processes(data_dir))


def test_start_that_fails_is_one_line(knowledge: CommandLine) -> None:
    result = knowledge("serve", "--host", "203.0.113.7", "--port", str(free_port()))
    assert result.status == 1
    assert result.err.count("\n") == 1
    assert result.err.startswith("error: KB_PORT: cannot listen on 203.0.113.7")


def test_worker_makes_vectors_until_it_is_told_to_stop(
    knowledge: CommandLine, tenant: str, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text('{"content": "The lock opens at noon."}\n')
    knowledge.succeed("import", "a.jsonl", "-t", tenant, "--no-wait")

    def embedded() -> bool:
        found = knowledge.succeed(
            "search", "The lock opens at noon.", "-t", tenant, "--mode", "semantic", "--json"
        )
        return bool(found.json["results"])

    assert not embedded()
    with running("worker") as worker:
        wait_until(embedded)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=45) == 0


@pytest.mark.slow
def test_interrupted_ingest_goes_on_where_it_stopped(
    knowledge: CommandLine, tenant: str, tmp_path: Path
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for n in range(15):
        (folder / f"{n:02}.md").write_text(f"# Berth {n}\n\nBerth {n} is {n} metres wide.\n")
    with running("ingest", "many", "-t", tenant) as process:
        wait_until(lambda: "chunk" in knowledge("search", "berth", "-t", tenant, "--mode", "keyword").out)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=45)
        assert (process.returncode, error.splitlines()[-1]) == (130, "error: interrupted")
        assert "the same command goes on from here" in error
    result = knowledge.succeed("ingest", "many", "-t", tenant, "--json").json
    assert result["indexed"] > 0
    assert (result["indexed"] + result["unchanged"], result["failed"]) == (15, [])

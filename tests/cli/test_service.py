"""The long-running commands, as processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.samples import QUERIES, load_entries
from tests.cli.conftest import CommandLine, start_program
from tests.db.cluster import TestDatabase, connected
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


@pytest.fixture(params=["shared", pytest.param("empty", marks=pytest.mark.slow)])
def served(
    request: pytest.FixtureRequest, embedded: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path | None:
    """An embedded database with the mock model; or, with the default one, a folder without any, and its path."""
    if request.param == "shared":
        return None
    monkeypatch.setenv("KB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("EMBEDDING_PROVIDER", "local")
    return tmp_path / "data"


def test_demo_is_served_and_its_curl_line_finds_the_sample(
    embedded: CommandLine, served: Path | None
) -> None:
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
        assert server.wait(timeout=45) == 0
    if served is not None:
        wait_until(lambda: not find_processes(served))


def test_start_that_fails_is_one_line(knowledge: CommandLine) -> None:
    result = knowledge("serve", "--host", "203.0.113.7", "--port", str(free_port()))
    assert result.status == 1
    assert result.err.count("\n") == 1
    assert result.err.startswith("error: KB_PORT: cannot listen on 203.0.113.7")


def test_worker_makes_vectors_until_it_is_told_to_stop(
    knowledge: CommandLine, tenant: str, tmp_path: Path, cli_database: TestDatabase
) -> None:
    (tmp_path / "a.jsonl").write_text('{"content": "The lock opens at noon."}\n')
    knowledge.succeed("import", "a.jsonl", "-t", tenant, "--no-wait")
    over, vectors = threading.Event(), [0]

    async def watch() -> None:
        deadline = time.monotonic() + 60
        async with connected(cli_database.superuser_dsn) as superuser:
            while not vectors[0] and not over.wait(0.05) and time.monotonic() < deadline:
                vectors[0] = await superuser.fetchval(
                    "select count(*) from embeddings e join tenants t on t.id = e.tenant_id where t.slug = $1",
                    tenant,
                )
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    watcher = threading.Thread(target=lambda: asyncio.run(watch()), daemon=True)
    # Nothing made a vector yet; the worker, which handles signals by then, does, and is told to stop.
    watcher.start()
    try:
        knowledge.succeed("worker")
    finally:
        over.set()
        watcher.join()
    assert vectors == [1]


@pytest.mark.slow
def test_worker_is_a_process_that_ends_with_a_signal(knowledge: CommandLine) -> None:
    with running("worker", LOG_LEVEL="info", KB_LOG_FORMAT="json") as worker:
        assert worker.stderr
        assert any('"working"' in line for line in worker.stderr)
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

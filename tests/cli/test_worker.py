from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine, running
from tests.fixtures.database.cluster import TestDatabase, connected


@pytest.mark.usefixtures("broken_parser")
def test_worker_embeds_until_it_is_stopped(
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
    # No vector was stored yet; the worker, which handles signals by then, stores one and is then stopped.
    watcher.start()
    try:
        result = knowledge.succeed("worker")
    finally:
        over.set()
        watcher.join()
    assert vectors == [1]
    assert "parser less protected" in result.err


@pytest.mark.slow
def test_worker_process_ends_on_a_signal(knowledge: CommandLine) -> None:
    with running("worker", LOG_LEVEL="info", KB_LOG_FORMAT="json") as worker:
        assert worker.stderr
        assert any('"working"' in line for line in worker.stderr)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=120) == 0

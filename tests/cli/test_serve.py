"""knowledge serve, worker and demo."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from app.cli.demo import curl_line
from app.cli.serve.command import count_processes
from app.cli.serve.process import describe_address
from app.composition.demo import STILL_SECONDS, load_demo
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.entries import Entry, EntryDraft
from app.contract.search import SearchQuery
from app.db.principals import warn_of_unnamed_work
from app.kernel import count_cores
from app.samples import QUERIES, load_documents, load_entries
from app.settings import load_settings
from tests.cli.conftest import CommandLine, running
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.embedded import find_processes, wait_until
from tests.fixtures.providers.failing import FailingProvider


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
        assert again.err.endswith("with --port, or with KB_PORT before the command: KB_PORT=8001 make run\n")

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
                    "select count(*) from embeddings e join tenants t on t.id = e.tenant_id where t.slug = $1", tenant
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


async def read_entries(services: Services) -> dict[str | None, Entry]:
    tenant = await services.tenants.find("demo")
    page = await services.entries.list_entries(tenant.id, limit=200)
    return {entry.external_id: entry for entry in page.items if entry.asset_id is None}


async def test_demo_is_complete_and_its_relations_are_valid(services: Services) -> None:
    tenant = await load_demo(services)
    entries = await read_entries(services)
    names = {entry.id: entry.external_id for entry in entries.values()}
    assert entries.keys() == {sample.external_id for sample in load_entries()}
    for sample in load_entries():
        entry = entries[sample.external_id]
        assert (names[entry.parent_id] if entry.parent_id else None) == sample.parent
        assert (names[entry.superseded_by_id] if entry.superseded_by_id else None) == sample.superseded_by
        assert tuple(names[source] for source in entry.source_ids) == sample.sources
        assert entry.embedding_status == "ready"
    assets = (await services.assets.list_assets(tenant.id)).items
    assert {(asset.name, asset.status) for asset in assets} == {(d.name, "indexed") for d in load_documents()}
    found = await services.search.search(tenant.id, SearchQuery(query="backup", source="asset", mode="keyword"))
    assert len(found) > 0


async def test_demo_is_work_of_the_service(services: Services) -> None:
    """A first start does not warn of work that names no principal."""
    unnamed = warn_of_unnamed_work.cache_info().hits
    await load_demo(services)
    assert warn_of_unnamed_work.cache_info().hits == unnamed


@pytest.mark.slow
async def test_interrupted_demo_is_completed_and_a_complete_one_is_unchanged(services: Services) -> None:
    # The first start got only this far.
    await services.tenants.create(NewTenant("demo"), actor="test")
    tenant = await load_demo(services)
    entries = await read_entries(services)
    first, last = load_entries()[0].external_id, load_entries()[-1].external_id
    await services.entries.change(tenant.id, entries[first].id, EntryDraft(content="mine now"))
    await load_demo(services)
    assert (await read_entries(services))[first].content == "mine now"

    await services.entries.delete(tenant.id, entries[last].id)
    await load_demo(services)
    assert (await read_entries(services)).keys() == entries.keys()


@pytest.mark.slow
async def test_demo_does_not_wait_for_an_unavailable_provider_and_is_loaded_once(
    services: Services, failing_provider: FailingProvider
) -> None:
    failing_provider.down = True
    async with asyncio.timeout(STILL_SECONDS):
        tenant = await load_demo(services)
    entries = await read_entries(services)
    assert {entry.embedding_status for entry in entries.values()} == {"pending"}
    before = await services.administration.stats(tenant.id)
    assert before.assets_by_status == {"indexed": len(load_documents())}
    assert before.pending_embeddings == before.entries
    await load_demo(services)
    failing_provider.down = False
    assert await services.embedder.embed_all(tenant.id)
    after = await services.administration.stats(tenant.id)
    assert (after.entries, after.assets_by_status) == (before.entries, before.assets_by_status)
    assert after.pending_embeddings == 0


def test_curl_line_avoids_a_proxy_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert "--noproxy" not in curl_line("http://127.0.0.1:8000", "t")
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    assert "--noproxy '*' http://127.0.0.1:8000/knowledge/search" in curl_line("http://127.0.0.1:8000", "t")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert "--noproxy" not in curl_line("http://127.0.0.1:8000", "t")

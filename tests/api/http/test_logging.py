"""What requests leave in the logs: one line per search, and nothing that callers sent."""

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.auth.principal import Role
from app.composition.services import Services
from app.telemetry.logs import configure_logging
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import SECRET, Caller, make_token
from tests.fixtures.logs import restored_logging
from tests.fixtures.providers.failing import FailingProvider

STANDARD = {"timestamp", "level", "logger", "message", "request_id"}
FIELDS = {
    *("search_id", "tenant_id", "query_length", "result_count", "top_similarity", "embedding_ms"),
    *("semantic_ms", "keyword_ms", "fusion_ms", "reranking_ms", "query_time_ms", "waiting_ms"),
}


@pytest.fixture
def lines() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The records that the service would write at level debug."""
    with restored_logging():
        stream = io.StringIO()
        configure_logging("debug", json=True, stream=stream)
        yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


Lines = Callable[[], list[dict[str, Any]]]


async def test_a_search_logs_one_line_with_exactly_its_fields(admin: Caller, lines: Lines) -> None:
    await admin.add("The harbour opens at six")
    found = await admin.search("The harbour opens at six")
    (line,) = [entry for entry in lines() if entry["message"] == "search"]
    assert set(line) == STANDARD | FIELDS
    assert (line["level"], line["logger"]) == ("info", "app.knowledge.search")
    metadata = found["metadata"]
    for name in ("search_id", "embedding_ms", "semantic_ms", "keyword_ms", "fusion_ms", "query_time_ms", "waiting_ms"):
        assert line[name] == metadata[name]
    assert (line["tenant_id"], line["query_length"], line["result_count"]) == (str(admin.tenant_id), 24, 1)
    assert line["top_similarity"] == pytest.approx(found["results"][0]["similarity"], abs=1e-4)


async def test_a_search_logs_its_stages_at_debug(admin: Caller, lines: Lines) -> None:
    await admin.search("harbour")
    stages = [e for e in lines() if e["logger"] == "app.knowledge.search" and e["level"] == "debug"]
    assert len(stages) >= 2


async def test_a_search_without_similarities_logs_none(admin: Caller, lines: Lines) -> None:
    await admin.search("harbour", mode="keyword")
    (line,) = [entry for entry in lines() if entry["message"] == "search"]
    assert (line["top_similarity"], line["result_count"]) == (None, 0)


async def test_a_fallback_is_a_warning_with_the_attempts(
    admin: Caller, provider: FailingProvider, lines: Lines
) -> None:
    provider.down = True
    await admin.search("harbour")
    (line,) = [entry for entry in lines() if entry["level"] == "warning"]
    assert line["message"] == "mock unavailable, using keyword-only fallback"
    assert line["attempts"] == 3


async def test_each_line_carries_the_id_of_its_request(admin: Caller, lines: Lines) -> None:
    answer = await admin.post("/knowledge/search", {"query": "harbour"})
    ids = {entry["request_id"] for entry in lines() if entry["logger"] == "app.knowledge.search"}
    assert ids == {answer.headers["x-request-id"]}


async def test_background_log_lines_carry_no_request_id(
    admin: Caller, api_services: Services, api_database: TestDatabase, lines: Lines
) -> None:
    await admin.get("/admin/settings")  # so that the caller's roles are noted again below
    await api_services.journal.flush()
    async with connected(api_database.superuser_dsn) as superuser:
        await superuser.execute("alter table searches rename to lost; alter table saved_searches rename to lost_too")
        try:
            await admin.search("harbour", mode="keyword")
            other = replace(admin, token=make_token(admin.tenant_id, Role.READER, subject="rita"))
            await other.search("harbour", mode="keyword")
            await api_services.journal.flush()
            await api_services.subscriptions.close()
        finally:
            await superuser.execute(
                "alter table lost rename to searches; alter table lost_too rename to saved_searches"
            )
    written = [line for line in lines() if line["level"] == "warning"]
    assert {line["logger"] for line in written} == {"app.knowledge.search.journal", "app.knowledge.subscriptions"}
    assert [line for line in written if "request_id" in line] == []


async def test_a_refused_callers_tenant_is_logged(
    admin: Caller, reader: Caller, platform: Caller, lines: Lines
) -> None:
    await admin.patch("/admin/settings", {"limits": {"requests_per_minute": 2}})
    answers = [await reader.get("/admin/settings")]
    answers += [await reader.get("/knowledge/entries") for _ in range(2)]
    answers += [await reader.http.get("/knowledge/entries"), await platform.get("/knowledge/entries")]
    assert [answer.status_code for answer in answers] == [403, 200, 429, 401, 403]
    told = [line["tenant_id"] for line in lines() if line["message"] == "request"][-5:]
    assert told == [str(admin.tenant_id)] * 3 + [None] * 2


async def test_nothing_that_callers_send_reaches_the_logs(
    admin: Caller, provider: FailingProvider, work: Work, lines: Lines
) -> None:
    canary = "canary-bluebird"
    fields = {"title": canary, "tags": [canary], "metadata": {canary: canary}, "external_id": canary}
    entry = await admin.add(f"{canary} sings", **fields)
    path = f"/knowledge/entries/{entry['id']}"
    await admin.patch(path, {"content": f"{canary} sleeps"})
    await admin.post("/knowledge/entries/bulk", {"entries": [{"content": canary}, {"content": canary, "x": canary}]})
    await admin.upload(f"{canary}.txt", canary.encode(), "text/plain", metadata=json.dumps({canary: 1}))
    await admin.upload(f"{canary}.pdf", b"%PDF-1.4 " + canary.encode(), "application/pdf")
    await admin.upload(f"{canary}.png", b"\x89PNG" + canary.encode(), f"image/{canary}")
    await work()
    for down in (False, True):
        provider.down = down
        for mode in ("hybrid", "semantic", "keyword"):
            await admin.search(canary, mode=mode, explain=True, tags=[canary])
    await admin.post("/knowledge/search", {"query": canary, "limit": canary})
    await admin.post("/knowledge/search", {"query": canary, "cursor": canary})
    await admin.post("/knowledge/search", content=canary.encode())
    await admin.get("/knowledge/entries", params={"tag": canary, "external_id": canary})
    await admin.get(f"/knowledge/{canary}")
    await admin.http.get("/knowledge/entries", headers={"Authorization": f"Bearer {canary}"})
    await admin.patch("/admin/settings", {canary: canary})
    await admin.delete(path)
    written = lines()
    assert len(written) > 10
    for line in written:
        text = json.dumps(line)
        assert canary not in text
        assert admin.token not in text
        assert SECRET not in text

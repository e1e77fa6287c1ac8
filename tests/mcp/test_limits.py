"""Limits, budgets and transports."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import httpx
import httpx2
import pytest
from fastapi import FastAPI
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.contract.administration import NewTenant, Tenant
from app.contract.entries import EntryDraft
from app.contract.results import Hit, SearchMetadata, SearchResult
from app.contract.search import SCORE_WEIGHTS
from app.db.rows import new_id
from app.embeddings.provider import estimate_tokens
from app.knowledge.tenants.admission import REPORTS
from app.main import create_app
from app.mcp.answers.hits import answer_search
from app.mcp.answers.passages import cut_passage
from app.mcp.arguments import MIN_TOKEN_BUDGET
from app.mcp.endpoint import SMALL
from app.settings import Settings
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.http.expectations import allow, expect_refusal
from tests.fixtures.http.inspector import install_inspector
from tests.fixtures.http.mcp_client import HEADERS, READING, connect, fail, succeed
from tests.fixtures.http.serving import serve
from tests.mcp.calls import CALLS


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_requests_over_a_minutes_limit_are_problems_with_a_retry_time(
    app: FastAPI, admin: Caller, stranger: Caller, platform: Caller, mode: str
) -> None:
    async with connect(app, admin.token, mode) as client, connect(app, stranger.token, mode) as other:
        await succeed(client, "kb_search", query="harbour")
        await allow(platform, admin, requests_per_minute=1)
        await client.call_tool("kb_search", {"query": "harbour"})
        problem = await fail(client, "kb_search", 429, query="harbour")
        assert problem["limit"] == "requests_per_minute"
        assert 1 <= problem["retry_after"] <= 60
        with pytest.raises(MCPError, match="requests_per_minute"):
            await client.list_tools()
        await succeed(other, "kb_search", query="harbour")


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_large_message_over_the_limit_is_refused_before_it_is_read(
    admin: Caller, platform: Caller, chunked: bool
) -> None:
    await allow(platform, admin, requests_per_minute=1)
    await admin.get("/knowledge/entries")
    read = False

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        read = True
        yield b"{}"

    headers = dict(HEADERS)
    if not chunked:
        headers["Content-Length"] = str(SMALL + 1)
    expect_refusal(await admin.post("/mcp", content=body(), headers=headers), "requests_per_minute")
    assert not read


async def test_refused_messages_are_read_only_so_often(admin: Caller, stranger: Caller, platform: Caller) -> None:
    await allow(platform, admin, requests_per_minute=1)
    await admin.get("/knowledge/entries")
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "kb_search", "arguments": {"query": "harbour"}},
    }
    read = 0
    # Another message may be read each second, so a slow machine reads some more.
    while (answer := await admin.post("/mcp", message, headers=HEADERS)).status_code == 200:
        assert answer.json()["result"]["isError"] is True
        read += 1
        assert read < 3 * REPORTS
    assert read >= REPORTS
    expect_refusal(answer, "requests_per_minute")
    assert (await stranger.post("/mcp", message, headers=HEADERS)).json()["result"]["isError"] is False


async def test_a_quota_of_entries_applies_to_tools(app: FastAPI, admin: Caller, platform: Caller) -> None:
    await allow(platform, admin, entries=1)
    async with connect(app, admin.token) as client:
        await succeed(client, "kb_add", content="one")
        problem = await fail(client, "kb_add", 429, content="two")
        results, _ = await succeed(client, "kb_bulk_import", entries=[{"content": "three"}])
    assert problem["limit"] == "entries"
    assert results["results"][0]["status"] == "failed"


async def test_a_limited_callers_protocol_messages_still_need_a_token(
    http: httpx.AsyncClient, admin: Caller, platform: Caller
) -> None:
    await allow(platform, admin, requests_per_minute=1)
    for _ in range(3):
        answer = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert answer.status_code == 401


@pytest.mark.parametrize("given", ["1.5", "NaN", "null", "true", "[]", "{}", "1e400"])
async def test_a_request_whose_id_is_invalid_is_refused(admin: Caller, given: str) -> None:
    """The SDK would read it as a notification, and the caller would wait for an answer for ever."""
    message = f'{{"jsonrpc": "2.0", "id": {given}, "method": "tools/list"}}'
    answer = await admin.post("/mcp", content=message, headers=HEADERS)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"] == {"code": -32600, "message": "id: must be text or an integer"}
    notification = '{"jsonrpc": "2.0", "method": "notifications/initialized"}'
    assert (await admin.post("/mcp", content=notification, headers=HEADERS)).status_code == 202


WORDS = ("the", "harbour", "opens", "at six", "42", "boats", "wait:", "naïve", "größer", "KNOW-004", "crane")
NOW = datetime(2026, 1, 15, tzinfo=UTC)


def make_result(seed: int, hits: int = 10) -> SearchResult:
    chance = random.Random(seed)  # noqa: S311

    def text(words: int) -> str:
        return " ".join(chance.choice(WORDS) for _ in range(words))

    def make_hit(number: int) -> Hit:
        content = text(chance.choice([1, 5, 20, 80, 400, 3_000]))
        start = chance.randrange(len(content))
        return Hit(
            UUID(int=chance.getrandbits(128)), "fact", text(chance.choice([0, 3, 60])) or None, content,
            [text(1) for _ in range(chance.choice([0, 2, 30]))], ["all"], 1.0, "global", None, [], None, False,
            UUID(int=1) if chance.random() < 0.5 else None, None, {"page": 3}, text(20), 0, NOW, NOW,
            score=1 / (60 + number), similarity=0.5, keyword_score=2.0, sources=["semantic"],
            snippet=content[start : start + 240], snippet_start=start, snippet_end=min(len(content), start + 240),
            matched_terms=(), duplicates=0, group=None, validity=None, origin=None,
        )  # fmt: skip

    metadata = SearchMetadata(
        search_id=UUID(int=2), total=3 * hits, phrases=(), excluded=(), strong_match=False,
        fallback_mode=True, search_modes_used=["keyword"],
        degraded=["embedding_unavailable"], exact=True, pending=0, estimated_matches=hits, suggestions=[],
        relaxations=[], weights=SCORE_WEIGHTS, weights_from="default", reranked=False, next_cursor=None,
        query_time_ms=1, waiting_ms=0, embedding_ms=0, semantic_ms=0, keyword_ms=0, fusion_ms=0, reranking_ms=0,
    )  # fmt: skip
    return SearchResult([make_hit(number) for number in range(hits)], metadata, None, None)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("budget", [MIN_TOKEN_BUDGET, 250, 300, 500, 1_000, 2_000, 5_000])
@pytest.mark.parametrize("seed", range(25))
def test_a_budget_is_met_and_used_while_hits_remain(seed: int, budget: int) -> None:
    result = make_result(seed)
    answer = answer_search(result, budget)
    used, shown = answer.structured["budget"], answer.structured["results"]
    assert used["tokens"] == estimate_tokens(answer.text) <= budget
    assert shown, "the first hit always fits"
    assert shown[0]["content"].strip("…")
    assert [hit["id"] for hit in shown] + used["left_out"] == [str(hit.id) for hit in result]
    assert used["hits_left_out"] == len(used["left_out"])
    if used["left_out"]:
        # In the smallest budgets, the id of one more hit may be more than the rest.
        assert used["tokens"] >= min(0.85 * budget, budget - 41)
        assert f"{used['hits_left_out']} further hits are omitted" in answer.text
        assert "increase token_budget" in answer.text
    assert [hit["content_cut"] for hit in shown[:-1]] == [False] * (len(shown) - 1)


def test_a_cut_first_hit_shows_its_snippet() -> None:
    for seed in range(25):
        result = make_result(seed, 1)
        (hit,) = result
        answer = answer_search(result, 400)
        content = answer.structured["results"][0]["content"].strip("…")
        assert content in hit.content
        if len(content) > 300 and answer.structured["results"][0]["content_cut"]:
            assert hit.snippet[:100].strip() in content


@pytest.mark.parametrize("separator", [" ", "\n", " \n\t"])
def test_a_text_is_cut_between_words(separator: str) -> None:
    words = [f"word{number:04}" for number in range(500)]
    content = separator.join(words)
    for start in range(0, len(content), 397):
        for length in (50, 333):
            passage = cut_passage(content, (start, start + 20), length)
            text = passage.text.strip("…")
            assert passage.cut
            assert len(text) <= length
            assert set(text.split()[1:]) <= set(words)
            # The first word is a part only where the snippet starts in it.
            assert text.split()[0] in words or content[start:].startswith(text[:8])
    unbroken = cut_passage("東" * 1_000, (500, 520), 100)
    assert len(unbroken.text) == 102


def test_hits_that_are_left_out_are_listed_as_far_as_they_fit() -> None:
    result = make_result(3, 50)
    answer = answer_search(result, 1_000)
    left_out = answer.structured["budget"]["left_out"]
    listed = answer.text.rpartition("Omitted: ")[2].split() if "Omitted: " in answer.text else []
    assert listed == left_out[: len(listed)]


@pytest.mark.parametrize("budget", [None, 2_000])
def test_a_text_that_was_recognised_on_an_image_is_named_so(budget: int | None) -> None:
    for asset_id, metadata, named in (
        (UUID(int=1), {"ocr": True}, True),
        (UUID(int=1), {}, False),
        (None, {"ocr": True}, False),
    ):
        result = make_result(1, 1)
        hit = replace(result[0], asset_id=asset_id, metadata=metadata)
        answer = answer_search(replace(result, results=[hit]), budget)
        assert ("recognised on an image" in answer.text) == named


@pytest.fixture
def served(settings: Settings, api_services: Services, verifier: TokenVerifier) -> FastAPI:
    """A separate app, because a server starts and ends it."""
    return create_app(settings, api_services, verifier)


@pytest.mark.slow
async def test_ten_clients_at_once_each_find_their_own_tenants_knowledge(
    served: FastAPI, api_services: Services
) -> None:
    tenants = []
    for number in range(5):
        made = await api_services.tenants.create(NewTenant(f"m-{new_id().hex}", "Tests"), actor="test")
        await api_services.entries.create(made.id, EntryDraft(content=f"The harbour of tenant {number}"), actor="test")
        tenants.append(made)

    async def use(url: str, number: int) -> None:
        own = number % len(tenants)
        token = make_token(tenants[own].id, Role.READER, subject=f"client-{number}")
        mode = "legacy" if number >= len(tenants) else "auto"
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False) as http,
            Client(streamable_http_client(f"{url}/mcp?tools=all", http_client=http), mode=mode) as client,
        ):
            assert [tool.name for tool in (await client.list_tools()).tools] == READING
            answers = await asyncio.gather(*(succeed(client, "kb_search", query="harbour") for _ in range(3)))
        for found, _ in answers:
            assert [hit["content"] for hit in found["results"]] == [f"The harbour of tenant {own}"]

    async with serve(served) as url, asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(use(url, number))


@pytest.mark.slow
async def test_the_inspector_calls_every_tool_over_http(served: FastAPI, api_tenant: Tenant, tmp_path: Path) -> None:
    inspector = install_inspector(tmp_path)
    token = make_token(api_tenant.id, Role.TENANT_ADMIN)
    async with serve(served) as url:
        place = (f"{url}/mcp?tools=all", "--transport", "http", "--header", f"Authorization: Bearer {token}")
        for era in ("legacy", "modern"):
            assert await inspector.list_tools(*place, "--protocol-era", era) == list(CALLS)
        for name, (_, arguments, status) in CALLS.items():
            result = await inspector.call_tool(*place, name=name, arguments=arguments)
            assert result.get("isError", False) is (status is not None), (name, result)
            if status is not None:
                assert result["structuredContent"]["status"] == status
            refused = await inspector.call_tool(*place, name=name, arguments={**arguments, "x": 1})
            assert refused["structuredContent"]["errors"] == [{"field": "x", "message": "unknown field"}]


MESSAGE = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "%s", "arguments": %s}}'


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (r'{"content": "a \ud800"}', "params.arguments.content"),
        (r'{"content": "a \uDC00 b"}', "params.arguments.content"),
        (r'{"content": "a", "tags": ["b", "\ud800\u0041"]}', "params.arguments.tags.1"),
        (r'{"content": "a", "metadata": {"n": {"\ud800": 1}}}', "params.arguments.metadata.n"),
    ],
)
async def test_a_lone_surrogate_is_refused_with_its_field(admin: Caller, arguments: str, field: str) -> None:
    answer = await admin.post("/mcp", content=MESSAGE % ("kb_add", arguments), headers=HEADERS)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == f"{field}: must not contain lone surrogates"


async def test_pairs_of_surrogates_and_escaped_escapes_are_read(admin: Caller) -> None:
    arguments = r'{"content": "a \ud83d\ude00 \\ud800"}'
    answer = await admin.post("/mcp", content=MESSAGE % ("kb_add", arguments), headers=HEADERS)
    assert "isError" not in answer.json()["result"] or not answer.json()["result"]["isError"], answer.text

"""Requests to reranking servers in each form, and answers that are refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.errors import ConfigurationError, RerankerUnavailable
from app.reranking import Form, RerankerConfig, RerankServer, ResilientReranker, build_reranker
from app.resilience import CallPolicy, Timing
from tests.fixtures.clock import FakeClock
from tests.fixtures.providers.rerank_wire import RerankWire, encode_scores
from tests.fixtures.providers.wire import Reply, WireRequest

KEY = "sk-very-secret-key-0123456789"
QUERY = "order of routes"
TEXTS = ["Nothing about it", "The order of the routes in vercel.json", "Routes"]


def make_server(wire: RerankWire, form: Form = "cohere", timeout: float = 2.0) -> RerankServer:
    return RerankServer(f"{wire.url}/{form}/rerank", form, model="m1", api_key=KEY, timeout=timeout)


@pytest.mark.parametrize(
    ("form", "fields"),
    [
        ("cohere", {"model", "query", "documents", "top_n"}),
        ("jina", {"model", "query", "documents", "top_n", "return_documents"}),
        ("vllm", {"model", "query", "documents", "top_n", "truncate_prompt_tokens"}),
        ("tei", {"query", "texts", "truncate"}),
    ],
)
async def test_scores_are_in_the_order_of_the_texts_in_each_form(
    rerank_wire: RerankWire, form: Form, fields: set[str]
) -> None:
    server = make_server(rerank_wire, form)
    scores = await server.rerank(QUERY, TEXTS)
    await server.close()
    assert sorted(range(3), key=lambda at: -scores[at]) == [1, 2, 0]
    (request,) = rerank_wire.requests
    assert set(request.body) == fields
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body.get("top_n", 3) == 3


async def test_tei_gets_at_most_32_texts_in_a_request(rerank_wire: RerankWire) -> None:
    server = make_server(rerank_wire, "tei")
    texts = [" ".join(["routes"] * (at % 2) + [f"word{n}" for n in range(at)]) for at in range(70)]
    scores = await server.rerank("routes", texts)
    await server.close()
    assert sorted(len(r.body["texts"]) for r in rerank_wire.requests) == [6, 32, 32]
    assert max(range(70), key=lambda at: scores[at]) == 1


async def refused(server: RerankServer) -> RerankerUnavailable:
    with pytest.raises(RerankerUnavailable) as caught:
        await server.rerank(QUERY, TEXTS)
    await server.close()
    assert KEY not in str(caught.value)
    assert "routes" not in str(caught.value)
    return caught.value


def lying(*rows: tuple[Any, Any]) -> Callable[[WireRequest], bytes]:
    return lambda request: encode_scores(request, rows)


@pytest.mark.parametrize("form", ["cohere", "tei"])
@pytest.mark.parametrize(
    "rows",
    [
        ((0, 0.5), (1, 0.4)),
        ((0, 0.5), (1, 0.4), (1, 0.3)),
        ((0, 0.5), (1, 0.4), (3, 0.3)),
        ((0, 0.5), (1, 0.4), (-1, 0.3)),
        ((0, 0.5), (1, 0.4), (2, 0.3), (2, 0.3)),
        ((0, float("nan")), (1, 0.4), (2, 0.3)),
        ((0, float("inf")), (1, 0.4), (2, 0.3)),
        ((0, True), (1, 0.4), (2, 0.3)),
        ((False, 0.5), (1, 0.4), (2, 0.3)),
    ],
)
async def test_an_answer_without_one_finite_score_for_each_text_is_refused(
    rerank_wire: RerankWire, form: Form, rows: tuple[tuple[Any, Any], ...]
) -> None:
    rerank_wire.script = [Reply(body=lying(*rows))]
    error = await refused(make_server(rerank_wire, form))
    assert (error.reason, error.permanent) == ("malformed answer", True)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"results": null}',
        b'{"results": {"index": 0}}',
        b'{"results": [1, 2, 3]}',
        b'{"results": [{"index": 0, "relevance_score": "1"}, {"index": 1}, {"index": 2}]}',
        b'{"results": [{"index": 0, "score": 1e999}, {"index": 1, "score": 1}, {"index": 2, "score": 1}]}',
        b"<html>",
    ],
)
async def test_an_answer_of_another_form_is_refused(rerank_wire: RerankWire, body: bytes) -> None:
    rerank_wire.script = [Reply(body=body)]
    assert (await refused(make_server(rerank_wire))).reason == "malformed answer"


async def test_an_answer_over_the_size_is_refused(rerank_wire: RerankWire) -> None:
    rows = [{"index": at, "relevance_score": 0.5} for at in range(3)]
    rerank_wire.script = [Reply(body=json.dumps({"results": rows, "padding": " " * 100_000}).encode())]
    assert (await refused(make_server(rerank_wire))).reason == "malformed answer"


async def test_a_compressed_answer_is_refused(rerank_wire: RerankWire) -> None:
    rerank_wire.script = [Reply(body=b"x", headers={"Content-Encoding": "gzip"})]
    assert (await refused(make_server(rerank_wire))).reason == "malformed answer"
    assert rerank_wire.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("status", "reason", "permanent", "input_refused"),
    [
        (307, "refused (HTTP 307)", True, False),
        (401, "key rejected (HTTP 401)", True, False),
        (404, "no such model or address (HTTP 404)", True, False),
        (413, "input refused (HTTP 413)", True, True),
        (429, "rate limit reached (HTTP 429)", False, False),
        (500, "server error (HTTP 500)", False, False),
    ],
)
async def test_a_status_is_a_failure_and_no_redirect_is_followed(
    rerank_wire: RerankWire, status: int, reason: str, permanent: bool, input_refused: bool
) -> None:
    rerank_wire.script = [Reply(status, b"secret text", {"Location": "/elsewhere"})]
    error = await refused(make_server(rerank_wire))
    assert (error.reason, error.permanent, error.input_refused) == (reason, permanent, input_refused)
    assert len(rerank_wire.requests) == 1


async def test_a_silent_server_and_an_absent_one_are_failures(rerank_wire: RerankWire) -> None:
    rerank_wire.script = [Reply(silent=True)]
    assert (await refused(make_server(rerank_wire, timeout=0.05))).reason == "no answer in time"
    absent = RerankServer("http://127.0.0.1:9/rerank", "cohere", timeout=1)
    assert (await refused(absent)).reason == "not reachable"


async def test_a_failure_is_tried_again_and_the_circuit_opens_only_if_the_server_fails_on_any_text(
    rerank_wire: RerankWire,
) -> None:
    clock = FakeClock()
    policy = CallPolicy(attempts=3, failure_threshold=2)
    reranker = ResilientReranker(make_server(rerank_wire), 2.0, policy, Timing(clock, clock.sleep, lambda: 1.0))
    down = Reply(503)
    rerank_wire.script = [down, down]
    assert len(await reranker.rerank(QUERY, TEXTS)) == 3
    assert clock.slept == [0.2, 0.4]

    async def fail(*script: Reply) -> int:
        rerank_wire.script = list(script)
        with pytest.raises(RerankerUnavailable) as caught:
            await reranker.rerank(QUERY, TEXTS)
        return caught.value.attempts

    assert await fail(*[down] * 3) == 3
    assert await fail(*[down] * 3) == 3  # the fixed text gets scores
    assert reranker.circuit.state == "closed"
    assert await fail(*[down] * 3) == 3
    assert await fail(*[down] * 4) == 3
    assert await fail() == 0  # open
    assert await fail() == 0
    clock.advance(31)
    assert len(await reranker.rerank(QUERY, TEXTS)) == 3
    await reranker.close()


async def test_texts_that_are_refused_do_not_open_the_circuit(rerank_wire: RerankWire) -> None:
    reranker = ResilientReranker(make_server(rerank_wire), 2.0, CallPolicy(failure_threshold=1))
    for _ in range(3):
        rerank_wire.script = [Reply(422)]
        with pytest.raises(RerankerUnavailable):
            await reranker.rerank(QUERY, TEXTS)
    assert len(await reranker.rerank(QUERY, TEXTS)) == 3
    assert await reranker.rerank(QUERY, []) == ()
    await reranker.close()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"url": "ftp://127.0.0.1/rerank"}, "KB_RERANKER_URL: must start with http:// or https://"),
        ({"url": "http://127.0.0.1:8080"}, "KB_RERANKER_URL: must be the whole address of the endpoint"),
        ({"url": "http://127.0.0.1:8080/"}, "KB_RERANKER_URL: must be the whole address of the endpoint"),
        ({"api_key": "clé"}, "KB_RERANKER_API_KEY: must have printable ASCII characters only"),
        ({"api_key": "a\nb"}, "KB_RERANKER_API_KEY: must have printable ASCII characters only"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_in_one_line(changes: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build_reranker(RerankerConfig(**({"url": "http://127.0.0.1/rerank"} | changes)))  # type: ignore[arg-type]
    assert str(caught.value).startswith(line)
    assert "clé" not in str(caught.value)

"""Providers over HTTP: requests, answers and failures."""

import json
import logging
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest

from app.embeddings.provider import InputRefused, check_vectors
from app.embeddings.resilience import QueryCache
from app.errors import EmbeddingUnavailable
from app.resilience import parse_retry_after
from tests.embeddings.providers.wiring import KEY, build, fail_query
from tests.fixtures.providers.wire import DIMENSIONS, Reply, WireServer, encode_rows, serve_wire, vector_of


async def test_remote_query_is_normalised_and_complete(provider: QueryCache, wire: WireServer) -> None:
    vector = await provider.embed_query("a question")
    expected = np.array(vector_of("a question", DIMENSIONS)) / 3
    assert vector.dtype == np.float32
    assert vector.shape == (DIMENSIONS,)
    np.testing.assert_allclose(vector, expected, atol=1e-6)
    assert len(wire.requests) == 1


async def test_remote_documents_keep_their_order_across_batches(provider: QueryCache, wire: WireServer) -> None:
    texts = [f"text number {number}" for number in range(150)]
    vectors = await provider.embed_documents(texts)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(vector, np.array(vector_of(text, DIMENSIONS)) / 3, atol=1e-6)
    sizes = [len(request.texts) for request in wire.requests]
    assert sizes == ([128, 22] if provider.model.provider == "openai" else [100, 50])


async def test_remote_call_without_documents_sends_no_request(provider: QueryCache, wire: WireServer) -> None:
    assert await provider.embed_documents([]) == []
    assert wire.requests == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_remote_redirect_is_not_followed(provider: QueryCache, wire: WireServer, status: int) -> None:
    with serve_wire(DIMENSIONS) as elsewhere:
        for target in (elsewhere.url, wire.url):
            wire.script = [Reply(status, headers={"Location": f"{target}/elsewhere"})] * 9
            wire.requests.clear()
            await fail_query(provider)
            assert elsewhere.requests == []
            assert not [request for request in wire.requests if request.path == "/elsewhere"]


async def test_remote_rate_limit_is_retried_after_the_requested_wait(provider: QueryCache, wire: WireServer) -> None:
    wire.script = [Reply(429, headers={"Retry-After": "0.05"})]
    await provider.embed_query("a question")
    assert len(wire.requests) == 2


async def test_remote_rate_limit_beyond_the_budget_fails_at_once(provider: QueryCache, wire: WireServer) -> None:
    wire.script = [Reply(429, headers={"Retry-After": "30"})]
    failure = await fail_query(provider)
    assert (failure.attempts, failure.retry_after, failure.permanent) == (1, 30.0, False)
    assert len(wire.requests) == 1


async def test_remote_server_error_is_tried_three_times(provider: QueryCache, wire: WireServer) -> None:
    wire.script = [Reply(500, b"<html>secret</html>")] * 3
    failure = await fail_query(provider)
    assert (failure.attempts, failure.reason) == (3, "server error (HTTP 500)")
    assert len(wire.requests) == 3


async def test_remote_single_server_error_is_retried(provider: QueryCache, wire: WireServer) -> None:
    wire.script = [Reply(503), Reply(502)]
    await provider.embed_query("a question")
    assert len(wire.requests) == 3


async def test_remote_silent_server_ends_with_the_time_limit(kind: str, wire: WireServer) -> None:
    provider = build(kind, wire, query_timeout=0.3)
    wire.script = [Reply(silent=True)]
    failure = await fail_query(provider)
    assert failure.reason == "no answer within 0.3 s"
    assert (failure.attempts, failure.permanent) == (1, False)
    await provider.embed_query("another question")
    await provider.close()


async def test_remote_wrong_dimension_is_a_permanent_failure(provider: QueryCache, wire: WireServer) -> None:
    wire.script = [Reply(body=lambda request: encode_rows(request, [[1.0] * 5]))]
    failure = await fail_query(provider)
    assert failure.reason == "vectors of 5 dimensions instead of 16"
    assert (failure.attempts, failure.permanent) == (1, True)


@pytest.mark.sampled(2)
async def test_remote_wrong_count_is_refused(provider: QueryCache, wire: WireServer) -> None:
    wire.script = [Reply(body=lambda request: encode_rows(request, [[1.0] * DIMENSIONS] * 2))] * 3
    failure = await fail_query(provider)
    assert (failure.reason, failure.attempts) == ("2 vectors for 1 texts", 3)


MALFORMED = [
    b"",
    b"not json",
    b"[]",
    b"null",
    b'"text"',
    b'{"data": 7, "embeddings": 7}',
    b'{"data": [7], "embeddings": [7]}',
    b'{"data": [], "embeddings": []}',
    b'{"data": [{"index": 0, "embedding": null}], "embeddings": [{"values": null}]}',
    b'{"data": [{"index": 0, "embedding": "abc"}], "embeddings": [{"values": "abc"}]}',
]


@pytest.mark.sampled(2)
async def test_remote_malformed_body_is_refused(kind: str, wire: WireServer) -> None:
    provider = build(kind, wire, attempts=2, failure_threshold=100)
    wire.script = [Reply(body=body) for body in MALFORMED for _ in range(2)]
    for body in MALFORMED:
        failure = await fail_query(provider)
        assert failure.attempts == 2, body
        assert failure.reason in {"malformed answer", "0 vectors for 1 texts"}, body
    await provider.close()


def test_remote_rows_with_words_for_numbers_are_malformed() -> None:
    with pytest.raises(EmbeddingUnavailable, match="malformed"):
        check_vectors("openai", [["one", "two"]], 1, 2)


async def test_remote_vector_without_usable_length_is_refused(kind: str, wire: WireServer) -> None:
    provider = build(kind, wire, attempts=1, failure_threshold=100)
    for number in (float("nan"), float("inf"), 0.0, 1e308):
        row = [number] * DIMENSIONS
        wire.script = [Reply(body=lambda request, row=row: encode_rows(request, [row]))]  # type: ignore[misc]
        # NaN and infinity are not valid JSON, so a strict reader reports such a response as malformed.
        reason = (await fail_query(provider)).reason
        assert reason in {"vectors that are not finite or have no length", "malformed answer"}
    await provider.close()


@pytest.mark.parametrize("status", [401, 403])
async def test_remote_rejected_key_is_permanent_and_not_disclosed(
    provider: QueryCache, wire: WireServer, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}", "code": status}}).encode()
    wire.script = [Reply(status, body)]
    with caplog.at_level(logging.DEBUG):
        failure = await fail_query(provider)
    assert failure.reason == f"key rejected (HTTP {status})"
    assert (failure.attempts, failure.permanent) == (1, True)
    assert failure.__cause__ is None
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("app.")]
    assert not any(KEY in line for line in ours)


async def test_remote_refused_input_leaves_the_circuit_closed(provider: QueryCache, wire: WireServer) -> None:
    wire.script = [Reply(400, b'{"error": {"message": "too long", "code": 400}}')] * 6
    for _ in range(6):
        assert isinstance(await fail_query(provider), InputRefused)
    await provider.embed_query("a question")
    assert len(wire.requests) == 7


async def test_remote_unknown_model_is_permanent(provider: QueryCache, wire: WireServer) -> None:
    wire.script = [Reply(404)]
    failure = await fail_query(provider)
    assert (failure.attempts, failure.permanent) == (1, True)


async def test_remote_stopped_server_is_unavailable(kind: str) -> None:
    with serve_wire(DIMENSIONS) as wire:
        provider = build(kind, wire)
    failure = await fail_query(provider)
    assert (failure.reason, failure.attempts) == ("not reachable", 3)
    await provider.close()


def test_retry_after_is_read_in_all_its_formats() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert parse_retry_after({"retry-after": "7"}) == 7.0
    assert parse_retry_after({"retry-after-ms": "250", "retry-after": "1"}) == 0.25
    assert 90 < (parse_retry_after({"retry-after": soon}) or 0) <= 100
    assert parse_retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    for useless in ("", "soon", "nan", "-1", "inf"):
        assert parse_retry_after({"retry-after": useless}) is None
    assert parse_retry_after({}) is None


async def test_openai_request_has_the_documented_format(wire: WireServer) -> None:
    provider = build("openai", wire)
    await provider.embed_query("a question")
    request = wire.requests[0]
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "text-embedding-3-small",
        "input": ["a question"],
        "dimensions": DIMENSIONS,
        "encoding_format": "float",
    }
    await provider.close()


async def test_openai_sends_no_dimensions_to_other_models(wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    provider = build("openai", wire, model="nomic-embed-text", api_key=None)
    await provider.embed_query("a question")
    assert "dimensions" not in wire.requests[0].body
    assert wire.requests[0].body["model"] == "nomic-embed-text"
    assert KEY not in wire.requests[0].headers["authorization"]
    await provider.close()


async def test_openai_repeated_index_is_malformed(wire: WireServer) -> None:
    provider = build("openai", wire, attempts=1)
    item = {"index": 0, "embedding": [1.0] * DIMENSIONS}
    wire.script = [Reply(body=json.dumps({"data": [item, item]}).encode())]
    with pytest.raises(EmbeddingUnavailable, match="malformed"):
        await provider.embed_documents(["a", "b"])
    await provider.close()


async def test_gemini_request_has_the_documented_format(wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.genai", reason="the extra `gemini` is not installed")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_API_KEY", "another-key")
    provider = build("gemini", wire)
    await provider.embed_query("a question")
    await provider.embed_documents(["one", "two"])
    query, documents = wire.requests
    assert query.path == "/v1beta/models/gemini-embedding-001:batchEmbedContents"
    assert query.headers["x-goog-api-key"] == KEY
    assert [item["taskType"] for item in query.body["requests"]] == ["RETRIEVAL_QUERY"]
    assert [item["taskType"] for item in documents.body["requests"]] == ["RETRIEVAL_DOCUMENT"] * 2
    assert {item["outputDimensionality"] for item in documents.body["requests"]} == {DIMENSIONS}
    assert documents.texts == ["one", "two"]
    await provider.close()


async def test_gemini_other_models_return_one_vector_for_each_text(wire: WireServer) -> None:
    pytest.importorskip("google.genai", reason="the extra `gemini` is not installed")
    provider = build("gemini", wire, model="gemini-embedding-2")
    assert len(await provider.embed_documents(["one", "two", "three"])) == 3
    await provider.close()


async def test_gemini_invalid_key_is_distinguished_from_a_refused_input(wire: WireServer) -> None:
    pytest.importorskip("google.genai", reason="the extra `gemini` is not installed")
    provider = build("gemini", wire)
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
    error = {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT", "details": details}
    wire.script = [Reply(400, json.dumps({"error": error}).encode())]
    failure = await fail_query(provider)
    assert failure.permanent
    assert not isinstance(failure, InputRefused)
    assert failure.reason == "key rejected (HTTP 400)"
    await provider.close()


async def test_gemini_retry_delay_in_the_body_is_read(wire: WireServer) -> None:
    pytest.importorskip("google.genai", reason="the extra `gemini` is not installed")
    provider = build("gemini", wire)
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]
    error = {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED", "details": details}
    wire.script = [Reply(429, json.dumps({"error": error}).encode())]
    assert (await fail_query(provider)).retry_after == 34.5
    await provider.close()


_COUNT = "import app.embeddings.providers.local, os; print(len(os.listdir('/proc/self/task')))"


@pytest.mark.skipif(sys.platform != "linux", reason="threads are listed by Linux")
def test_onnxruntime_starts_no_thread_of_its_own() -> None:
    """Its reports come from a thread that it starts when it is imported."""
    alone = subprocess.run(
        [sys.executable, "-c", _COUNT],
        env={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert alone.stdout.strip() == "1"

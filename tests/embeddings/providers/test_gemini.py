"""What `gemini` sends, and the responses that only it can get."""

from __future__ import annotations

import json

import pytest

from app.embeddings.provider import InputRefused
from tests.embeddings.providers.wiring import KEY, build, fail_query
from tests.fixtures.providers.wire import DIMENSIONS, Reply, WireServer


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

"""What `openai` sends, and the responses that only it can get."""

from __future__ import annotations

import json

import pytest

from app.errors import EmbeddingUnavailable
from tests.embeddings.providers.wiring import KEY, build
from tests.fixtures.providers.wire import DIMENSIONS, Reply, WireServer


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

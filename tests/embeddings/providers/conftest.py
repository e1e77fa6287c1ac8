"""The two remote providers, connected to the scripted server."""

from collections.abc import AsyncIterator

import pytest

from app.embeddings.resilience import QueryCache
from tests.embeddings.providers.wiring import build
from tests.fixtures.providers.wire import WireServer


@pytest.fixture(params=["openai", "gemini"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "gemini":
        pytest.importorskip("google.genai", reason="the extra `gemini` is not installed")
    return str(request.param)


@pytest.fixture
async def provider(kind: str, wire: WireServer) -> AsyncIterator[QueryCache]:
    built = build(kind, wire)
    yield built
    await built.close()

"""Remote providers that call the scripted server."""

import pytest

from app.embeddings.factory import ProviderConfig, build_provider
from app.embeddings.resilience import QueryCache
from app.errors import EmbeddingUnavailable
from tests.fixtures.providers.wire import DIMENSIONS, WireServer

KEY = "sk-very-secret-key-0123456789"


def build(kind: str, wire: WireServer, **changes: object) -> QueryCache:
    address = wire.url + ("/v1" if kind == "openai" else "")
    options: dict[str, object] = {"kind": kind, "dimensions": DIMENSIONS, "api_key": KEY, "base_url": address}
    return build_provider(ProviderConfig(**(options | changes)))  # type: ignore[arg-type]


async def fail_query(provider: QueryCache) -> EmbeddingUnavailable:
    with pytest.raises(EmbeddingUnavailable) as caught:
        await provider.embed_query("where are the tenants kept apart?")
    assert KEY not in str(caught.value)
    assert "tenants" not in str(caught.value)
    return caught.value

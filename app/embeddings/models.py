"""The known models, their figures, and the dimensions that each offers."""

from __future__ import annotations

from dataclasses import dataclass

from app.embeddings.provider import EmbeddingModel
from app.errors import ConfigurationError

LOCAL, OPENAI, GEMINI, MOCK = "local", "openai", "gemini", "mock"
PROVIDERS = (LOCAL, OPENAI, GEMINI, MOCK)

MINILM = "all-MiniLM-L6-v2-int8"
E5 = "multilingual-e5-small"
HASH = "text-hash"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model's figures: `dimensions` is the default, and `fewest` to `most` is the range that can be requested."""

    dimensions: int
    fewest: int
    most: int
    max_tokens: int
    similarity_threshold: float


# Dimensions and token limits are the vendors' figures. The thresholds of MiniLM and E5 are measured (E5: 95 of
# 100 correct answers in xquad-de and scifact reach 0.815, and nine in ten pairs of unrelated subjects stay below
# 0.775). Those of the remote models are initial values, to be tuned. Unrelated vectors of the mock stay below 0.1,
# which is 2.8 standard deviations at 768 dimensions.
KNOWN: dict[str, dict[str, ModelFacts]] = {
    LOCAL: {
        MINILM: ModelFacts(384, 384, 384, 256, 0.3),
        E5: ModelFacts(384, 384, 384, 512, 0.78),
    },
    OPENAI: {
        "text-embedding-3-small": ModelFacts(1536, 1, 1536, 8191, 0.25),
        "text-embedding-3-large": ModelFacts(3072, 1, 3072, 8191, 0.25),
        "text-embedding-ada-002": ModelFacts(1536, 1536, 1536, 8191, 0.75),
    },
    GEMINI: {"gemini-embedding-001": ModelFacts(768, 1, 3072, 2048, 0.5)},
    MOCK: {HASH: ModelFacts(768, 1, 16_000, 512, 0.1)},
}
ALIASES = {"all-MiniLM-L6-v2": MINILM, "intfloat/multilingual-e5-small": E5}

# For other models: a token limit that most models support, and a low threshold.
UNKNOWN_MAX_TOKENS = 512
UNKNOWN_THRESHOLD = 0.25


def resolve_model(provider: str, name: str | None = None, dimensions: int | None = None) -> EmbeddingModel:
    """Complete a choice of model with its defaults, without loading it.

    Raises ConfigurationError for an unknown provider, an unknown local model, and dimensions that the model
    does not offer.
    """
    if provider not in PROVIDERS:
        raise ConfigurationError("EMBEDDING_PROVIDER", f"must be one of {', '.join(PROVIDERS)}")
    models = KNOWN[provider]
    name = ALIASES.get(name, name) if name else next(iter(models))
    facts = models.get(name)
    if facts is None:
        return _describe_unknown(provider, name, dimensions)
    if dimensions is not None and not facts.fewest <= dimensions <= facts.most:
        allowed = str(facts.most) if facts.fewest == facts.most else f"{facts.fewest} to {facts.most}"
        raise ConfigurationError(
            "EMBEDDING_DIMENSIONS",
            f"{name} has {allowed} dimensions, not {dimensions}",
            f"leave it empty for {facts.dimensions}",
        )
    return EmbeddingModel(provider, name, dimensions or facts.dimensions, facts.max_tokens, facts.similarity_threshold)


def _describe_unknown(provider: str, name: str, dimensions: int | None) -> EmbeddingModel:
    if provider in (LOCAL, MOCK):
        raise ConfigurationError(
            "EMBEDDING_MODEL",
            f"{provider} has no model {name!r}",
            f"choose {' or '.join(KNOWN[provider])}, or leave it empty",
        )
    if dimensions is None or dimensions < 1:
        raise ConfigurationError(
            "EMBEDDING_DIMENSIONS", f"not known for the model {name!r}", "set it to the length of its vectors"
        )
    return EmbeddingModel(provider, name, dimensions, UNKNOWN_MAX_TOKENS, UNKNOWN_THRESHOLD)

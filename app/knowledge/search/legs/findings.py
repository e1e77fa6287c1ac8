"""The hits of both legs of one search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.embeddings.provider import Vector
from app.errors import EmbeddingUnavailable
from app.knowledge.search.legs.embedding import QueryEmbedding
from app.knowledge.search.legs.keyword import KeywordHits
from app.knowledge.search.legs.semantic import SemanticHits
from app.knowledge.vocabulary import Leg


@dataclass(frozen=True, slots=True)
class Legs:
    """The query's embedding and the hits of both legs; None for a leg that did not run."""

    embedding: QueryEmbedding = field(default_factory=QueryEmbedding)
    semantic: SemanticHits | None = None
    keyword: KeywordHits | None = None

    @property
    def vector(self) -> Vector | None:
        """The query's vector, if it has one."""
        return self.embedding.vector

    @property
    def failure(self) -> EmbeddingUnavailable | None:
        """The provider's failure, if there was one."""
        return self.embedding.failure

    @property
    def searched(self) -> list[Leg]:
        """The legs that ran."""
        legs: Mapping[Leg, object] = {"semantic": self.semantic, "keyword": self.keyword}
        return [leg for leg, found in legs.items() if found is not None]

    @property
    def full_match(self) -> float:
        """BM25 score of an entry that matches the whole query; 0 without the leg or without entries with its words."""
        return self.keyword.full_match if self.keyword else 0.0

    @property
    def whole(self) -> bool:
        """Whether the query is an identifier that the entries of the keyword leg contain as a whole."""
        return self.keyword is not None and self.keyword.whole

    def words_sought(self, query: str) -> str:
        """The query, followed by the corrections of its misspelt words."""
        return " ".join((query, *self.keyword.corrections.values())) if self.keyword else query

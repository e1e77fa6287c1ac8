"""The hits of both legs of one search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.contract.vocabulary import Leg
from app.knowledge.search.legs.embedding import QueryEmbedding
from app.knowledge.search.legs.keyword import KeywordHits
from app.knowledge.search.legs.semantic import SemanticHits


@dataclass(frozen=True, slots=True)
class Legs:
    """The query's embedding and the hits of both legs; None for a leg that did not run.

    `pending` is the number of entries that the filter admits and that have no vector yet; 0 in mode `keyword`.
    """

    embedding: QueryEmbedding = field(default_factory=QueryEmbedding)
    semantic: SemanticHits | None = None
    keyword: KeywordHits | None = None
    pending: int = 0

    @property
    def compares_vectors(self) -> bool:
        """Whether the semantic leg ran, and not all entries that the filter admits are pending."""
        return self.semantic is not None and self.semantic.compared

    @property
    def searched(self) -> list[Leg]:
        """The legs that compared entries with the query."""
        ran: Mapping[Leg, bool] = {"semantic": self.compares_vectors, "keyword": self.keyword is not None}
        return [leg for leg, has_run in ran.items() if has_run]

    @property
    def is_semantic_only(self) -> bool:
        """Whether entries with a vector were not compared by their words."""
        return self.keyword is None or self.keyword.only_pending

    @property
    def exact(self) -> bool:
        """Whether every entry that the filter admits was compared in each leg that ran."""
        return (self.semantic is None or self.semantic.exact) and (self.keyword is None or self.keyword.complete)

    def is_truncated(self, wanted: int) -> bool:
        """Whether entries may match that no leg returned."""
        return (self.semantic is not None and self.semantic.is_cut(wanted)) or (
            self.keyword is not None and self.keyword.is_cut
        )

    @property
    def keyword_scale(self) -> float:
        """The BM25 score that counts as much as a cosine of 1 in score fusion; 0 if the keyword leg found nothing."""
        return self.keyword.scale if self.keyword else 0.0

    @property
    def whole(self) -> bool:
        """Whether the query is an identifier that the entries of the keyword leg contain as a whole."""
        return self.keyword is not None and self.keyword.whole

    def words_compared(self, query: str) -> str:
        """The query, followed by the corrections of its misspelt words."""
        return " ".join((query, *self.keyword.replacements.corrections.values())) if self.keyword else query

    @property
    def alternatives(self) -> Sequence[str]:
        """Queries for entries that have something in place of words of the query."""
        return self.keyword.alternatives if self.keyword else ()

    def words_sought(self, query: str) -> str:
        """The query, followed by the words that were searched for in place of its words."""
        return " ".join((query, *self.keyword.replacements)) if self.keyword else query

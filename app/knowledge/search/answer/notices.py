"""What keeps an answer from being complete, in sentences for people and language models."""

from __future__ import annotations

from collections.abc import Mapping

from app.db.queries.search.receipts import Receipt
from app.db.queries.search.vectors import MOST_PENDING
from app.knowledge.search.results import SearchMetadata

NOTICES: Mapping[str, str] = {
    "embedding_unavailable": "The embedding provider is unavailable: keyword search only.",
    "quota_exhausted": "The daily embedding tokens are used up: keyword search only, and no reranking.",
    "embeddings_pending": "Entries that have no vector yet: {pending}. They are found only by words; try again later.",
    "reranker_unavailable": "The reranker is unavailable: hits are in the order of their scores.",
    "ranking_truncated": "The ranked list ends here, but more entries match: use filters or a more precise query.",
}


def describe_degradation(metadata: SearchMetadata | Receipt) -> list[str]:
    """A sentence for each reason in `degraded`."""
    least = "at least " if metadata.pending >= MOST_PENDING else ""
    pending = f"{least}{metadata.pending:,}"
    return [NOTICES.get(reason, reason).format(pending=pending) for reason in metadata.degraded]

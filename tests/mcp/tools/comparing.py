"""Compares the answers of two equal searches."""

from typing import Any

TIMES = (
    "search_id",
    "next_cursor",
    "query_time_ms",
    "waiting_ms",
    "embedding_ms",
    "semantic_ms",
    "keyword_ms",
    "fusion_ms",
)


def without_times(answer: dict[str, Any]) -> dict[str, Any]:
    """What two equal searches have in common."""
    metadata = {name: value for name, value in answer["metadata"].items() if name not in TIMES}
    return answer | {"metadata": metadata}

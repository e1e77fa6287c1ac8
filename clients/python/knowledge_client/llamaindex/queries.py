"""LlamaIndex's queries of a vector store as searches of the service."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode, VectorStoreQueryResult

from knowledge_client.conditions import Condition
from knowledge_client.documents import Found, find
from knowledge_client.errors import KnowledgeError
from knowledge_client.exchange import Exchange
from knowledge_client.fields import SearchOptions
from knowledge_client.llamaindex.filters import read_filters
from knowledge_client.llamaindex.nodes import NODE, REF_DOC_ID, node_id_of, node_of
from knowledge_client.models import Hit

SEMANTIC = (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR)
KEYWORD = (VectorStoreQueryMode.SPARSE, VectorStoreQueryMode.TEXT_SEARCH)
HYBRID = (VectorStoreQueryMode.HYBRID,)

MMR_THRESHOLD = 0.5
"""LlamaIndex's own default."""

ANY_TEXT = "*"
"""The query of a search by a vector alone; it affects only the snippets."""


class ModeUnsupported(KnowledgeError, ValueError):
    """A query mode that the service does not have."""


@dataclasses.dataclass(frozen=True, slots=True)
class Search:
    """A search of the service: text, number of hits, options, and the name of the score of a hit."""

    text: str
    k: int
    options: SearchOptions
    score: str

    def run(self) -> Exchange[VectorStoreQueryResult]:
        """The nodes found, best first, with their scores."""
        return _show((yield from find(self.text, self.k, self.options)), self.score)


def read_query(query: VectorStoreQuery, given: Mapping[str, Any], own: SearchOptions) -> Search:
    """The search for a query; `own` are the store's options and `given` those of the call, which win.

    Raises ModeUnsupported, FilterUnsupported, and ValueError for a query without what its mode needs.
    """
    options: Any = {**own, **_read_mode(query, given), **_read_vector(query)}
    options |= {name: value for name, value in given.items() if name != "mmr_threshold"}
    conditions = [*_read_ids(query), read_filters(query.filters), options.get("filter")]
    terms = [condition for condition in conditions if condition is not None]
    options["filter"] = {"and": terms} if len(terms) > 1 else terms[0] if terms else None
    hybrid = query.mode in HYBRID
    k = query.hybrid_top_k if hybrid and query.hybrid_top_k else query.similarity_top_k
    score = "keyword_score" if query.mode in KEYWORD else "score" if hybrid else "similarity"
    return Search(query.query_str or ANY_TEXT, k, options, score)


def _read_mode(query: VectorStoreQuery, given: Mapping[str, Any]) -> dict[str, Any]:
    if query.mode in (*KEYWORD, *HYBRID) and not query.query_str:
        raise ValueError(f"query_str: the mode {query.mode.value} needs a text")
    if query.mode in KEYWORD:
        return {"mode": "keyword"}
    if query.mode in HYBRID:
        alpha = query.alpha
        return {"mode": "hybrid"} | ({} if alpha is None else {"weights": {"semantic": alpha, "keyword": 1 - alpha}})
    if query.mode not in SEMANTIC:
        known = ", ".join(mode.value for mode in (*SEMANTIC, *KEYWORD, *HYBRID))
        raise ModeUnsupported(f"mode: {query.mode.value} is not supported; use {known}")
    if not query.query_str and query.query_embedding is None:
        raise ValueError("query_str: a text or a query_embedding is needed")
    if query.mode is VectorStoreQueryMode.MMR:
        thresholds = (given.get("mmr_threshold"), query.mmr_threshold, MMR_THRESHOLD)
        return {"mode": "semantic", "diversity": 1 - next(t for t in thresholds if t is not None)}
    return {"mode": "semantic"}


def _read_vector(query: VectorStoreQuery) -> dict[str, Any]:
    if query.query_embedding is None or query.mode in KEYWORD:
        return {}
    return {"query_embedding": query.query_embedding}


def _read_ids(query: VectorStoreQuery) -> list[Condition]:
    """The conditions that a query's lists of ids make; an empty list makes none, as LlamaIndex's index expects."""
    conditions: list[Condition] = []
    if query.node_ids:
        conditions.append(_either(["external_id"], query.node_ids, "id"))
    if query.doc_ids:
        conditions.append(_either(["metadata", NODE, REF_DOC_ID], query.doc_ids, "asset_id"))
    return conditions


def _either(field: list[str], ids: Sequence[str], own: str) -> Condition:
    """A node that a store wrote, or an entry or asset of the service whose own id is meant."""
    own_ids = [one for one in ids if _is_uuid(one)]
    terms: list[Condition] = [{"field": field, "in": list(ids)}]
    return {"or": [*terms, {"field": own, "in": own_ids}]} if own_ids else terms[0]


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _show(found: Found, score: str) -> VectorStoreQueryResult:
    def score_of(hit: Hit) -> float:
        value: float | None = getattr(hit, score)
        return value or 0.0

    return VectorStoreQueryResult(
        nodes=[node_of(hit) for hit in found.hits],
        similarities=[score_of(hit) for hit in found.hits],
        ids=[node_id_of(hit) for hit in found.hits],
    )

"""The keyword leg: BM25 over the words of the query, and over those that misspelt ones are taken for."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.db.queries.search import search as db
from app.db.queries.search.search import KeywordMatches, KeywordQuery, LegHit
from app.db.session import TenantSession
from app.knowledge.search.plan import KEYWORD_POOL, Plan
from app.knowledge.search.query import is_identifier, quoted_phrases
from app.telemetry.tracing import span

log = logging.getLogger("app.knowledge.search")


@dataclass(frozen=True, slots=True)
class KeywordHits:
    """What the leg found, best first, and how.

    Attributes:
        matches: entries with one of the words, an approximate, capped count.
        full_match: BM25 of an entry that covers the whole query.
        whole: whether the query is an identifier, which these entries have as a whole.
        corrections: misspelt words of the query, each with the word that it was taken for.
    """

    hits: Sequence[LegHit]
    matches: int
    full_match: float
    whole: bool
    corrections: Mapping[str, str]
    seconds: float


async def search_words(session: TenantSession, plan: Plan) -> KeywordHits:
    """The entries whose words match the query's best."""
    started = time.perf_counter()
    text = plan.query.query
    pool = max(KEYWORD_POOL, 2 * plan.wanted)
    asked = KeywordQuery(
        text, plan.entry_filter, plan.wanted, plan.keyword_budget, pool, phrases=quoted_phrases(text)
    )
    found = KeywordMatches([])
    corrections: Mapping[str, str] = {}
    with span("keyword") as seen:
        if is_identifier(text):
            # Entries that have it whole; those with a part of it only where there are none.
            found = await db.match_words(session, replace(asked, whole=True))
        whole = bool(found.hits)
        if not whole:
            found = await db.match_words(session, asked)
        if not found.hits or 2 * len(found.unknown or ()) >= len(text.split()):
            # Half of the words or more are in no entry: they may be misspelt.
            corrections = await db.similar_lexemes(session, text, found.unknown)
            if corrections:
                corrected = replace(asked, corrections=tuple(corrections.values()))
                found = await db.match_words(session, corrected)
        seen.set(hits=len(found.hits), matches=found.total)
    log.debug("keyword leg: %d entries of %d", len(found.hits), found.total)
    seconds = time.perf_counter() - started
    return KeywordHits(found.hits, found.total, found.full_match, whole, corrections, seconds)

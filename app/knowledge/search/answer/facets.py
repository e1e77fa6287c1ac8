"""Facets of an answer; and for an empty or incomplete one, what to search for instead, and the reasons."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from app.contract.results import Facet, FacetValue, Relaxation
from app.contract.search import METADATA_FACET
from app.db.queries import search as db
from app.db.queries import vectors
from app.db.queries.search import CountedValue, KeywordQuery, MatchQuery, filtered_ids, match_words
from app.db.session import TenantSession
from app.embeddings.provider import Vector
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.legs.keyword import search_words
from app.knowledge.search.legs.semantic import margin, search_vectors
from app.knowledge.search.plan import Plan
from app.knowledge.search.ranking import join_legs
from app.knowledge.words import find_words, is_run, remove_runs, spell

MOST_MATCHES = 20_000
"""Most entries that match by their words and are counted; reading more would take too long."""

MOST_PASSAGES = 200_000
"""Passages of a tenant that are all compared with the query; in a larger one, facets count the nearest entries."""

NEAREST = 1_000
"""Entries that the index finds in such a tenant."""

MOST_VALUES = 50
LONGEST_VALUE = 200
"""Values of a facet in the answer, and the characters of one; the others are counted together."""


async def count_facets(session: TenantSession, plan: Plan, legs: Legs) -> Mapping[str, Facet]:
    """Count the values of the fields that the search asks for, among all of its matches.

    A match passes the filters, and has one of the query's words or reaches the similarity threshold, in the legs that
    ran. The counts are exact if every entry that passes the filters was compared, else lower bounds.
    """
    wanted = plan.query.facets
    query, nothing_cut = await _describe_matches(session, plan, legs)
    rows = await db.count_values(
        session,
        plan.tenant.space,
        query,
        [name for name in wanted if not name.startswith(METADATA_FACET)],
        [name.removeprefix(METADATA_FACET) for name in wanted if name.startswith(METADATA_FACET)],
        most=MOST_MATCHES,
        values=MOST_VALUES,
        longest=LONGEST_VALUE,
    )
    exact = nothing_cut and all(row.complete for row in rows)
    return {name: _make_facet([row for row in rows if row.name == name], exact) for name in wanted}


async def _describe_matches(session: TenantSession, plan: Plan, legs: Legs) -> tuple[MatchQuery, bool]:
    """What makes an entry a match, and whether all entries that pass the filter are compared with it."""
    tenant, vector = plan.tenant, legs.embedding.vector
    near: list[UUID] = []
    exact = legs.semantic is None or not legs.pending
    ids = None
    many = legs.semantic is not None and legs.semantic.strategy == "indexed"
    if plan.is_selective and not many:
        found = await filtered_ids(session, plan.entry_filter, plan.exact_limit + 1)
        ids = found if len(found) <= plan.exact_limit else None
    max_distance = margin(plan.threshold)
    if vector is not None and ids is None and tenant.passages > MOST_PASSAGES:
        wanted = vectors.Nearest(tenant.space, vector, max_distance, plan.entry_filter, NEAREST)
        found_near = await vectors.indexed(session, wanted)
        own = legs.semantic.hits if legs.semantic is not None else ()
        near, vector, exact = [hit.entry_id for hit in (*own, *found_near.hits)], None, False
    text = plan.query.query if legs.keyword is not None else None
    return (
        MatchQuery(
            text,
            "" if legs.whole else legs.words_compared(plan.query.query),
            vector,
            max_distance,
            plan.entry_filter,
            ids,
            near,
            alternatives=legs.alternatives,
            pending_only=legs.keyword is not None and legs.keyword.only_pending,
        ),
        exact,
    )


def _make_facet(rows: Sequence[CountedValue], exact: bool) -> Facet:
    values = [FacetValue(row.value, row.count) for row in rows if row.kind == "value" and row.value is not None]
    counts = {row.kind: row.count for row in rows}
    return Facet(
        sorted(values, key=lambda v: (-v.count, str(v.value))), counts.get("other", 0), counts.get("missing", 0), exact
    )


SUGGESTIONS = 5
LEAST_LIKENESS = 0.3
"""Trigram similarity that a suggestion must exceed; the default of pg_trgm."""

SUGGESTED_WORDS = 3
"""Most suggestions that come from words instead of tags; each requires a search for an entry with the word."""

COMPARED_TAGS = 12
"""Most tags that are tried as queries under the filter of the search; each is a keyword search of 2 ms."""

COMPARED_WORDS = 5
"""Most words of the query that are compared with the tenant's tags."""

COMPARED_CHARACTERS = 1_000


async def suggest(session: TenantSession, plan: Plan) -> list[str]:
    """Suggest tags and words of the tenant that resemble the query's words, most similar first, then its top tags.

    Each word occurs in an entry that passes the search's filters, and is spelt as in that entry. With a filter, the
    words of a suggested tag do too.
    """
    query = plan.query.query
    text = query[:COMPARED_CHARACTERS]
    words = list(dict.fromkeys(word for word in find_words(text.lower()) if len(word) > 2 or is_run(word)))
    # One more than needed, because a tag may equal the query.
    most = SUGGESTIONS + 1 if plan.entry_filter.is_open else COMPARED_TAGS
    tags = await db.suggest_tags(session, words[:COMPARED_WORDS], LEAST_LIKENESS, most)
    lexemes = await db.suggest_lexemes(session, remove_runs(text), plan.entry_filter, LEAST_LIKENESS, SUGGESTED_WORDS)
    found = [(row.likeness or 0.0, row.tag) for row in tags]
    for row in lexemes:
        word = spell(row.lexeme, row.language, f"{row.title or ''} {row.content}")
        if word is not None:
            found.append((row.likeness, word))
    found.sort(key=lambda pair: -pair[0])
    unique: dict[str, str] = {}
    for _, suggestion in found:
        unique.setdefault(suggestion.lower(), suggestion)
    unique.pop(query.lower(), None)
    if plan.entry_filter.is_open:
        return list(unique.values())[:SUGGESTIONS]
    useful: list[str] = []
    for suggestion in unique.values():
        if len(useful) < SUGGESTIONS:
            asked = KeywordQuery(suggestion, plan.entry_filter, 1, plan.keyword_budget)
            useful += [suggestion] if (await match_words(session, asked)).hits else []
    return useful


async def relax(session: TenantSession, plan: Plan, vector: Vector | None) -> list[Relaxation]:
    """Search again without each filter; if that finds nothing, without all of them. Only for an empty result.

    The legs are those of the search; `vector` is None if only the keyword leg ran.
    """
    active = list(plan.entry_filter.split())
    found = [Relaxation([name], await _count(session, plan, [name], vector)) for name in active]
    helpful = [relaxation for relaxation in found if relaxation.matches]
    if not helpful and len(active) > 1 and (matches := await _count(session, plan, active, vector)):
        helpful = [Relaxation(active, matches)]
    return helpful


async def _count(session: TenantSession, plan: Plan, without: Sequence[str], vector: Vector | None) -> int:
    relaxed = replace(plan, entry_filter=plan.entry_filter.without(*without))
    words = (
        await search_words(session, relaxed, relaxed.wanted)
        if plan.query.mode != "semantic" or vector is None
        else None
    )
    nearest = await search_vectors(session, relaxed, vector) if vector is not None else None
    joined = join_legs(nearest.hits if nearest else (), words.hits if words else ())
    return max(len(joined), words.total if words else 0)

"""Facets: how many matches have each tag, type, role, or metadata value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from app.contract.results import Facet, FacetValue
from app.contract.search import METADATA_FACET
from app.db.queries import facets as db
from app.db.queries import vectors
from app.db.queries.facets import CountedValue, MatchQuery
from app.db.queries.search import filtered_ids
from app.db.session import TenantSession
from app.knowledge.search.legs.findings import Legs
from app.knowledge.search.legs.semantic import margin
from app.knowledge.search.plan import Plan

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
    tenant, vector = plan.tenant, legs.vector
    near: list[UUID] = []
    exact = legs.semantic is None or not legs.pending
    ids = None
    many = legs.semantic is not None and legs.semantic.strategy == "indexed"
    if plan.is_selective and not many:
        found = await filtered_ids(session, plan.entry_filter, plan.exact_limit + 1)
        ids = found if len(found) <= plan.exact_limit else None
    max_distance = margin(plan.threshold)
    if vector is not None and ids is None and tenant.passages > MOST_PASSAGES:
        found_near = await vectors.indexed(session, tenant.space, vector, max_distance, plan.entry_filter, NEAREST)
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
        sorted(values, key=lambda v: (-v.count, str(v.value))),
        counts.get("other", 0),
        counts.get("missing", 0),
        exact,
    )

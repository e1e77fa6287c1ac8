"""The keyword leg against exact BM25: the share of the ten best entries that it finds, and its own time."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.composition.services import Services
from app.contract.search import SearchQuery
from app.db.statements import parse_statement
from app.knowledge.search.legs.keyword import search_words
from app.knowledge.search.plan import SearchDefaults, make_plan
from benchmarks.corpus.population import Population, entry_number

DEPTH = 10
EQUAL = 1e-3
"""Scores that differ relatively by less are equal: stored weights are rounded, and near-copies score the same."""

K1, B = 1.2, 0.75
ROUNDS = 3
READING = timedelta(minutes=5)

LEXEMES = parse_statement(
    "bench.lexemes",
    """
select q.number - 1 as question, l.lexeme
  from unnest(:queries::text[]) with ordinality q (text, number)
 cross join lateral (
   select lexeme from unnest(asked_lexemes('english', q.text, q.text))) l
""",
)
POSTINGS = parse_statement(
    "bench.postings",
    """
select u.lexeme, array_agg(e.external_id::integer) as entries,
       array_agg(coalesce(array_length(u.positions, 1), 1)) as counts
  from entries e cross join lateral unnest(e.lexemes) u
 where e.tenant_id = :tenant_id and u.lexeme = any (:lexemes::text[])
 group by u.lexeme
""",
)
LENGTHS = parse_statement(
    "bench.lengths",
    """
select array_agg(length(content) + 2 * coalesce(length(title), 0) order by external_id::integer)
  from entries where tenant_id = :tenant_id
""",
)


@dataclass(frozen=True, slots=True)
class WordsResult:
    """The keyword leg in one tenant: its recall of the ten best entries, and its time in milliseconds."""

    size: int
    recall: float
    questions: int
    p50: float
    p95: float


class ExactWords:
    """BM25 of every entry of a tenant, by brute force over all postings of the queries' words.

    The statistics are exact: how many entries have a word, and the mean length of the entries, in characters, where
    those of the title count twice.
    """

    def __init__(
        self,
        asked: Sequence[Sequence[str]],
        postings: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]],
        lengths: NDArray[np.float64],
    ) -> None:
        self._asked = asked
        self._postings = postings
        self._lengths = lengths
        self._norms = K1 * (1 - B + B * lengths / lengths.mean())

    def score(self, question: int) -> NDArray[np.float64]:
        """The score of each entry, by its number; 0 without any of the words."""
        count = len(self._norms)
        scores = np.zeros(count)
        for lexeme in set(self._asked[question]) & self._postings.keys():
            entries, occurrences = self._postings[lexeme]
            frequency = len(entries)
            weight = math.log(1 + (count - frequency + 0.5) / (frequency + 0.5))
            scores[entries] += weight * (K1 + 1) * occurrences / (occurrences + self._norms[entries])
        return scores

    def among(self, numbers: NDArray[np.int64]) -> ExactWords:
        """The same about a part of the entries, given in order; an entry's number is then its place among them."""
        postings = {}
        for lexeme, (entries, occurrences) in self._postings.items():
            belongs = np.isin(entries, numbers)
            if belongs.any():
                postings[lexeme] = (np.searchsorted(numbers, entries[belongs]), occurrences[belongs])
        return ExactWords(self._asked, postings, self._lengths[numbers])

    def count_matches(self, question: int) -> int:
        """The number of entries with one of the words."""
        return int(np.count_nonzero(self.score(question)))

    def count_found(self, question: int, found: Sequence[int]) -> tuple[int, int]:
        """How many of the ten best entries are among the first ten found, and how many there are.

        An entry with the score of the tenth counts as one of the ten.
        """
        scores = self.score(question)
        best = np.sort(scores)[::-1][:DEPTH]
        best = best[best > 0]
        if not len(best):
            return 0, 0
        enough = best[-1] * (1 - EQUAL)
        return int(sum(scores[n] >= enough for n in set(found[:DEPTH]))), len(best)


async def read_words(services: Services, tenant_id: UUID, queries: Sequence[str]) -> ExactWords:
    """Read the postings of all words of the queries in the tenant."""
    async with services.database.tenant_session(tenant_id, background=READING) as session:
        asked: list[list[str]] = [[] for _ in queries]
        for row in await session.fetch(LEXEMES, queries=list(queries)):
            asked[row["question"]].append(row["lexeme"])
        lexemes = sorted({lexeme for words in asked for lexeme in words})
        postings = {
            row["lexeme"]: (np.array(row["entries"]), np.array(row["counts"], dtype=np.float64))
            for row in await session.fetch(POSTINGS, lexemes=lexemes)
        }
        lengths = await session.fetch_value(LENGTHS)
    return ExactWords(asked, postings, np.array(lengths, dtype=np.float64))


async def measure_words(services: Services, tenant: Population, queries: Sequence[str]) -> WordsResult:
    """Run the leg with each query in a transaction of its own, several times; the first round warms up.

    Quoted phrases are a condition besides the words, so queries with quotation marks are omitted.
    """
    plain = [query for query in queries if '"' not in query]
    exact = await read_words(services, tenant.tenant_id, plain)
    context = await services.tenants.context(tenant.tenant_id)
    took: list[float] = []
    found, there = 0, 0
    for round_number in range(ROUNDS):
        for number, text in enumerate(plain):
            plan = make_plan(SearchQuery(query=text, mode="keyword"), context, SearchDefaults())
            async with services.database.tenant_session(tenant.tenant_id) as session:
                started = time.perf_counter()
                leg = await search_words(session, plan, plan.wanted)
                ended = time.perf_counter()
            if round_number:
                took.append(ended - started)
            else:
                hits, expected = exact.count_found(number, [entry_number(hit.entry_id) for hit in leg.hits])
                found, there = found + hits, there + expected
    p50, p95 = np.quantile(took, (0.5, 0.95)) * 1000
    return WordsResult(tenant.size, found / there if there else 1.0, len(plain), float(p50), float(p95))

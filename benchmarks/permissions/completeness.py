"""Whether a caller finds all that it may read, compared with brute force over exactly these entries."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.composition.services import Services
from app.contract.search import SearchQuery
from app.db.queries.search import KeywordQuery, match_words
from app.knowledge.search.plan import make_plan
from benchmarks.contender import Question
from benchmarks.corpus.population import entry_number
from benchmarks.measures.recall import CERTAIN, DEPTH
from benchmarks.measures.words import ExactWords
from benchmarks.permissions.callers import Caller

HIDDEN = -1


@dataclass(slots=True)
class Completeness:
    """What a caller found over all questions.

    Attributes:
        nearest, found: the ten nearest entries of each question, and how many of them a semantic-only search found.
        exact, wrongly_exact: answers with `exact`, and how many of them missed one of the nearest.
        missing: hits that exist, up to ten for each question, but did not come back.
        hidden: hits that the caller may not read.
        best, matched: the ten best entries by exact BM25, and how many of them the keyword leg found.
        complete, wrongly_complete: questions of which the leg scored every entry with one of the words by its own
            account, and those of them where it was another number.
    """

    questions: int = 0
    nearest: int = 0
    found: int = 0
    exact: int = 0
    wrongly_exact: int = 0
    missing: int = 0
    hidden: int = 0
    best: int = 0
    matched: int = 0
    complete: int = 0
    wrongly_complete: int = 0

    @property
    def recall(self) -> float:
        """The share of the nearest entries that was found."""
        return self.found / max(self.nearest, 1)

    @property
    def word_recall(self) -> float:
        """The share of the best entries by words that was found."""
        return self.matched / max(self.best, 1)


async def measure_completeness(
    services: Services, caller: Caller, questions: Sequence[Question], vectors: NDArray[np.float32], words: ExactWords
) -> Completeness:
    """Ask every question for the caller. `vectors` and `words` are about all entries with these numbers."""
    counted = Completeness(len(questions))
    own_vectors, own_words = vectors[caller.readable], words.among(caller.readable)
    with caller.acting():
        for number, question in enumerate(questions):
            await _count_nearest(services, caller, question, own_vectors, counted)
            await _count_words(services, caller, question, own_words, number, counted)
    return counted


async def _count_nearest(
    services: Services, caller: Caller, question: Question, vectors: NDArray[np.float32], counted: Completeness
) -> None:
    assert question.vector is not None
    cosines = vectors @ question.vector
    nearest = [n for n in np.argsort(-cosines, kind="stable")[:DEPTH].tolist() if cosines[n] >= CERTAIN]
    query = SearchQuery(
        query=question.text, mode="semantic", similarity_threshold=0.0, query_embedding=question.vector.tolist()
    )
    result = await services.search.search(caller.tenant.tenant_id, query)
    hits = _places_of([hit.id for hit in result], caller)
    counted.nearest += len(nearest)
    counted.found += len(set(nearest) & set(hits))
    counted.missing += max(0, len(nearest) - len(hits))
    counted.hidden += hits.count(HIDDEN)
    counted.exact += result.metadata.exact
    # Half precision may exchange entries that are equally near.
    near = sum(cosines[n] > cosines[nearest[-1]] - CERTAIN for n in hits if n != HIDDEN) if nearest else 0
    counted.wrongly_exact += result.metadata.exact and near < len(nearest)


async def _count_words(
    services: Services, caller: Caller, question: Question, words: ExactWords, number: int, counted: Completeness
) -> None:
    context = await services.tenants.context(caller.tenant.tenant_id)
    plan = make_plan(SearchQuery(query=question.text, mode="keyword"), context, services.search.defaults)
    asked = KeywordQuery(question.text, plan.entry_filter, plan.wanted, plan.keyword_budget)
    async with services.database.tenant_session(caller.tenant.tenant_id) as session:
        leg = await match_words(session, asked)
    hits = _places_of([hit.entry_id for hit in leg.hits], caller)
    counted.hidden += hits.count(HIDDEN)
    matched, best = words.count_found(number, [place for place in hits if place != HIDDEN])
    counted.best += best
    counted.matched += matched
    counted.complete += leg.complete
    counted.wrongly_complete += leg.complete and leg.total != words.count_matches(number)


def _places_of(ids: Sequence[UUID], caller: Caller) -> list[int]:
    """The places of entries among those that the caller may read; HIDDEN for others."""
    numbers = [entry_number(one) for one in ids]
    places = np.searchsorted(caller.readable, numbers).tolist()
    return [
        place if place < len(caller.readable) and caller.readable[place] == number else HIDDEN
        for place, number in zip(places, numbers, strict=True)
    ]

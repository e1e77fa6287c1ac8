"""The service class, called in the benchmark's own process."""

import contextlib
from collections.abc import AsyncIterator

from app.contract.search import SearchQuery
from benchmarks.contender import Contender, Question, Race


@contextlib.asynccontextmanager
async def enter(race: Race) -> AsyncIterator[Contender]:
    """The services that were prepared for the race."""

    async def search(question: Question) -> int:
        result = await race.services.search.search(
            race.dataset.tenant_id, SearchQuery(query=question.text, duplicates="show")
        )
        return len(result)

    yield Contender("service in process", search)
    await race.services.journal.flush()

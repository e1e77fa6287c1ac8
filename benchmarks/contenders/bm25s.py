"""bm25s: BM25 only, an index for each tenant, in this process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from benchmarks.contender import Contender, Question, Race, import_peer
from benchmarks.corpus.copies import Copy

VERSION = 1
SETUP = "an index for each tenant, in memory; English stop words and stemming"


@contextlib.asynccontextmanager
async def enter(race: Race) -> AsyncIterator[Contender]:
    """The index of the race's tenant, in memory. Only measured tenants have one, because indexes share nothing."""
    library, stemmer = import_peer("bm25s", "bm25s"), _stemmer()
    copy = Copy("bm25s", VERSION, race.kept)
    await copy.ensure(lambda folder: asyncio.to_thread(_build, folder, race))
    tenant = race.dataset.population
    index = await asyncio.to_thread(library.BM25.load, str(copy.folder / tenant.slug), load_corpus=True)

    def ask(question: Question) -> int:
        tokens = library.tokenize(question.text, stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False)
        found, _ = index.retrieve(tokens, k=min(10, tenant.size), show_progress=False)
        return int(found.shape[1])

    async def search(question: Question) -> int:
        return await asyncio.to_thread(ask, question)

    yield Contender(
        "bm25s (keyword only)",
        search,
        workloads=("cached",),
        is_peer=True,
        entries=sum(tenant.size for tenant in race.measured),
        setup=SETUP,
    )


def _stemmer() -> Any:
    return import_peer("Stemmer", "pystemmer").Stemmer("english")


def _build(folder: Path, race: Race) -> None:
    library, stemmer = import_peer("bm25s", "bm25s"), _stemmer()
    with race.progress("copy for bm25s", len(race.measured)) as report:
        for number, tenant in enumerate(race.measured):
            texts = [f"{e.title}\n{e.content}" if e.title else e.content for e in race.stock.make_entries(tenant)]
            index = library.BM25(method="lucene")
            index.index(
                library.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False
            )
            index.save(str(folder / tenant.slug), corpus=texts)
            report(number + 1)

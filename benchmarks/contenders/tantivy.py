"""Tantivy in this process: BM25 only, one index with the tenant as an indexed field."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from benchmarks.contender import Contender, Question, Race, import_peer
from benchmarks.corpus.copies import Copy, iterate_batches

VERSION = 1
SETUP = "one index with the tenant as an indexed field; English stemming"


@contextlib.asynccontextmanager
async def enter(race: Race) -> AsyncIterator[Contender]:
    """The entries of all tenants; each query has the tenant as a condition."""
    library = import_peer("tantivy", "tantivy")
    copy = Copy("tantivy", VERSION, race.kept)
    await copy.ensure(lambda folder: asyncio.to_thread(_build, folder, race))
    schema = _schema(library)
    index = library.Index(schema, path=str(copy.folder / "index"))
    index.reload()
    searcher = index.searcher()
    own = library.Query.const_score_query(
        library.Query.term_query(schema, "tenant_id", race.dataset.population.number), 0.0
    )

    def ask(question: Question) -> int:
        words, _ = index.parse_query_lenient(question.text, ["title", "content"])
        both = library.Query.boolean_query([(library.Occur.Must, own), (library.Occur.Must, words)])
        return len([searcher.doc(address)["content"] for _, address in searcher.search(both, 10).hits])

    async def search(question: Question) -> int:
        return await asyncio.to_thread(ask, question)

    yield Contender(
        "Tantivy (keyword only)",
        search,
        workloads=("cached",),
        is_peer=True,
        entries=sum(tenant.size for tenant in race.tenants),
        setup=SETUP,
    )


def _schema(library: Any) -> Any:
    return (
        library.SchemaBuilder()
        .add_unsigned_field("tenant_id", indexed=True)
        .add_text_field("title", stored=True, tokenizer_name="en_stem")
        .add_text_field("content", stored=True, tokenizer_name="en_stem")
        .build()
    )


def _build(folder: Path, race: Race) -> None:
    library = import_peer("tantivy", "tantivy")
    (folder / "index").mkdir()
    index = library.Index(_schema(library), path=str(folder / "index"))
    writer = index.writer()
    done = 0
    with race.progress("copy for Tantivy", sum(t.size for t in race.tenants)) as report:
        for tenant, batch in iterate_batches(race.stock, race.tenants):
            for e in batch:
                document = library.Document(title=e.title or "", content=e.content)
                document.add_unsigned("tenant_id", tenant.number)
                writer.add_document(document)
            done += len(batch)
            report(done)
        writer.commit()
        writer.wait_merging_threads()

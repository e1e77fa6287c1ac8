"""The measurements of ingestion, in order."""

import asyncio
import contextlib
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.cli.output.text import remark
from app.embedded.server import EmbeddedPostgres
from benchmarks.contender import Absent
from benchmarks.ingestion.ceilings import Prepared, embed_alone, infer_alone, insert_alone, prepare_file
from benchmarks.ingestion.files import FileMaker
from benchmarks.ingestion.growth import Growth, Meter, watch
from benchmarks.ingestion.line import Line, name_files, open_line
from benchmarks.ingestion.peer import add_documents
from benchmarks.ingestion.results import IngestionReport, Passage, Throughput
from benchmarks.place import KEPT

DATA = KEPT / "ingestion"
"""The database of this part, created again in each run."""

DEFAULT_MODEL_WORDS = 110
"""A chunk of the default model, 208 of its tokens, has this number of words."""


@dataclass(frozen=True, slots=True)
class Heat:
    """One line of the table: `files` files of `size` bytes; `tokens` in a chunk, None for the default."""

    kind: str
    files: int
    size: int
    concurrency: int
    tokens: int | None = None


HEATS = (
    Heat("local", 4, 100_000, 2),
    Heat("mock", 10, 1_000_000, 2, DEFAULT_MODEL_WORDS),
    Heat("mock", 10, 1_000_000, 4, DEFAULT_MODEL_WORDS),
    Heat("mock", 10, 1_000_000, 4),
)
PEER_FILES = 1
"""LangChain adds chunks one by one, so one file is enough to measure its rate."""


async def measure_ingestion(report: IngestionReport, megabytes: int, heats: Sequence[Heat] = HEATS) -> None:
    """Measure rates, then memory while `megabytes` of files are ingested. Raises KnowledgeError.

    Measurements before an error are in the report.
    """
    await asyncio.to_thread(shutil.rmtree, DATA, ignore_errors=True)
    for heat in heats:
        remark(f"ingestion: {heat.kind}, {heat.files} files of {heat.size:,} bytes, {heat.concurrency} jobs at a time")
        report.throughputs.append(await _run_heat(heat, report))
    if megabytes:
        remark(f"ingestion: memory while {megabytes:,} MB go through")
        report.passages.append(await _ingest(megabytes * 1_000_000))


async def _run_heat(heat: Heat, report: IngestionReport) -> Throughput:
    maker = FileMaker()
    files = name_files([maker.make_markdown(heat.size) for _ in range(heat.files)])
    peer = None
    async with _open(heat) as line:
        await _warm_up(line, maker)
        prepared = [await prepare_file(line, *file) for file in files]
        before = await _measure_ceiling(heat, line, prepared)
        bare = await _measure_bare(heat, prepared)
        chunks = sum(len(file.rows) for file in prepared)
        try:
            some = prepared[:PEER_FILES]
            took = await add_documents(EmbeddedPostgres(DATA), line.services.provider, some)
            peer = sum(len(file.rows) for file in some) / took
        except Absent as reason:
            report.absent = str(reason)
        model = line.services.provider.model
    async with _open(heat) as line:
        await _warm_up(line, maker)
        warm = await line.count_chunks()
        await line.accept(files)
        seconds = await line.finish()
        assert await line.count_chunks() == warm + chunks
    async with _open(heat) as line:
        await _warm_up(line, maker)
        after = await _measure_ceiling(heat, line, prepared)
    return Throughput(
        f"{model.provider}/{model.name}",
        heat.files,
        chunks,
        sum(len(row.content) for file in prepared for row in file.rows) // chunks,
        heat.concurrency,
        chunks / seconds,
        "SQL alone" if heat.kind == "mock" else "model alone",
        (chunks / before, chunks / after),
        None if bare is None else chunks / bare,
        peer,
    )


async def _measure_ceiling(heat: Heat, line: Line, prepared: Sequence[Prepared]) -> float:
    if heat.kind == "mock":
        return await insert_alone(line, prepared)
    return await embed_alone(line.services.provider, [text for file in prepared for text in file.texts])


async def _measure_bare(heat: Heat, prepared: Sequence[Prepared]) -> float | None:
    if heat.kind == "mock":
        return None
    return await asyncio.to_thread(infer_alone, [text for file in prepared for text in file.texts])


async def _warm_up(line: Line, maker: FileMaker) -> None:
    """Load what is loaded on first use, and plan the statements."""
    await line.accept([(f"warm-up-{n}.md", maker.make_markdown(2_000)) for n in range(2 * line.concurrency)])
    await line.finish()


async def _ingest(total: int) -> Passage:
    growth, meter, count = Growth(), Meter(), 0

    def hand_in() -> Iterator[tuple[str, bytes]]:
        nonlocal count
        for name, data in FileMaker().make_mixture(total):
            yield name, data
            meter.taken += len(data)
            count += 1

    async with open_line(DATA, "mock", concurrency=2) as line:
        await _warm_up(line, FileMaker(seed=1))
        warm = await line.count_chunks()
        started = time.perf_counter()
        async with watch(growth, meter):
            await line.stream(hand_in())
        seconds = time.perf_counter() - started
        return Passage(meter.taken, count, seconds, await line.count_chunks() - warm, growth)


def _open(heat: Heat) -> contextlib.AbstractAsyncContextManager[Line]:
    return open_line(DATA, heat.kind, concurrency=heat.concurrency, chunk_tokens=heat.tokens)

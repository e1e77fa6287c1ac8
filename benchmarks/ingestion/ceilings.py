"""What the pipeline is compared with: the model alone and the SQL alone, each with the same chunks."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from uuid import UUID

from app.db.queries import assets
from app.db.queries.assets import ChunkRow, NewAsset, insert_chunks, insert_vectors
from app.db.queries.embeddings import PassageVector
from app.db.rows import new_id
from app.documents.chunking import split
from app.documents.formats import find_format
from app.documents.process.parsing import parse_document
from app.embeddings.provider import EmbeddingProvider
from app.embeddings.providers.local import load_minilm
from app.kernel import count_cores
from app.knowledge.entries.embedding import make_passages
from app.knowledge.ingestion.assets import DEFAULTS
from app.knowledge.ingestion.pipeline import STORED_AT_ONCE, STORING, chunk_tokens, make_chunk_row
from benchmarks.ingestion.line import Line


@dataclass(frozen=True, slots=True)
class Prepared:
    """A file as it is stored: its chunks, and the texts that are embedded for them."""

    asset: NewAsset
    title: str | None
    text: str
    rows: Sequence[ChunkRow]
    places: Sequence[tuple[UUID, int, bytes, int, int]]
    texts: Sequence[str]


async def prepare_file(line: Line, name: str, data: bytes) -> Prepared:
    """Parse and cut a file as the pipeline does."""
    provider = line.services.provider
    document = await parse_document(data, name)
    tokens, overlap = chunk_tokens(line.chunk_size, provider.model)
    chunks = split(document, provider.count_tokens, tokens, overlap)
    rows = [make_chunk_row(chunk, document, None) for chunk in chunks]
    passages = [(row, *p) for row in rows for p in enumerate(make_passages(provider, row.title, row.content))]
    return Prepared(
        NewAsset(None, name, find_format(document.format).media_type, new_id().bytes * 2, data, DEFAULTS),
        document.title,
        document.text,
        rows,
        [(row.id, number, row.text_hash, start, end) for row, number, (_, start, end) in passages],
        [text for _, _, (text, _, _) in passages],
    )


def infer_alone(texts: Sequence[str]) -> float:
    """Run the default model on tokenized texts in a plain thread for each core; returns the seconds."""
    model = load_minilm()
    inputs = [model.tokenize(text) for text in texts]
    started = time.perf_counter()
    with ThreadPoolExecutor(count_cores()) as threads:
        for _ in threads.map(model.infer, inputs):
            pass
    return time.perf_counter() - started


async def embed_alone(provider: EmbeddingProvider, texts: Sequence[str]) -> float:
    """Embed the texts and do nothing else; returns the seconds."""
    started = time.perf_counter()
    await provider.embed_documents(texts)
    return time.perf_counter() - started


async def insert_alone(line: Line, files: Sequence[Prepared]) -> float:
    """Insert the rows of the files with the pipeline's statements, one transaction for each file, on one
    connection.

    Returns the seconds. Vectors are computed, and the files' bytes stored, before the clock starts, as in
    the pipeline.
    """
    context = await line.services.tenants.context(line.tenant_id)
    stored: list[tuple[UUID, Prepared, list[PassageVector]]] = []
    for file in files:
        vectors = await line.services.provider.embed_documents(file.texts)
        passages = [PassageVector(*place, v) for place, v in zip(file.places, vectors, strict=True)]
        asset_id = new_id()
        async with line.services.database.tenant_session(line.tenant_id) as session:
            await assets.insert_asset(session, asset_id, file.asset)
        stored.append((asset_id, file, passages))
    started = time.perf_counter()
    for asset_id, file, passages in stored:
        async with line.services.database.tenant_session(line.tenant_id, background=STORING) as session:
            extract = assets.Extract(file.title, file.text, None, {}, (), ())
            inherited = await assets.finish_asset(session, asset_id, 1, extract)
            assert inherited is not None
            for start in range(0, len(file.rows), STORED_AT_ONCE):
                part = file.rows[start : start + STORED_AT_ONCE]
                await insert_chunks(session, asset_id, part, inherited, language="english")
            for start in range(0, len(passages), STORED_AT_ONCE):
                part_vectors = passages[start : start + STORED_AT_ONCE]
                await insert_vectors(session, context.space.model_id, part_vectors)
    return time.perf_counter() - started

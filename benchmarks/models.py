"""How fast the local models embed: `python -m benchmarks.models`.

Chunks are XQuAD's German paragraphs, and queries its questions, one after another.
The two models take turns, so that a busy machine slows both.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from app.embeddings.factory import ProviderConfig, build_provider
from app.embeddings.provider import E5, LOCAL, MINILM, EmbeddingProvider
from app.errors import ConfigurationError
from benchmarks.collections.named import read_named
from benchmarks.place import COLLECTIONS

ROUNDS, CHUNKS, QUERIES = 4, 16, 40


async def measure() -> None:
    """Print the rates of both models."""
    collection = read_named("xquad-de")
    chunks = [document.text for document in collection.documents]
    queries = [query.text for query in collection.queries]
    providers: dict[str, EmbeddingProvider] = {
        model: build_provider(ProviderConfig(LOCAL, model, query_timeout=60, document_timeout=600))
        for model in (MINILM, E5)
    }
    rates: dict[str, list[tuple[float, float]]] = {model: [] for model in providers}
    for provider in providers.values():
        await provider.embed_query("load the model")
    for turn in range(ROUNDS):
        for model, provider in providers.items():
            some = chunks[turn * CHUNKS :][:CHUNKS]
            asked = queries[turn * QUERIES :][:QUERIES]
            documents = await _rate(provider.embed_documents, [some], len(some))
            rates[model].append((documents, await _rate(provider.embed_query, asked, len(asked))))
    print(f"median of {ROUNDS} turns of {CHUNKS} paragraphs and {QUERIES} questions")
    for model, found in rates.items():
        documents, questions = (sorted(column)[len(column) // 2] for column in zip(*found, strict=True))
        print(f"{model}: {documents:.1f} chunks/s, {questions:.1f} queries/s")
    for provider in providers.values():
        await provider.close()


async def _rate(embed: Callable[..., Awaitable[object]], batches: Sequence[object], count: int) -> float:
    started = time.perf_counter()
    for batch in batches:
        await embed(batch)
    return count / (time.perf_counter() - started)


def main() -> int:
    """Measure and print; returns the exit status."""
    if not COLLECTIONS.is_dir():
        print(f"The judged collections are not here: {COLLECTIONS} does not exist.")
        return 0
    try:
        asyncio.run(measure())
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

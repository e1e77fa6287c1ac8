"""Threads for models that compute in this process: one lane for queries, one for documents."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from app.embeddings.provider import Vector

# Measured on two cores with two busy document threads: a query takes 9 ms with this niceness, 25 ms without it.
_DOCUMENT_NICENESS = 10


class ComputeLanes:
    """Runs an embedding function in threads, so that no query waits for documents.

    Documents are submitted text by text: concurrent calls share the lane fairly, and a cancelled call stops
    before its next text. On Linux the document threads run at a lower priority.
    """

    def __init__(self, query_threads: int, document_threads: int) -> None:
        self.query_threads = query_threads
        self._document_threads = document_threads
        self._queries = ThreadPoolExecutor(query_threads, "embed-query")
        self._documents = ThreadPoolExecutor(document_threads, "embed-document", _lower_priority)

    async def run_query(self, embed: Callable[[str], Vector], text: str) -> Vector:
        """Embed one text in the query lane."""
        return await asyncio.get_running_loop().run_in_executor(self._queries, embed, text)

    async def run_documents(self, embed: Callable[[str], Vector], texts: Sequence[str]) -> list[Vector]:
        """Embed texts one by one in the document lane and keep their order."""
        loop = asyncio.get_running_loop()
        vectors: dict[int, Vector] = {}
        remaining = iter(range(len(texts)))

        async def drain() -> None:
            for position in remaining:
                vectors[position] = await loop.run_in_executor(self._documents, embed, texts[position])

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._document_threads, len(texts))):
                    group.create_task(drain())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [vectors[position] for position in range(len(texts))]

    def close(self) -> None:
        """Drop waiting texts; a computation in progress finishes by itself."""
        self._queries.shutdown(wait=False, cancel_futures=True)
        self._documents.shutdown(wait=False, cancel_futures=True)


def _lower_priority() -> None:
    if sys.platform == "linux":  # on other systems the call would affect the whole process
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _DOCUMENT_NICENESS)

"""Selects the client that runs a call, for the classes of frameworks."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from knowledge_client.async_client import AsyncKnowledgeClient
from knowledge_client.client import KnowledgeClient
from knowledge_client.exchange import Exchange

T = TypeVar("T")


def run(client: KnowledgeClient | None, exchange: Exchange[T]) -> T:
    """Run a call. Raises ValueError without a client, and KnowledgeError."""
    if client is None:
        raise ValueError("client: only an async_client was given; use the async methods")
    return client.run(exchange)


async def run_async(
    async_client: AsyncKnowledgeClient | None, client: KnowledgeClient | None, exchange: Exchange[T]
) -> T:
    """Run a call in this loop, or in a thread if there is no async client."""
    if async_client is not None:
        return await async_client.run(exchange)
    return await asyncio.to_thread(run, client, exchange)

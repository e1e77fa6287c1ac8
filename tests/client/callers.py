"""One way to call both clients, so that every test covers both."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from knowledge_client import AsyncKnowledgeClient, KnowledgeClient, Retries

LOCAL: dict[str, Any] = {"trust_env": False, "timeout": 10, "verify": ssl.create_default_context()}
"""httpx settings for this machine; certificates, which are not needed, are loaded once for all tests."""


@dataclass(frozen=True, slots=True)
class ClientCaller:
    """Calls a client's methods by name, on either client."""

    client: KnowledgeClient | AsyncKnowledgeClient
    http: httpx.Client | httpx.AsyncClient

    async def __call__(self, method: str, *args: Any, **options: Any) -> Any:
        """The result; of an iterator, the list of all items."""
        outcome = getattr(self.client, method)(*args, **options)
        if isinstance(outcome, AsyncIterator):
            return [item async for item in outcome]
        if isinstance(outcome, Iterator):
            return list(outcome)
        return await outcome if isinstance(outcome, Awaitable) else outcome

    async def close(self) -> None:
        """Close the connections of the HTTP client that was lent to the client."""
        if isinstance(self.http, httpx.Client):
            self.http.close()
        else:
            await self.http.aclose()


def make_client(
    kind: str,
    url: str,
    token: Any,
    *,
    retries: Retries | None = None,
    transport: Any = None,
    access: Literal["all"] | None = None,
) -> ClientCaller:
    """A caller of the client that `kind` names, `sync` or `async`; proxies of the environment are ignored."""
    options: dict[str, Any] = {"transport": transport, **LOCAL}
    given: dict[str, Any] = {"retries": retries, "access": access}
    if kind == "sync":
        blocking = httpx.Client(**options)
        return ClientCaller(KnowledgeClient(url, token, http=blocking, **given), blocking)
    waiting = httpx.AsyncClient(**options)
    return ClientCaller(AsyncKnowledgeClient(url, token, http=waiting, **given), waiting)

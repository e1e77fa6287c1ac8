"""The default transports: httpx over the network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping

import httpx

from knowledge_client.transport import NotAnswered, Request, Response

NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class HttpTransport:
    """Sends the requests of a `KnowledgeClient`; a given httpx client is not closed."""

    def __init__(self, url: str, timeout: float, http: httpx.Client | None) -> None:
        self._url = url
        self._lent = http is not None
        self._http = http or httpx.Client(timeout=_limit(timeout))

    def send(self, request: Request, headers: Mapping[str, str]) -> Response:
        """Send a request. Raises NotAnswered."""
        with request.open_body() as body:
            try:
                answer = self._http.request(
                    request.method,
                    self._url + request.target,
                    content=body.content,
                    headers={**body.headers, **headers},
                )
            except httpx.RequestError as error:
                raise _explain(error) from error
        return _read(answer)

    def close(self) -> None:
        """Close the connections."""
        if not self._lent:
            self._http.close()


class AsyncHttpTransport:
    """Sends the requests of an `AsyncKnowledgeClient`; a given httpx client is not closed."""

    def __init__(self, url: str, timeout: float, http: httpx.AsyncClient | None) -> None:
        self._url = url
        self._lent = http is not None
        self._http = http or httpx.AsyncClient(timeout=_limit(timeout))

    async def send(self, request: Request, headers: Mapping[str, str]) -> Response:
        """Send a request. Raises NotAnswered."""
        with request.open_body() as body:
            content = body.content
            try:
                answer = await self._http.request(
                    request.method,
                    self._url + request.target,
                    content=content if content is None or isinstance(content, bytes) else _Parts(content),
                    headers={**body.headers, **headers},
                )
            except httpx.RequestError as error:
                raise _explain(error) from error
        return _read(answer)

    async def close(self) -> None:
        """Close the connections."""
        if not self._lent:
            await self._http.aclose()


class _Parts:
    """Parts of a body for httpx's async client, which may read them twice."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part


def _limit(timeout: float) -> httpx.Timeout:
    return httpx.Timeout(timeout, connect=min(timeout, 5.0))


def _read(answer: httpx.Response) -> Response:
    return Response(answer.status_code, answer.headers.multi_items(), answer.content)


def _explain(error: httpx.RequestError) -> NotAnswered:
    return NotAnswered(f"{type(error).__name__}: {error}", sent=not isinstance(error, NOT_SENT))

"""A scripted network: it answers as a test prescribes and records the requests."""

from collections.abc import Iterable, Mapping
from typing import Any

import httpx
import orjson


class ScriptedTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Gives the outcomes in order: a response, or an error that is raised. Serves both kinds of client."""

    def __init__(self, *outcomes: httpx.Response | httpx.RequestError) -> None:
        self._outcomes = list(outcomes)
        self.requests: list[httpx.Request] = []
        self.bodies: list[bytes] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(request.read())
        return self._next(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(await request.aread())
        return self._next(request)

    def _next(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, httpx.RequestError):
            raise outcome
        return outcome

    @property
    def asked(self) -> list[str]:
        """Method and path of each request."""
        return [f"{r.method} {r.url.path}" for r in self.requests]

    @property
    def tokens(self) -> list[str]:
        """The bearer token of each request."""
        return [r.headers["authorization"].removeprefix("Bearer ") for r in self.requests]


def answer(status: int, body: Any = None, headers: Mapping[str, str] | None = None) -> httpx.Response:
    return httpx.Response(status, content=orjson.dumps(body), headers=dict(headers or {}))


def refusal(status: int, *, retry_after: str | None = None, errors: Iterable[Any] = ()) -> httpx.Response:
    """A problem as the service renders it."""
    body = {"type": "about:blank", "title": "No", "status": status, "detail": "not now", "request_id": "r1"}
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return answer(status, {**body, **({"errors": list(errors)} if errors else {})}, headers)

"""A request's body, of bounded length and speed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from starlette.types import Message, Receive

from app.errors import TooLarge, TooSlow


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a body is waited for: `stall` seconds for its next part, and in all `grace` seconds and one more
    for every `rate` bytes that have come.
    """

    stall: float = 30.0
    grace: float = 60.0
    rate: float = 16 * 1024.0


class BoundedBody:
    """A request's body, refused as soon as more than `limit` bytes of it are announced or have come.

    It is refused only when it is read, so callers without a token get 401 first.
    """

    def __init__(self, receive: Receive, limit: int, declared: int, patience: Patience) -> None:
        """The connection drops the rest of a body that is refused."""
        self._receive = receive
        self._limit = limit
        self._declared = declared
        self._patience = patience
        self._seen = 0
        self._waited = 0.0
        self._complete = False

    @property
    def seen(self) -> int:
        """Bytes that have come."""
        return self._seen

    async def receive(self) -> Message:
        """The next part. Raises TooLarge and TooSlow."""
        if self._declared <= self._limit:
            message = await self._next()
            if self._seen <= self._limit:
                return message
        raise TooLarge(f"the request body is larger than the limit of {self._limit} bytes")

    async def _next(self) -> Message:
        if self._complete:  # what follows is the end of the connection, which may be far away
            return await self._receive()
        started = time.monotonic()
        left = self._patience.grace + self._seen / self._patience.rate - self._waited
        try:
            async with asyncio.timeout(min(left, self._patience.stall)):
                message = await self._receive()
        except TimeoutError:
            raise TooSlow("the request body arrived too slowly") from None
        self._waited += time.monotonic() - started
        self._seen += len(message.get("body", b""))
        self._complete = message["type"] != "http.request" or not message.get("more_body", False)
        return message

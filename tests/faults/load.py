"""Callers that keep a service busy."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import count

import httpx


class Callers:
    """Callers that write and search in turn over persistent connections; failures are recorded."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}
        self._numbers = count(1)
        self.answered = 0
        self.failures: list[str] = []
        self.running = True

    async def call(self) -> None:
        async with httpx.AsyncClient(base_url=self._url, trust_env=False, timeout=30) as http:
            while self.running:
                number = next(self._numbers)
                path, body = (
                    ("/knowledge/entries/bulk", {"entries": [{"content": f"Berth {number}"}]})
                    if number % 2
                    else ("/knowledge/search", {"query": "harbour berth"})
                )
                try:
                    answer = await http.post(path, json=body, headers=self._headers)
                except httpx.HTTPError as error:
                    self.failures.append(f"{path}: {error!r}")
                else:
                    self.answered += 1
                    if answer.status_code != 200:
                        self.failures.append(f"{path}: {answer.status_code} {answer.text}")

    async def wait_for_more(self, number: int = 20) -> None:
        wanted = self.answered + number
        while self.answered < wanted and not self.failures:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def calling(url: str, token: str, number: int) -> AsyncIterator[Callers]:
    """So many callers call while the block runs; at its end, their last requests are answered."""
    callers = Callers(url, token)
    running = [asyncio.create_task(callers.call()) for _ in range(number)]
    try:
        yield callers
    finally:
        callers.running = False
        await asyncio.gather(*running)

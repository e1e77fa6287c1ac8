"""Scores from a server with a `/rerank` endpoint, in the forms that such servers document."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final, Literal

import httpx
import orjson

from app.errors import RerankerUnavailable
from app.resilience.statuses import read_status

# Requests have `documents`, and answers are `{"results": [{"index", "relevance_score"}]}`; with `tei`, requests have
# `texts`, and answers are `[{"index", "score"}]`. Answers can repeat the texts.

Form = Literal["cohere", "jina", "vllm", "tei"]

MOST_TEXTS: dict[Form, int] = {"tei": 32}
"""Texts of one request, for servers with a limit of fewer than a thousand: --max-client-batch-size of TEI."""

_EXTRAS: dict[str, dict[str, Any]] = {
    "cohere": {},
    # By default, the answer repeats every text.
    "jina": {"return_documents": False},
    # By default, the server refuses texts that are longer than its model's input; -1 is the model's length.
    "vllm": {"truncate_prompt_tokens": -1},
}


class MalformedAnswer(Exception):
    """The answer does not have exactly one finite score for each text."""


def write_request(form: Form, model: str | None, query: str, texts: Sequence[str]) -> bytes:
    """The body of a request that asks for the score of every text."""
    request: dict[str, Any] = {"query": query}
    if form == "tei":
        request |= {"texts": texts, "truncate": True}
    else:
        request |= {"documents": texts, "top_n": len(texts), **_EXTRAS[form]}
        request |= {"model": model} if model else {}
    return orjson.dumps(request)


def read_scores(body: bytes, count: int) -> list[float]:
    """The scores in the order of the `count` texts; servers answer best first. Raises MalformedAnswer."""
    try:
        answer = orjson.loads(body)
        rows = answer["results"] if isinstance(answer, dict) else answer
        if len(rows) != count:
            raise MalformedAnswer
        scores: dict[int, float] = {}
        for row in rows:
            index, score = row["index"], row["relevance_score"] if "relevance_score" in row else row["score"]
            if type(index) is not int or not 0 <= index < count or type(score) not in (int, float):
                raise MalformedAnswer
            scores[index] = float(score)
    except (ValueError, TypeError, KeyError, OverflowError):
        raise MalformedAnswer from None
    if len(scores) != count or not all(map(math.isfinite, scores.values())):
        raise MalformedAnswer
    return [scores[index] for index in range(count)]


ANSWER_BYTES = 64 * 1024
"""Bytes of an answer without texts; a score takes about 100."""

REPEATED = 2
"""Bytes of an answer for each byte of a request, since it may repeat the texts, and escape their characters."""


class TextsRefused(RerankerUnavailable):
    """The server works, but refuses these texts."""

    input_refused = True


class RerankServer:
    """Reranker that makes one attempt per call; the wrapper retries."""

    def __init__(
        self,
        url: str,
        form: Form,
        *,
        model: str | None = None,
        api_key: str | None = None,
        timeout: float = 2.0,
    ) -> None:
        """`url` is the whole address of the endpoint, `timeout` in seconds."""
        self.name: Final = f"{form}/{model}" if model else form
        self._url = url
        self._form: Form = form
        self._model = model
        # Identity: a compressed answer can be far larger than what is counted on its way.
        headers = {
            "content-type": "application/json",
            "accept": "application/json",
            "accept-encoding": "identity",
        }
        if api_key:
            headers["authorization"] = f"Bearer {api_key}"
        # A redirect would take the texts, and within one host the key, to any address.
        self._client = httpx.AsyncClient(timeout=timeout, follow_redirects=False, headers=headers)

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        most = MOST_TEXTS.get(self._form, len(texts)) or 1
        parts = [texts[start : start + most] for start in range(0, len(texts), most)]
        if len(parts) == 1:
            return await self._score(query, texts)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._score(query, part)) for part in parts]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [score for task in tasks for score in task.result()]

    async def _score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """The scores of texts that fit in one request."""
        body = write_request(self._form, self._model, query, texts)
        try:
            return read_scores(await self._post(body), len(texts))
        except MalformedAnswer:
            raise RerankerUnavailable(self.name, "malformed answer", permanent=True) from None
        except httpx.TimeoutException:
            raise RerankerUnavailable(self.name, "no answer in time") from None
        except httpx.HTTPError:
            raise RerankerUnavailable(self.name, "not reachable") from None

    async def close(self) -> None:
        await self._client.aclose()

    async def _post(self, body: bytes) -> bytes:
        """The bytes of a successful answer, up to the size that one can have."""
        most = ANSWER_BYTES + REPEATED * len(body)
        async with self._client.stream("POST", self._url, content=body) as response:
            if response.status_code != httpx.codes.OK:
                failure = read_status(response.status_code, response.headers)
                if failure.input_refused:
                    raise TextsRefused(self.name, failure.reason, permanent=True)
                raise RerankerUnavailable(
                    self.name, failure.reason, retry_after=failure.retry_after, permanent=failure.permanent
                )
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise MalformedAnswer
            answer = bytearray()
            async for part in response.aiter_raw():
                answer += part
                if len(answer) > most:
                    raise MalformedAnswer
            return bytes(answer)

"""Rerankers: the interface, a client of servers with a `/rerank` endpoint, resilience, and the factory."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol
from urllib.parse import urlsplit

import httpx
import orjson

from app.embeddings.provider import approximate_tokens
from app.errors import ConfigurationError, RerankerUnavailable
from app.resilience import CHECK_TEXT, REAL_TIME, CallBudget, CallPolicy, Calls, Timing, read_status


class Reranker(Protocol):
    """Compares texts with a query, each together with it. Safe for concurrent use in one event loop."""

    @property
    def name(self) -> str:
        """The form of its API and its model, such as `jina/jina-reranker-v2-base-multilingual`."""

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Score each text, in order: the higher, the better it answers the query. Raises RerankerUnavailable."""

    async def close(self) -> None:
        """Release connections."""


PROVIDER = "reranker"
"""The provider in metrics and traces; there is one reranker."""

FIRST_DELAY = 0.1
"""Shortest wait before the second try, in seconds."""


class ResilientReranker:
    """Reranker that retries calls of another one within a time limit, and stops calling it when it is down.

    Every failure is raised as RerankerUnavailable with the number of tries, which is 0 while the circuit is open.
    """

    def __init__(
        self, inner: Reranker, timeout: float, policy: CallPolicy | None = None, timing: Timing = REAL_TIME
    ) -> None:
        """`timeout` is that of a whole call, in seconds."""
        self.name: Final = inner.name
        self._inner = inner
        self._budget = CallBudget(timeout, FIRST_DELAY)
        self._calls = Calls(
            "rerank",
            PROVIDER,
            inner.name,
            RerankerUnavailable,
            policy or CallPolicy(),
            check=lambda: inner.rerank(CHECK_TEXT, [CHECK_TEXT]),
            patience=timeout,
            timing=timing,
        )
        self.circuit: Final = self._calls.circuit

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        if not texts:
            return ()
        return await self._calls.run(
            lambda: self._inner.rerank(query, texts), self._budget, texts=len(texts), tokens=count_tokens(query, texts)
        )

    async def close(self) -> None:
        await self._inner.close()


def count_tokens(query: str, texts: Sequence[str]) -> int:
    """Tokens of a call by a rule of thumb: the model reads the query together with each of the texts."""
    return len(texts) * approximate_tokens((query,)) + approximate_tokens(texts)


Form = Literal["cohere", "jina", "vllm", "tei"]
Api = Literal[Form, "fastembed"]
FASTEMBED_DEFAULT = "Xenova/ms-marco-MiniLM-L-6-v2"
"""Requests have `documents`, and answers are `{"results": [{"index", "relevance_score"}]}`; with `tei`, requests have
`texts`, and answers are `[{"index", "score"}]`. Answers can repeat the texts."""

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
        self, url: str, form: Form, *, model: str | None = None, api_key: str | None = None, timeout: float = 2.0
    ) -> None:
        """`url` is the whole address of the endpoint, `timeout` in seconds."""
        self.name: Final = f"{form}/{model}" if model else form
        self._url = url
        self._form: Form = form
        self._model = model
        # Identity: a compressed answer can be far larger than what is counted on its way.
        headers = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}
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


@dataclass(frozen=True, slots=True)
class RerankerConfig:
    """The server to call: the whole address of its endpoint, and the form of its API. `timeout` is in seconds.

    With the form `fastembed`, a model in this process, from a `folder`.
    """

    url: str | None
    form: Api = "cohere"
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 2.0
    folder: Path = Path(".data/models")


def build_reranker(config: RerankerConfig) -> ResilientReranker:
    """Build the reranker, wrapped in retries and a circuit breaker.

    Raises ConfigurationError, one line that names the setting, for a configuration that cannot work.
    """
    if config.form == "fastembed":
        if config.url is not None:
            raise ConfigurationError(
                "KB_RERANKER_URL", "must be empty with KB_RERANKER_API=fastembed, which needs no server"
            )
        return ResilientReranker(_load_fastembed(config), config.timeout)
    parts = urlsplit(config.url or "")
    if config.url is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError("KB_RERANKER_URL", "must start with http:// or https://")
    if not parts.path.strip("/"):
        raise ConfigurationError(
            "KB_RERANKER_URL", "must be the whole address of the endpoint, for example http://127.0.0.1:8080/rerank"
        )
    key = config.api_key
    if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key):
        raise ConfigurationError("KB_RERANKER_API_KEY", "must have printable ASCII characters only")
    server = RerankServer(config.url, config.form, model=config.model, api_key=key, timeout=config.timeout)
    return ResilientReranker(server, config.timeout)


def _load_fastembed(config: RerankerConfig) -> Reranker:
    try:
        from app.embeddings.providers.fastembed import FastembedReranker
    except ImportError:
        raise ConfigurationError(
            "KB_RERANKER_API", "fastembed is not installed", "run: pip install 'knowledge-search[fastembed]'"
        ) from None
    return FastembedReranker(config.model or FASTEMBED_DEFAULT, config.folder)

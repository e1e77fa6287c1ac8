"""Embeddings from OpenAI or a server with a compatible API."""

import orjson
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, DefaultAsyncHttpxClient, omit

from app.embeddings.provider import BatchLimits, EmbeddingModel, RemoteProvider, Vector, check_vectors, describe_status
from app.errors import EmbeddingUnavailable

DEFAULT_BASE_URL = "https://api.openai.com/v1"
_NO_KEY = "none"  # self-hosted servers may need none; the SDK must not send one from the environment


class OpenAIProvider(RemoteProvider):
    """Embeddings of a server with this API."""

    # The API accepts 2,048 texts and 300,000 tokens; decoding smaller responses blocks the event loop for less time.
    batch = BatchLimits(texts=128, tokens=100_000)

    def __init__(
        self, model: EmbeddingModel, *, api_key: str | None, base_url: str | None = None, timeout: float = 60.0
    ) -> None:
        self.model = model
        self._client = AsyncOpenAI(
            api_key=api_key or _NO_KEY,
            base_url=base_url or DEFAULT_BASE_URL,
            max_retries=0,
            timeout=timeout,
            # A redirect would take the texts, and within one host the key, to any address.
            http_client=DefaultAsyncHttpxClient(follow_redirects=False, timeout=timeout),
        )

    async def close(self) -> None:
        await self._client.close()

    async def request(self, texts: list[str], *, query: bool) -> list[Vector]:
        provider = self.model.provider
        # Other models, and most self-hosted servers, refuse a request that specifies dimensions.
        shortens = self.model.name.startswith("text-embedding-3")
        try:
            response = await self._client.embeddings.with_raw_response.create(
                model=self.model.name,
                input=texts,
                dimensions=self.model.dimensions if shortens else omit,
                encoding_format="float",
            )
        except APITimeoutError:
            raise EmbeddingUnavailable(provider, "no answer in time") from None
        except APIConnectionError:
            raise EmbeddingUnavailable(provider, "not reachable") from None
        except APIStatusError as error:
            raise describe_status(provider, error.status_code, error.response.headers) from None
        rows = _read_rows(provider, response.content)
        return check_vectors(provider, rows, len(texts), self.model.dimensions)


def _read_rows(provider: str, body: bytes) -> list[object]:
    """Extract the vectors from a response, in the order of its `index` fields."""
    try:
        items = orjson.loads(body)["data"]
        rows = {item["index"]: item["embedding"] for item in items}
        if len(rows) != len(items):
            raise EmbeddingUnavailable(provider, "malformed answer")
        return [rows[index] for index in sorted(rows)]
    except (ValueError, TypeError, KeyError):
        raise EmbeddingUnavailable(provider, "malformed answer") from None

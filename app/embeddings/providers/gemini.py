"""Embeddings from Google's Gemini API; needs the extra `gemini`."""

import httpx
from google.genai import Client, errors, types

from app.embeddings.provider import BatchLimits, EmbeddingModel, RemoteProvider, Vector, check_vectors, describe_status
from app.errors import EmbeddingUnavailable
from app.resilience import parse_retry_after

DEFAULT_BASE_URL = "https://generativelanguage.googleapis.com/"
_API_VERSION = "v1beta"  # the one that Google documents for embeddings
_NO_KEY = "none"  # a proxy may add the key; the SDK must not send one from the environment


class GeminiProvider(RemoteProvider):
    """Embeddings of the Gemini API."""

    batch = BatchLimits(texts=100, tokens=20_000)  # the API accepts at most 100 texts

    def __init__(
        self, model: EmbeddingModel, *, api_key: str | None, base_url: str | None = None, timeout: float = 60.0
    ) -> None:
        self.model = model
        # Given a client, the SDK does not use aiohttp, whose code path retries after its own delay. A redirect would
        # take the key, which is in a header of Google's own, and the texts to any address.
        self._http = httpx.AsyncClient(timeout=timeout, follow_redirects=False)
        self._client = Client(
            vertexai=False,
            api_key=api_key or _NO_KEY,
            http_options=types.HttpOptions(
                base_url=base_url or DEFAULT_BASE_URL,
                api_version=_API_VERSION,
                timeout=int(timeout * 1000),
                retry_options=types.HttpRetryOptions(attempts=1),
                httpx_async_client=self._http,
            ),
        )

    async def close(self) -> None:
        await self._http.aclose()
        self._client.close()

    async def request(self, texts: list[str], *, query: bool) -> list[Vector]:
        provider = self.model.provider
        # For some models, plain strings would be joined into one content and get one vector.
        contents: list[types.ContentUnion] = [types.Content(parts=[types.Part(text=text)]) for text in texts]
        task = "RETRIEVAL_QUERY" if query else "RETRIEVAL_DOCUMENT"
        config = types.EmbedContentConfig(task_type=task, output_dimensionality=self.model.dimensions)
        try:
            response = await self._client.aio.models.embed_content(
                model=self.model.name, contents=contents, config=config
            )
        except errors.APIError as error:
            raise _describe_error(provider, error) from None
        except httpx.TimeoutException:
            raise EmbeddingUnavailable(provider, "no answer in time") from None
        except httpx.HTTPError:
            raise EmbeddingUnavailable(provider, "not reachable") from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise EmbeddingUnavailable(provider, "malformed answer") from None
        rows = [embedding.values for embedding in response.embeddings or []]
        return check_vectors(provider, rows, len(texts), self.model.dimensions)


def _describe_error(provider: str, error: errors.APIError) -> EmbeddingUnavailable:
    details = _list_details(error)
    # A wrong key is a 400 here. Only this reason distinguishes it from a refused input.
    rejected = any(detail.get("reason") == "API_KEY_INVALID" for detail in details)
    headers = dict(getattr(error.response, "headers", None) or {})
    failure = describe_status(provider, error.code, headers, key_rejected=rejected)
    if not failure.permanent and failure.retry_after is None:
        delays = [str(detail["retryDelay"]).removesuffix("s") for detail in details if "retryDelay" in detail]
        failure.retry_after = parse_retry_after({"retry-after": delays[0]}) if delays else None
    return failure


def _list_details(error: errors.APIError) -> list[dict[str, object]]:
    body = error.details.get("error") if isinstance(error.details, dict) else None
    details = body.get("details") if isinstance(body, dict) else None
    return [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []

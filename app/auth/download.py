"""Small documents of an issuer, fetched within bounds."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx

from app.hosts import is_loopback

MAX_DOCUMENT_BYTES = 256 * 1024
FETCH_SECONDS = 5.0
"""Maximum time of one fetch, and of a request's wait for it."""


class Undeliverable(Exception):
    """The address did not answer with a small document; the text is for logs."""


async def download(client: httpx.AsyncClient, url: str) -> bytes:
    """The document at `url`, of at most MAX_DOCUMENT_BYTES; redirects are not followed.

    Raises Undeliverable, httpx.HTTPError and httpx.InvalidURL.
    """
    # Uncompressed, because a small compressed answer can be a very large one.
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    async with client.stream(
        "GET", url, headers=headers, follow_redirects=False, timeout=FETCH_SECONDS
    ) as response:
        if response.status_code != httpx.codes.OK:
            raise Undeliverable(f"status {response.status_code}")
        if response.headers.get("content-encoding", "identity") != "identity":
            raise Undeliverable("compressed, although not requested")
        document = bytearray()
        async for piece in response.aiter_raw():
            document += piece
            if len(document) > MAX_DOCUMENT_BYTES:
                raise Undeliverable(f"larger than {MAX_DOCUMENT_BYTES} bytes")
        return bytes(document)


def is_secure(url: str) -> bool:
    """Whether an address is https, or http on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))

"""GET /openapi.json: bytes that are generated once."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from dataclasses import dataclass

import orjson
from fastapi import FastAPI, Request, Response

from app.api.http.compression import accepts_gzip
from app.concurrency.background import start_background

PATH = "/openapi.json"


@dataclass(frozen=True, slots=True)
class Document:
    """The document's bytes, compressed and not, each with its ETag."""

    plain: bytes
    compressed: bytes
    digest: str

    def response(self, request: Request) -> Response:
        """The document, or 304 if the caller has it. It is checked at each use, since a release can change it."""
        coded = accepts_gzip(request.headers.get("accept-encoding", ""))
        tag = f'"{self.digest}-gzip"' if coded else f'"{self.digest}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        known = {
            part.strip().removeprefix("W/") for part in request.headers.get("if-none-match", "").split(",")
        }
        if known & {tag, "*"}:
            return Response(status_code=304, headers=headers)
        if coded:
            headers["Content-Encoding"] = "gzip"
        return Response(self.compressed if coded else self.plain, 200, headers, "application/json")


def install_document(app: FastAPI) -> None:
    """Serve the document, which is generated at the first request, in a thread."""
    generated: asyncio.Task[Document] | None = None

    @app.get(PATH, include_in_schema=False)
    async def openapi(request: Request) -> Response:
        nonlocal generated
        if generated is None:
            generated = start_background(asyncio.to_thread(_generate, app))
        return (await asyncio.shield(generated)).response(request)


def _generate(app: FastAPI) -> Document:
    plain = orjson.dumps(app.openapi())
    return Document(plain, gzip.compress(plain, mtime=0), hashlib.blake2b(plain, digest_size=16).hexdigest())

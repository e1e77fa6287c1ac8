"""Compression of long JSON answers, for callers that accept gzip."""

from __future__ import annotations

import re

from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipResponder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MIN_BYTES = 4096
"""Shorter answers fit in a few packets anyway."""

LEVEL = 1
"""Measured on two cores: 15 KB of hits become 4.6 KB in 60 µs, and 4.2 KB in 100 µs at level 9; 94 KB of a list become
27 KB in 0.6 ms, and 23 KB in 7.7 ms."""

PATHS = re.compile(r"/(knowledge|admin)/(?!assets/[^/]+/content$).*|/mcp")
"""Searches, lists, reports and results of tools. The bytes of a file stay as they are, and /openapi.json is stored
compressed. The console is left out: its callers send a cookie (see docs/deploy.md)."""

EXCLUDED = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "text/*")

NO_WEIGHT = re.compile(r"q=0(\.0{0,3})?")


class Compression:
    """Compresses the answers of `app`; which requests come here is decided by `applies_to`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, whose caller accepts gzip."""
        await _Responder(self._app, MIN_BYTES, LEVEL, exclude_content_types=EXCLUDED)(scope, receive, send)

    @staticmethod
    def applies_to(path: str) -> bool:
        """Whether answers of this path are compressed; all others pass unchanged."""
        return PATHS.fullmatch(path) is not None


class _Responder(GZipResponder):
    """Leaves an answer with an ETag as it is: the ETag would have to differ for each coding."""

    async def send_with_compression(self, message: Message) -> None:
        await super().send_with_compression(message)
        if message["type"] == "http.response.start" and not self.content_encoding_set:
            has_tag = any(name == b"etag" for name, _ in message["headers"])
            if has_tag and not (self.partial_response or self.content_type_is_excluded):
                self.content_encoding_set = True
                await self.send(message)


def accepts_gzip(header: str) -> bool:
    """Whether Accept-Encoding names gzip with a weight above 0."""
    for coding in header.split(","):
        name, _, weight = coding.replace(" ", "").lower().partition(";")
        if name in ("gzip", "x-gzip") and not NO_WEIGHT.fullmatch(weight):
            return True
    return False


def vary(status: int, headers: list[tuple[bytes, bytes]]) -> None:
    """Name Accept-Encoding in `Vary`, so that caches keep this answer apart from the compressed one."""
    known = dict(headers)
    length = known.get(b"content-length")
    kind = known.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    if (length is None or int(length) >= MIN_BYTES) and not (
        status == 206
        or b"content-encoding" in known
        or b"etag" in known
        or kind in EXCLUDED
        or f"{kind.partition('/')[0]}/*" in EXCLUDED
    ):
        others = known.get(b"vary", b"")
        headers[:] = [header for header in headers if header[0] != b"vary"]
        headers.append((b"vary", others + b", Accept-Encoding" if others else b"Accept-Encoding"))

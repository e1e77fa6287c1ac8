"""Compression of long JSON answers, for callers that accept gzip."""

from __future__ import annotations

import re

from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.types import ASGIApp

MIN_BYTES = 4096
"""Shorter answers fit in a few packets anyway."""

LEVEL = 1
"""Measured on two cores: 15 KB of hits become 4.6 KB in 60 µs, and 4.2 KB in 100 µs at level 9; 94 KB of a list become
27 KB in 0.6 ms, and 23 KB in 7.7 ms."""

PATHS = re.compile(r"/(knowledge|admin)/(?!assets/[^/]+/content$|entries/(?!bulk$)[^/]+$).*")
"""Searches, lists and reports. A single entry has an ETag, which would have to differ for each coding, and the bytes of
a file stay as they are; /openapi.json is stored compressed. The console is left out: its callers send a cookie (see
docs/deploy.md)."""

EXCLUDED = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "text/*")


class Compression(GZipMiddleware):
    """Compresses the answers of `app`; which requests come here is decided by `applies_to`."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, minimum_size=MIN_BYTES, compresslevel=LEVEL, exclude_content_types=EXCLUDED)

    @staticmethod
    def applies_to(path: str) -> bool:
        """Whether answers of this path are compressed; all others, such as those of /mcp, pass unchanged."""
        return PATHS.fullmatch(path) is not None


def vary(status: int, headers: list[tuple[bytes, bytes]]) -> None:
    """Name Accept-Encoding in `Vary`, so that caches keep this answer apart from the compressed one."""
    known = dict(headers)
    length = known.get(b"content-length")
    kind = known.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    if (length is None or int(length) >= MIN_BYTES) and not (
        status == 206
        or b"content-encoding" in known
        or kind in EXCLUDED
        or f"{kind.partition('/')[0]}/*" in EXCLUDED
    ):
        others = known.get(b"vary", b"")
        headers[:] = [header for header in headers if header[0] != b"vary"]
        headers.append((b"vary", others + b", Accept-Encoding" if others else b"Accept-Encoding"))

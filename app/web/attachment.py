"""Original bytes of an asset as an attachment that no browser opens as a page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

from fastapi import Response
from fastapi.responses import StreamingResponse

from app.db.queries.knowledge.contents import AssetContent
from app.documents.formats import FORMATS

RENDERED = frozenset({"text/html", "image/svg+xml"})
"""Types in which a browser would run scripts."""

SAFE_TYPES = frozenset(item.media_type for item in FORMATS) - RENDERED
"""Types under which bytes are returned; all others are returned as application/octet-stream."""


def attachment(content: AssetContent, parts: AsyncIterator[bytes]) -> Response:
    """The response with the bytes. The middleware adds `nosniff`."""
    safe = content.media_type in SAFE_TYPES
    headers = {
        "Content-Type": content.media_type if safe else "application/octet-stream",
        "Content-Length": str(content.byte_size),
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(content.name, safe='')}",
        "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
        "ETag": f'"{content.sha256.hex()}"',
        "Accept-Ranges": "none",
    }
    return StreamingResponse(parts, headers=headers)

"""HEAD, wherever GET is served (RFC 9110, section 9.1)."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web.methods import SENT


async def serve_as_get(serve: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve HEAD as the GET of its path, without the body."""
    ended = False

    async def send_head(message: Message) -> None:
        nonlocal ended
        if message["type"] == "http.response.start":
            await send(message)
        elif not ended:
            ended = True
            await send({"type": "http.response.body", "body": b""})

    inner = {**scope, "method": "GET", SENT: "HEAD"}
    try:
        await serve(inner, receive, send_head)
    finally:
        # The log and the metrics read what was found out about the request.
        scope.update({**inner, "method": "HEAD"})


def allow_head(headers: list[tuple[bytes, bytes]]) -> None:
    """Add HEAD to the header `Allow` if it has GET."""
    for place, (name, value) in enumerate(headers):
        allowed = [method.strip() for method in value.split(b",")]
        if name == b"allow" and b"GET" in allowed and b"HEAD" not in allowed:
            headers[place] = (name, b", ".join(sorted([*allowed, b"HEAD"])))

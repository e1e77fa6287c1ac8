"""The status and headers of an answer, completed as it is sent."""

from __future__ import annotations

from collections.abc import Collection

from starlette.types import Message, Scope, Send

from app.api.http.compression import vary
from app.api.http.draining import is_draining
from app.api.http.head import allow_head

RawHeaders = list[tuple[bytes, bytes]]

PROTECTION: RawHeaders = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]
"""Headers of every answer that has none of its own: nothing is kept, embedded, or run as a page."""


class ResponseHead:
    """Passes an answer on to `send`, and completes its head.

    Attributes:
        status: that of the answer; 500 until there is one.
        sent: whether it was sent, so that no other answer can follow.
        length: bytes of the answer's body so far.
        varies: whether a caller that accepts gzip may get another answer.
    """

    __slots__ = ("_request_id", "_scope", "_send", "length", "sent", "status", "varies")

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self._scope, self._send, self._request_id = scope, send, request_id
        self.status, self.length = 500, 0
        self.sent = self.varies = False

    async def send(self, message: Message) -> None:
        """Send one part of the answer."""
        if message["type"] == "http.response.start":
            self.status, self.sent = message["status"], True
            headers: RawHeaders = list(message.get("headers", ()))
            own = {name for name, _ in headers}
            _set(headers, own, b"x-request-id", self._request_id.encode())
            _set(headers, own, b"x-content-type-options", b"nosniff")
            headers += [header for header in PROTECTION if header[0] not in own]
            if self.status == 405:
                allow_head(headers)
            if self.varies:
                vary(self.status, headers)
            # Asked when the answer begins: the signal may come while the request is served.
            if is_draining(self._scope):
                _set(headers, own, b"connection", b"close")
            message["headers"] = headers
        elif message["type"] == "http.response.body":
            self.length += len(message.get("body", b""))
        await self._send(message)


def _set(headers: RawHeaders, own: Collection[bytes], name: bytes, value: bytes) -> None:
    if name in own:
        headers[:] = [header for header in headers if header[0] != name]
    headers.append((name, value))

"""Deprecated paths: their mark in the OpenAPI document, and the headers of their answers."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from email.utils import format_datetime
from typing import Any

from starlette.types import Message, Send

SINCE, SUNSET = "x-deprecated-since", "x-sunset"


def deprecated(since: date, sunset: date) -> dict[str, Any]:
    """The `openapi_extra` of a deprecated path; it is removed at its sunset at the earliest."""
    return {"deprecated": True, SINCE: since.isoformat(), SUNSET: sunset.isoformat()}


def deprecation_headers(extra: Mapping[str, Any] | None) -> list[tuple[bytes, bytes]]:
    """The headers of RFC 9745 and RFC 8594 for a path with this `openapi_extra`."""
    if extra is None or SINCE not in extra:
        return []
    since, sunset = (datetime.combine(date.fromisoformat(extra[name]), time(tzinfo=UTC)) for name in (SINCE, SUNSET))
    return [
        (b"deprecation", f"@{int(since.timestamp())}".encode()),
        (b"sunset", format_datetime(sunset, usegmt=True).encode()),
    ]


def add_headers(send: Send, headers: list[tuple[bytes, bytes]]) -> Send:
    """Send answers with further headers."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *headers]
        await send(message)

    return send_with_headers

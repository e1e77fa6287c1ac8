"""Classifies the errors of remote providers, for every SDK."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from app.errors import EmbeddingUnavailable

KEY_REJECTED = "key rejected"
_INPUT_STATUSES = frozenset({400, 413, 422})
_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})


class InputRefused(EmbeddingUnavailable):
    """The provider works but refuses this text; other texts are not affected."""

    def __init__(self, provider: str, reason: str, *, attempts: int = 1) -> None:
        super().__init__(provider, reason, attempts=attempts, permanent=True)


def describe_status(
    provider: str, status: int, headers: Mapping[str, str], *, key_rejected: bool = False
) -> EmbeddingUnavailable:
    """The failure behind an HTTP status. The response's text is omitted, since it may quote the key or content."""
    if key_rejected or status in (401, 403):
        return EmbeddingUnavailable(provider, f"{KEY_REJECTED} (HTTP {status})", permanent=True)
    if status in _INPUT_STATUSES:
        return InputRefused(provider, f"input refused (HTTP {status})")
    if status == 404:
        return EmbeddingUnavailable(provider, "no such model or address (HTTP 404)", permanent=True)
    reason = "rate limit reached" if status == 429 else "server error" if status >= 500 else "refused"
    return EmbeddingUnavailable(
        provider,
        f"{reason} (HTTP {status})",
        retry_after=parse_retry_after(headers),
        permanent=status < 500 and status not in _TRANSIENT_STATUSES,
    )


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Read `retry-after-ms` or `Retry-After` (seconds or a date) as seconds from now; None if both are missing."""
    for name, divisor in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) / divisor
        except ValueError:
            continue
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())

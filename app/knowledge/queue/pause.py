"""How long jobs pause after a failure of their provider."""

from __future__ import annotations

import logging

from app.errors import EmbeddingUnavailable

log = logging.getLogger("app.knowledge.queue")

PAUSE_SECONDS = 15.0
LONG_PAUSE_SECONDS = 60.0
"""After a refusal that waiting does not resolve, such as a rejected key."""
LONGEST_PAUSE_SECONDS = 900.0
"""Upper bound, even if the provider asks for a longer pause."""


def choose_pause(error: EmbeddingUnavailable) -> float:
    """Choose and log the number of seconds for which no job calls the provider."""
    pause = error.retry_after or (LONG_PAUSE_SECONDS if error.permanent else PAUSE_SECONDS)
    pause = min(pause, LONGEST_PAUSE_SECONDS)
    log.warning(
        "the provider is unavailable; its jobs wait",
        extra={"provider": error.provider, "seconds": round(pause, 1)},
    )
    return pause

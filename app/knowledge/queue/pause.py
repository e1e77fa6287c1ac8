"""How long work leaves a provider alone that did not answer."""

from __future__ import annotations

import logging

from app.errors import EmbeddingUnavailable

log = logging.getLogger("app.knowledge.queue")

PAUSE_SECONDS = 15.0
LONG_PAUSE_SECONDS = 60.0
"""For a refusal that waiting does not mend, such as a rejected key."""
LONGEST_PAUSE_SECONDS = 900.0
"""A provider that asks for more is asked again nevertheless."""


def choose_pause(error: EmbeddingUnavailable) -> float:
    """Seconds for which no queued work asks the provider again; the log says so."""
    pause = error.retry_after or (LONG_PAUSE_SECONDS if error.permanent else PAUSE_SECONDS)
    pause = min(pause, LONGEST_PAUSE_SECONDS)
    log.warning(
        "the provider is unavailable; its jobs wait",
        extra={"provider": error.provider, "seconds": round(pause, 1)},
    )
    return pause

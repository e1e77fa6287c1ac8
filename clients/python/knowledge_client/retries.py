"""When a request is sent again, and after which delay."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from knowledge_client.errors import read_retry_after
from knowledge_client.transport import NotAnswered, Response

AWAY = frozenset({502, 503, 504})


class Retries(NamedTuple):
    """Limits of retries. Times are in seconds.

    At most `attempts` requests are sent in total. Sent again are requests that were refused with 429 or never reached
    the service and, if repeating them is harmless, requests that ended in a broken connection or 502, 503 or 504. The
    delay is Retry-After if the service sends it; otherwise it doubles from `first` to `longest`. A random part is added
    or subtracted, so that many clients do not return together. A Retry-After above `longest` is not waited for.
    """

    attempts: int = 4
    first: float = 0.5
    longest: float = 30.0
    draw: Callable[[], float] = random.random

    def delay(self, tries: int, outcome: Response | NotAnswered, *, repeatable: bool) -> float | None:
        """Seconds to wait after the `tries`-th attempt had this outcome, or None to give up."""
        if tries >= self.attempts or not self._may_repeat(outcome, repeatable):
            return None
        wait = min(self.longest, self.first * 2.0 ** (tries - 1))
        if isinstance(outcome, Response):
            named = read_retry_after(outcome.find_header("retry-after"))
            if named is not None:
                return named + self.first * self.draw() if named <= self.longest else None
        return wait * (0.5 + 0.5 * self.draw())

    def _may_repeat(self, outcome: Response | NotAnswered, repeatable: bool) -> bool:
        if isinstance(outcome, Response):
            return outcome.status_code == 429 or (repeatable and outcome.status_code in AWAY)
        return repeatable or not outcome.sent

"""Identifiers of stored things."""

from __future__ import annotations

import secrets
import threading
import time
from uuid import UUID

_lock = threading.Lock()
_last = 0
"""Milliseconds since 1970 and their fraction in 4096ths, as the newest id has them."""


def new_id() -> UUID:
    """A UUID version 7 (RFC 9562) that is greater than any that this process made before.

    So rows land side by side in their indexes, and those of the same moment have an order. The 12 bits after the
    milliseconds are their fraction (the RFC's method 3); where the clock stands still or is set back, they count on.
    """
    global _last
    moment = (time.time_ns() << 12) // 1_000_000
    with _lock:
        _last = moment = max(moment, _last + 1)
    milliseconds, fraction = moment >> 12 & (1 << 48) - 1, moment & 0xFFF
    value = milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | secrets.randbits(62)
    return UUID(int=value)

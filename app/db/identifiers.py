"""Identifiers of stored things."""

from __future__ import annotations

import secrets
import time
from uuid import UUID


def new_id() -> UUID:
    """A UUID version 7 (RFC 9562): new rows land side by side in their indexes."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & (1 << 48) - 1) << 80 | 0x7 << 76 | secrets.randbits(12) << 64
    return UUID(int=value | 0b10 << 62 | secrets.randbits(62))

"""Creates an engine for a database address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine


def make_engine(dsn: str, *, connect_args: Mapping[str, Any] | None = None, **options: Any) -> AsyncEngine:
    """An engine for a `postgresql://` address.

    The driver parses the address itself: SQLAlchemy would pass `sslmode` and similar options as arguments that the
    driver does not accept.
    """
    address = dsn.replace("postgresql+asyncpg://", "postgresql://", 1)
    return create_async_engine(
        "postgresql+asyncpg://", connect_args={**(connect_args or {}), "dsn": address}, **options
    )

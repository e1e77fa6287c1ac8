"""Making an engine for a database address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine


def make_engine(dsn: str, *, connect_args: Mapping[str, Any] | None = None, **options: Any) -> AsyncEngine:
    """An engine for a `postgresql://` address.

    The driver reads the address itself: SQLAlchemy would hand it `sslmode` and the like as arguments that it does
    not take.
    """
    address = dsn.replace("postgresql+asyncpg://", "postgresql://", 1)
    return create_async_engine(
        "postgresql+asyncpg://", connect_args={**(connect_args or {}), "dsn": address}, **options
    )

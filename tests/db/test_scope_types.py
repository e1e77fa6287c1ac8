"""A query without a tenant is an error before any statement runs."""

from __future__ import annotations

import pytest

from app.db.database import Database
from app.db.queries.entries import fetch_entries
from tests.fixtures.database.seeded import Seeded


async def test_unscoped_query_is_an_error(seeded: Seeded, single: Database) -> None:
    async with single.tenant_session(seeded.first) as session:
        assert await fetch_entries(session, [seeded.first]) == {}
    async with single.platform_session() as platform:
        with pytest.raises(KeyError, match="tenant_id"):
            # `make check` refuses an unused `ignore`, so that this is an error of types, too.
            await fetch_entries(platform, [seeded.first])  # type: ignore[arg-type]
        assert not platform.has_written

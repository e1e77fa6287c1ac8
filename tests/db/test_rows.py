"""Rows as objects of a dataclass."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from app.db.database import Database
from app.db.statements import parse_statement
from tests.fixtures.database.seeded import Seeded

PAIR = parse_statement("pair", "select 1 as first, 'one' as second")
SWAPPED = parse_statement("swapped", "select 'one' as second, 1 as first")
NONE = parse_statement("none", "select 1 as first, 'one' as second where false")


@dataclass(frozen=True, slots=True)
class Pair:
    """The columns of the statements above."""

    first: int
    second: str


async def test_rows_are_read_as_a_dataclass_whose_fields_are_the_columns(seeded: Seeded) -> None:
    database = Database(seeded.database.service_dsn, pool_size=1)
    try:
        async with database.tenant_session(seeded.first) as session:
            assert await session.fetch_as(Pair, PAIR) == [Pair(1, "one")]
            assert await session.fetch_one_as(Pair, PAIR) == Pair(1, "one")
            assert await session.fetch_one_as(Pair, NONE) is None
            with pytest.raises(TypeError, match="second, first are not the fields of Pair"):
                await session.fetch_as(Pair, SWAPPED)
    finally:
        await database.close()

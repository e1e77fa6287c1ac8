"""The driver's knowledge of types."""

from __future__ import annotations

import asyncpg
import pytest

from app.db.engine import DESCRIBE_TYPES
from tests.fixtures.database.cluster import connected


@pytest.mark.parametrize(
    "name",
    ["entry_filter", "halfvec[]", "entries", "jsonb[]", "information_schema.yes_or_no", "int4range",
     "int4multirange[]", "entry_filter[]", "text"],
)  # fmt: skip
async def test_a_type_is_described_as_the_driver_would(service_dsn: str, name: str) -> None:
    async with connected(service_dsn) as connection:
        oid = await connection.fetchval(f"select '{name}'::regtype::oid")
        query: str = connection._intro_query  # type: ignore[attr-defined]
        expected = await connection.fetch(query, [oid])
        found = await connection.fetch(DESCRIBE_TYPES, [oid])

    def essence(rows: list[asyncpg.Record]) -> dict[int, dict[str, object]]:
        return {row["oid"]: {key: value for key, value in row.items() if key != "depth"} for row in rows}

    assert essence(found) == essence(expected)
    places = {row["oid"]: place for place, row in enumerate(found)}
    for row in found:
        for part in (row["elemtype"], row["basetype"], row["range_subtype"], *(row["attrtypoids"] or ())):
            assert not part or part == row["oid"] or places[part] < places[row["oid"]]

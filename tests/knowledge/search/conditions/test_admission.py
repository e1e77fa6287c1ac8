"""A filter admits exactly the entries that it admits by its description, also where an index answers a part of it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.queries.search import filtered_ids
from app.knowledge.search.query import filter_of
from tests.fixtures.database.cluster import connected
from tests.knowledge.search.conditions import oracle

ENTRIES = 60
LATER = "2200-01-01T00:00:00Z"
SETTINGS: Mapping[str, Any] = {"database": None, "deadline": None, "suppress_health_check": list(HealthCheck)}


@dataclass(frozen=True, slots=True)
class Filled:
    """A tenant, and its entries as the oracle sees them."""

    services: Services
    tenant: Tenant
    entries: Mapping[UUID, oracle.Fields]
    loop: asyncio.AbstractEventLoop

    def admitted(self, filter_json: Mapping[str, Any]) -> set[UUID]:
        """The entries that the database admits."""
        entry_filter = filter_of(SearchQuery(query="common", filter=filter_json))

        async def ask() -> list[UUID]:
            async with self.services.database.tenant_session(self.tenant.id) as session:
                return await filtered_ids(session, entry_filter, ENTRIES + 1)

        return set(self.loop.run_until_complete(ask()))

    def expected(self, filter_json: Mapping[str, Any]) -> set[UUID]:
        """The entries that fulfil the filter."""
        return {entry_id for entry_id, entry in self.entries.items() if oracle.passes(entry, filter_json)}


@pytest.fixture
async def filled(services: Services, tenant: Tenant, superuser_dsn: str) -> Filled:
    made: list[dict[str, Any]] = []

    @settings(max_examples=ENTRIES, derandomize=True, **SETTINGS)
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        own = {
            name: data.draw(st.sampled_from(oracle.OWN[name]))
            for name in ("entry_type", "title", "scope", "confidence", "is_verified", "created_at", "updated_at")
        }
        lists = {
            "tags": data.draw(st.lists(st.sampled_from(oracle.OWN["tags"]), unique=True)),
            "roles": data.draw(st.lists(st.sampled_from(oracle.OWN["roles"]), min_size=1, unique=True)),
        }
        made.append({**own, **lists, "metadata": data.draw(oracle.metadata), "expires_at": None})

    await asyncio.to_thread(draw)
    made = made[:ENTRIES]
    drafts = [
        EntryDraft(
            content=f"common {n}",
            language="english",
            external_id=f"e{n}" if n % 2 else None,
            **{name: fields[name] for name in ("entry_type", "title", "scope", "confidence", "is_verified")},
            **{name: fields[name] for name in ("tags", "roles", "metadata")},
        )
        for n, fields in enumerate(made)
    ]
    outcomes = await services.entries.create_many(tenant.id, drafts)
    entries: dict[UUID, oracle.Fields] = {}
    async with connected(superuser_dsn) as superuser:
        for n, (fields, outcome) in enumerate(zip(made, outcomes, strict=True)):
            assert outcome.id is not None
            entries[outcome.id] = {
                **fields,
                "source": "entry",
                "asset_id": None,
                "language": "english",
                "external_id": f"e{n}" if n % 2 else None,
            }
            await superuser.execute(
                "update entries set created_at = $3, updated_at = $4 where tenant_id = $1 and id = $2",
                tenant.id, outcome.id, fields["created_at"], fields["updated_at"],
            )  # fmt: skip
    return Filled(services, tenant, entries, asyncio.get_running_loop())


@pytest.mark.parametrize("examples", [40, pytest.param(1_500, marks=pytest.mark.slow)])
def test_filters_admit_the_entries_that_fulfil_them(filled: Filled, examples: int) -> None:
    @settings(max_examples=examples, derandomize=examples < 1_000, **SETTINGS)
    @given(oracle.filters)
    def compare(filter_json: dict[str, Any]) -> None:
        expected = filled.expected(filter_json)
        assert filled.admitted(filter_json) == expected
        assert filled.admitted({"not": filter_json}) == filled.entries.keys() - expected

    compare()

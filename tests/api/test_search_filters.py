"""The filters of a search, over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.db.rows import new_id
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.providers.failing import FailingProvider

ENTRIES: list[dict[str, Any]] = [
    {"content": "word for all", "tags": ["a"], "confidence": 0.2},
    {"content": "word for dev", "roles": ["dev"], "tags": ["a", "b"], "entry_type": "lesson"},
    {"content": "word for qa", "roles": ["qa"], "tags": ["c"], "entry_type": "summary", "scope": "project"},
    {"content": "word for both", "roles": ["dev", "qa"], "metadata": {"team": "red", "n": 1, "x": {"y": 2}}},
]


@pytest.fixture(scope="module")
async def filterable(http: httpx.AsyncClient, api_services: Services, shared_provider: FailingProvider) -> Caller:
    """The admin of a tenant with `ENTRIES`, all of which are also near the query semantically."""
    tenant = await api_services.tenants.create(NewTenant(f"f-{new_id().hex}"), actor="test")
    admin = Caller(http, tenant.id, make_token(tenant.id, Role.TENANT_ADMIN))
    shared_provider.down = False
    for entry in ENTRIES:
        shared_provider.vectors[entry["content"]] = shared_provider.direction(1.0)
        await admin.add(**entry)
    return admin


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, {"all", "dev", "qa", "both"}),
        ({"role": "dev"}, {"all", "dev", "both"}),
        ({"role": "qa"}, {"all", "qa", "both"}),
        ({"role": "pm"}, {"all"}),
        ({"role": "all"}, {"all"}),
        ({"tags": ["a"]}, {"all", "dev"}),
        ({"tags": ["a", "c"]}, {"all", "dev", "qa"}),
        ({"tags": ["a", "b"], "tags_match": "all"}, {"dev"}),
        ({"tags": ["a", "c"], "tags_match": "all"}, set()),
        ({"tags": ["none"]}, set()),
        ({"entry_type": "lesson"}, {"dev"}),
        ({"entry_type": ["lesson", "summary"]}, {"dev", "qa"}),
        ({"min_confidence": 0.2}, {"all", "dev", "qa", "both"}),
        ({"min_confidence": 0.21}, {"dev", "qa", "both"}),
        ({"scope": "project"}, {"qa"}),
        ({"scope": "global"}, {"all", "dev", "both"}),
        ({"source": "entry"}, {"all", "dev", "qa", "both"}),
        ({"source": "asset"}, set()),
        ({"asset_id": [str(uuid4())]}, set()),
        ({"metadata": {"team": "red"}}, {"both"}),
        ({"metadata": {"team": "red", "n": 1}}, {"both"}),
        ({"metadata": {"x": {"y": 2}}}, {"both"}),
        ({"metadata": {"team": "blue"}}, set()),
        ({"role": "dev", "tags": ["b"], "entry_type": "lesson", "scope": "global"}, {"dev"}),
    ],
)
async def test_a_filter_applies_in_every_mode(
    filterable: Caller, provider: FailingProvider, filters: dict[str, Any], expected: set[str]
) -> None:
    provider.vectors["word"] = provider.direction(1.0)
    for mode in ("keyword", "semantic", "hybrid"):
        found = await filterable.search("word", mode=mode, **filters)
        assert {hit["content"].split()[-1] for hit in found["results"]} == expected, mode


async def test_superseded_and_expired_entries_are_hidden(admin: Caller) -> None:
    new = await admin.add("The new word")
    old = await admin.add("The old word", superseded_by_id=new["id"])
    await admin.add("The late word", expires_at=(datetime.now(UTC) - timedelta(seconds=1)).isoformat())
    await admin.add("The last word", expires_at=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
    assert set(await admin.find("word")) == {"The new word", "The last word"}
    found = await admin.search("word", mode="keyword", include_superseded=True)
    assert {hit["content"] for hit in found["results"]} == {"The new word", "The old word", "The last word"}
    assert {h["superseded_by_id"] for h in found["results"] if h["id"] == old["id"]} == {new["id"]}

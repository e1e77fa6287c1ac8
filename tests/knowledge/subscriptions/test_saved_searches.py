"""Saved searches: each is visible only to its owner."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from app.contract.administration import NewTenant
from app.contract.saved_searches import NewSavedSearch
from app.contract.search import SearchQuery, Weights
from app.errors import Conflict, InvalidInput, SavedSearchNotFound
from app.knowledge.subscriptions import service as subscriptions
from app.knowledge.subscriptions.service import read_request
from tests.knowledge.subscriptions.subscribing import Desk

REQUEST = {
    "query": " harbour ",
    "limit": 3,
    "weights": {"semantic": 0.5, "keyword": 0.5},
    "asset_id": ["0198c5a2-7d1e-7a60-8d0b-3d5f0a4c9e11"],
    "metadata": {"port": 1},
    "tags": ["sea"],
}


async def test_a_saved_search_is_visible_only_to_its_owner(desk: Desk) -> None:
    service, tenant = desk.services.saved_searches, desk.tenant.id
    other = await desk.services.tenants.create(NewTenant("other"), actor="test")
    saved, new = await service.save(tenant, "anna", NewSavedSearch(" harbours ", REQUEST))
    assert (new, saved.name, saved.request, saved.subscribed) == (
        True,
        "harbours",
        REQUEST | {"query": "harbour"},
        False,
    )
    assert await service.get(tenant, "anna", saved.id) == saved
    for tenant_id, owner in ((tenant, "berta"), (other.id, "anna")):
        with pytest.raises(SavedSearchNotFound):
            await service.get(tenant_id, owner, saved.id)
        with pytest.raises(SavedSearchNotFound):
            await service.delete(tenant_id, owner, saved.id)
        assert (await service.list_saved(tenant_id, owner)).items == []
    await service.delete(tenant, "anna", saved.id)
    with pytest.raises(SavedSearchNotFound):
        await service.get(tenant, "anna", saved.id)


async def test_the_same_name_again_replaces_the_request_and_keeps_the_id(desk: Desk) -> None:
    service, tenant = desk.services.saved_searches, desk.tenant.id
    first, _ = await service.save(tenant, "anna", NewSavedSearch("n", {"query": "harbour"}))
    await service.save(tenant, "berta", NewSavedSearch("n", {"query": "lamp"}))
    second, new = await service.save(tenant, "anna", NewSavedSearch("n", {"query": "ship"}))
    assert (new, second.id, second.request) == (False, first.id, {"query": "ship"})
    assert [s.request["query"] for s in (await service.list_saved(tenant, "berta")).items] == ["lamp"]


async def test_lists_are_paged_newest_first(desk: Desk) -> None:
    service, tenant = desk.services.saved_searches, desk.tenant.id
    for name in "abcde":
        await service.save(tenant, "anna", NewSavedSearch(name, {"query": name}))
    names: list[str] = []
    cursor = None
    while True:
        page = await service.list_saved(tenant, "anna", limit=2, cursor=cursor)
        names += [s.name for s in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert names == list("edcba")


async def test_the_number_of_saved_searches_of_an_owner_is_limited(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_SAVED", 1)
    service, tenant = desk.services.saved_searches, desk.tenant.id
    await service.save(tenant, "anna", NewSavedSearch("a", {"query": "harbour"}))
    with pytest.raises(Conflict, match="1 saved searches are the maximum"):
        await service.save(tenant, "anna", NewSavedSearch("b", {"query": "harbour"}))
    await service.save(tenant, "anna", NewSavedSearch("a", {"query": "lamp"}))
    await service.save(tenant, "berta", NewSavedSearch("b", {"query": "harbour"}))


async def test_changes_and_refusals_are_audited(desk: Desk) -> None:
    service, tenant = desk.services.saved_searches, desk.tenant.id
    saved, _ = await service.save(tenant, "anna", NewSavedSearch("n", {"query": "the secret harbour"}))
    with pytest.raises(SavedSearchNotFound):
        await service.delete(tenant, "berta", saved.id)
    await service.delete(tenant, "anna", saved.id)
    trail = (await desk.services.administration.audit(tenant)).items
    assert [(r.actor, r.action, r.outcome, list(r.subject_ids)) for r in trail] == [
        ("anna", "saved_search.delete", "done", [saved.id]),
        ("berta", "saved_search.delete", "refused", [saved.id]),
        ("anna", "saved_search.write", "done", [saved.id]),
    ]
    assert "secret" not in str(trail)


def test_a_stored_request_becomes_the_same_search() -> None:
    query = read_request(REQUEST)
    assert (query.query, query.limit, query.weights) == ("harbour", 3, Weights(0.5, 0.5))
    assert [str(i) for i in query.asset_id or ()] == REQUEST["asset_id"]
    assert read_request({"query": "x", "role": None}) == SearchQuery(query="x")


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"query": ""}, "request.query"),
        ({"query": "x", "limit": 0}, "request.limit"),
        ({"query": "x", "weights": {"semantic": 1, "keyword": 1}}, "request.weights"),
        ({"query": "x", "cursor": "abc"}, "request.cursor"),
        ({"query": "x", "colour": "red"}, "request.colour"),
        ({"query": "x", "asset_id": ["no id"]}, "request.asset_id.0"),
        ({"query": "x", "weights": 7}, "request.weights"),
        ({}, "request.query"),
    ],
)
def test_an_invalid_search_is_refused_with_its_field(request_: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_request(request_)
    assert [e.field for e in refusal.value.errors] == [field]


async def test_an_unknown_id_is_not_found(desk: Desk) -> None:
    with pytest.raises(SavedSearchNotFound):
        await desk.services.saved_searches.get(desk.tenant.id, "anna", uuid4())

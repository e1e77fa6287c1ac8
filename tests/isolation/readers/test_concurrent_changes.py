"""Permissions that other requests change between the look at an item and its change."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.access import AccessPatch, AccessSelection, ItemKind, ListChange
from app.db.principals import Rights, acting_as, principals_of
from app.db.queries import access, assets, entries
from app.db.session import TenantSession
from app.knowledge.permissions import ItemChanges, read_selection
from tests.fixtures.http.callers import Caller
from tests.isolation.readers.conftest import Join

ANN = principals_of("ann", ["finance"])
BOTH = ["group:finance", "group:hr"]


async def test_a_grant_does_not_bring_a_removed_reader_back(join: Join, admin: Caller, api_services: Services) -> None:
    ann = join("ann", "finance")
    entry = await ann.add("The payroll", readers=BOTH)
    asset = (await ann.upload("a.md", b"The payroll of May", "text/markdown", readers=BOTH)).json()
    tenant_id = admin.tenant_id
    assert tenant_id is not None
    zoe = ListChange(add=["user:zoe"])
    kinds: list[tuple[ItemKind, str, str]] = [("entry", "entries", entry["id"]), ("asset", "assets", asset["id"])]
    for kind, path, item_id in kinds:
        one = AccessSelection(ids=[UUID(item_id)])
        wanted = read_selection(one)
        hr = read_selection(AccessSelection(ids=[UUID(item_id)], principal="group:hr"))
        with acting_as(ANN, Rights.WRITE):
            async with api_services.database.tenant_session(tenant_id) as session:
                (before,) = await access.select_items(session, kind, wanted, None, 1)
        removed = await ann.patch(f"/knowledge/{path}/{item_id}", {"readers": ["group:finance"]})
        assert removed.status_code == 200
        for selection, changes in ((hr, 0), (wanted, 1)):
            items = ItemChanges(
                database=api_services.database,
                entries=api_services.entries,
                assets=api_services.assets,
                tenant_id=tenant_id,
                kind=kind,
                selection=selection,
                change=AccessPatch(where=one, readers=zoe),
                actor="ann",
            )
            with acting_as(ANN, Rights.WRITE):
                await items.apply(before)
            assert (items.changed, items.failures) == (changes, {})
        now = (await ann.get(f"/knowledge/{path}/{item_id}")).json()
        assert now["readers"] == ["group:finance", "user:zoe"]


async def test_a_list_leaves_out_what_is_hidden_while_it_is_read(join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, cleo = join("ann", "finance"), join("cleo", "board")
    ids = {
        "entries": [(await ann.add(text))["id"] for text in ("The pier opens", "The payroll")],
        "assets": [(await ann.upload("a.md", text, "text/markdown")).json()["id"] for text in (b"The quay", b"Wages")],
    }
    for name, module, fetch in (("entries", entries, entries.fetch_entries), ("assets", assets, assets.fetch_assets)):
        seen, hidden = ids[name]

        async def hide_first(
            session: TenantSession, wanted: Sequence[UUID], fetch: Any = fetch, path: str = f"{name}/{hidden}"
        ) -> Any:
            monkeypatch.undo()
            await ann.patch(f"/knowledge/{path}", {"readers": ["group:finance"]})
            return await fetch(session, wanted)

        monkeypatch.setattr(module, fetch.__name__, hide_first)
        listed = await cleo.get(f"/knowledge/{name}?limit=2")
        assert [item["id"] for item in listed.json()["items"]] == [seen]

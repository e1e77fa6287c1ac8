"""Each place in HTTP and the MCP tools that takes an id, by each principal, with ids of items that it may not read."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import httpx
from fastapi import FastAPI

from app.auth.principal import Role
from app.composition.services import Services
from app.mcp.tools import TOOLS
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller
from tests.isolation.answers import call, normalise
from tests.isolation.holdings import fill, snapshot
from tests.isolation.places import Place, list_places, list_tool_places
from tests.isolation.readers.conftest import Join

ORDER = {"GET": 0, "POST": 1, "PUT": 1, "PATCH": 1, "DELETE": 2}
"""What an item's readers may do with it is tried in this order, so that it is deleted last."""
HIDDEN = "bluebird"
ENTRY, ASSET = "entry_id", "asset_id"


async def hide(insider: Caller, work: Work) -> dict[str, str]:
    """Write an entry with a version, and an asset, that only the insider's group may read; returns their ids."""
    entry = await insider.add(f"{HIDDEN} sings", tags=[HIDDEN, "harbour"], readers=["group:finance"])
    await insider.add(f"{HIDDEN} sings twice", parent_id=entry["id"], readers=["group:finance"])
    await insider.patch(f"/knowledge/entries/{entry['id']}", {"title": f"{HIDDEN} title"})
    text = f"# {HIDDEN}\n\nThe {HIDDEN} at the harbour.".encode()
    asset = await insider.upload(f"{HIDDEN}.md", text, "text/markdown", readers=["group:finance"])
    await work()
    chunks = await insider.get("/knowledge/entries", params={"asset_id": asset.json()["id"]})
    return {ENTRY: entry["id"], ASSET: asset.json()["id"], "chunk": chunks.json()["items"][0]["id"]}


def find_places(app: FastAPI) -> list[Place]:
    """All but those of cursors, and of searches: no principal has another's, and the service waits for unknown ones."""
    tools = list_tool_places({name: tool.input_schema for name, tool in TOOLS.items()})
    return [
        place
        for place in (*list_places(app.openapi()), *tools)
        if not place.is_cursor and place.spot[-1] != "search_id"
    ]


async def test_ids_of_hidden_items_get_the_response_of_unknown_ones(
    app: FastAPI, admin: Caller, join: Join, work: Work, api_database: TestDatabase, api_services: Services
) -> None:
    """Place × principal × kind of item; and each place that takes such an id takes it from those who may read it."""
    insider = join("ann", "finance")
    outsiders = {
        "a creator": join("cleo", "board"),
        "a reader": join("rita", "financ", role=Role.READER),
        "an admin": admin,
    }
    hidden = await hide(insider, work)
    owns = {
        name: await fill(outsiders["a creator"] if name == "a reader" else caller, f"sparrow{n}", work,
                         with_sources=False, lists=())
        for n, (name, caller) in enumerate(outsiders.items())
    }  # fmt: skip
    places = find_places(app)
    await api_services.close()
    async with connected(api_database.superuser_dsn) as superuser:
        before = await _hidden_rows(superuser, admin.tenant_id)
        different = []
        for name, caller in outsiders.items():
            for place in places:
                for kind, value in hidden.items():
                    answers = [await call(caller, place, v, owns[name]) for v in (value, str(uuid4()))]
                    if answers[0] != answers[1] or HIDDEN.encode() in answers[0][2]:
                        different.append(f"{place} by {name} with {kind}: {answers[0]} and {answers[1]}")
        assert different == []
        await api_services.close()
        assert await _hidden_rows(superuser, admin.tenant_id) == before
    seeing_all = SeeingAll(admin.http, admin.tenant_id, admin.token)
    told = await _told(seeing_all, [p for p in places if p.method == "GET"], hidden)
    told |= await _told(insider, places, hidden)
    expected = {
        f"{method} /knowledge/{kind}s/{{{kind}_id}}{part}".replace("/entrys/", "/entries/")
        for kind, parts in (("entry", ("", "/related", "/versions")), ("asset", ("", "/text", "/content")))
        for method, part in (*(("GET", part) for part in parts), ("PATCH", ""), ("DELETE", ""))
    }
    expected |= {"GET /admin/access/entries/{entry_id}", "POST /mcp"}
    assert expected <= told
    print(f"{len(places)} places, {len(told)} of which answer those who may read")  # noqa: T201


async def _hidden_rows(superuser: Any, tenant_id: Any) -> list[str]:
    return [row for row in await snapshot(superuser, tenant_id) if HIDDEN in row and not row.startswith("audit ")]


class SeeingAll(Caller):
    """A caller that asks to see all."""

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"X-KB-Access": "all", **options.pop("headers", {})}
        return await super().request(method, path, headers=headers, **options)


async def _told(caller: Caller, places: list[Place], ids: Mapping[str, str]) -> set[str]:
    """The operations whose answer to one of the ids differs from that to an unknown one."""
    told = set()
    for place in sorted(places, key=lambda each: ORDER[each.method]):
        for value in ids.values():
            known, unknown = [await _answer(caller, place, v) for v in (value, str(uuid4()))]
            if known != unknown:
                told.add(f"{place.method} {place.path}")
    return told


async def _answer(caller: Caller, place: Place, value: str) -> tuple[object, ...]:
    path, options = place.fill(value, {})
    return normalise(await caller.request(place.method, path, **options), value)

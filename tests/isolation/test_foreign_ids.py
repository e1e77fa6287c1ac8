"""Another tenant's id gets the same response as an unknown id, byte for byte, except for varying fields."""

from uuid import uuid4

import pytest
from fastapi import FastAPI

from app.composition.services import Services
from app.mcp.tools import TOOLS
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller
from tests.isolation.answers import call, normalise
from tests.isolation.holdings import fill, replace_cursor_id, snapshot
from tests.isolation.places import list_places, list_tool_places


async def test_another_tenants_ids_get_the_response_of_unknown_ones(
    app: FastAPI, admin: Caller, stranger: Caller, work: Work, api_database: TestDatabase, api_services: Services
) -> None:
    theirs, own = await fill(admin, "bluebird", work), await fill(stranger, "sparrow", work)
    await api_services.close()  # the receipts and the tokens of searches are written in the background
    async with connected(api_database.superuser_dsn) as superuser:
        known = {
            str(row["id"])
            for table in ("entries", "assets", "searches", "saved_searches", "audit")
            for row in await superuser.fetch(f"select id from {table} where tenant_id = $1", admin.tenant_id)
        }
        assert theirs.ids["search_id"] in known
        before = await snapshot(superuser, admin.tenant_id)
        tools = list_tool_places({name: tool.input_schema for name, tool in TOOLS.items()})
        places = [*list_places(app.openapi()), *tools]
        calls, different = 0, []
        for place in places:
            # The service also waits for a search that is not written yet.
            kinds = ["search_id"] if place.spot[-1] == "search_id" else list(theirs.ids)
            pairs = [(theirs.ids[kind], str(uuid4())) for kind in kinds]
            if place.is_cursor:
                # The service looks for a search's cursor for a while, because another instance may be about to write
                # it.
                wanted = {"query": [v for k, v in theirs.cursors.items() if k != "search"]}
                pairs = [(c, replace_cursor_id(c, known)) for c in wanted.get(place.kind, [theirs.cursors["search"]])]
            for foreign, unknown in pairs:
                calls += 1
                answers = [await call(stranger, place, value, own) for value in (foreign, unknown)]
                if answers[0] != answers[1] or b"bluebird" in answers[0][2]:
                    different.append(f"{place}: {answers[0]} and {answers[1]}")
        assert different == []
        assert len(places) >= 40
        assert len(tools) >= 7
        await api_services.close()
        assert await snapshot(superuser, admin.tenant_id) == before
    print(f"{len(places)} places, {calls} pairs of calls")  # noqa: T201


async def test_another_tenants_data_causes_no_conflict(admin: Caller, stranger: Caller, work: Work) -> None:
    """Names and contents are unique within a tenant: a conflict would reveal another tenant's data."""
    await fill(admin, "bluebird", work)
    await fill(stranger, "bluebird", work)
    await work()
    lists = [await caller.get("/knowledge/entries", params={"limit": 200}) for caller in (admin, stranger)]
    theirs, own = ({e["id"]: e["content"] for e in answer.json()["items"]} for answer in lists)
    assert sorted(theirs.values()) == sorted(own.values())
    assert theirs.keys().isdisjoint(own)


@pytest.mark.parametrize("header", ['"1"', '"999"', "*"])
async def test_if_match_reveals_nothing_about_another_tenants_entry(
    admin: Caller, stranger: Caller, header: str
) -> None:
    theirs = (await admin.add("The harbour"))["id"]
    for method, body in (("PATCH", {"tags": []}), ("DELETE", None)):
        answers = [
            normalise(
                await stranger.request(method, f"/knowledge/entries/{i}", json=body, headers={"If-Match": header}), i
            )
            for i in (theirs, str(uuid4()))
        ]
        assert answers[0] == answers[1]
        assert answers[0][0] == 404

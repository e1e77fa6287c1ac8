"""Sources over HTTP."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.composition.services import Services
from app.contract.sources import NAME_RULE
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_problem

Work = Callable[[], Awaitable[None]]
FILES = {f"{word}.md": f"The {word} mine is open.".encode() for word in ("amber", "basalt", "copper")}


def manifest(files: dict[str, bytes], **fields: Any) -> dict[str, Any]:
    items = [
        {"external_id": path, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}
        for path, data in files.items()
    ]
    return {"items": items, **fields}


async def put(caller: Caller, files: dict[str, bytes], **fields: Any) -> Any:
    answer = await caller.request("PUT", "/knowledge/sources/mines", json=manifest(files, **fields))
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


async def fill(caller: Caller, services: Services) -> None:
    run = (await put(caller, FILES, run=0))["run"]
    for path, data in FILES.items():
        answer = await caller.upload(path, data, "text/markdown", external_id=path, source="mines", run=str(run))
        assert answer.status_code == 202, answer.text
    while await services.worker.run_once():
        pass


async def test_source_is_filled_step_by_step_and_its_hits_carry_its_origin(
    admin: Caller, api_services: Services
) -> None:
    answer = await admin.request("PUT", "/knowledge/sources/mines", json=manifest(FILES, run=0, origin="a folder"))
    assert (answer.status_code, answer.headers["location"]) == (201, "/knowledge/sources/mines")
    body = answer.json()
    assert (body["added"], body["missing"], body["agrees"], body["agreed_at"]) == (3, 3, False, None)
    missing = (await admin.get("/knowledge/sources/mines/items", params={"state": "missing"})).json()
    assert [item["external_id"] for item in missing["items"]] == sorted(FILES)
    for path, data in FILES.items():
        await admin.upload(path, data, "text/markdown", external_id=path, source="mines", run="1")
    while await api_services.worker.run_once():
        pass
    source = (await admin.get("/knowledge/sources/mines")).json()
    assert (source["agrees"], source["indexed"], source["origin"]) == (True, 3, "a folder")
    (hit,) = (await admin.search("basalt", mode="keyword"))["results"]
    assert hit["origin"] == {"source": "mines", "agreed_at": source["agreed_at"]}
    assert (await admin.get(f"/knowledge/assets/{hit['asset_id']}")).json()["source"] == "mines"


async def test_refusals_name_their_numbers_and_their_kind(admin: Caller, api_services: Services) -> None:
    await fill(admin, api_services)
    few = manifest({"amber.md": FILES["amber.md"]}, run=1)
    problem = expect_problem(await admin.request("PUT", "/knowledge/sources/mines", json=few), 409)
    assert (problem["type"], problem["deletions"], problem["assets"]) == (
        "/problems/too-many-deletions",
        2,
        3,
    )
    stale = manifest(FILES, run=0)
    problem = expect_problem(await admin.request("PUT", "/knowledge/sources/mines", json=stale), 409)
    assert problem["type"] == "/problems/run-superseded"
    other = await admin.upload("amber.md", b"other", "text/plain", external_id="amber.md", source="mines", run="1")
    assert expect_problem(other, 409)["type"] == "/problems/item-changed"
    unknown = await admin.upload("amber.md", b"other", "text/plain", external_id="amber.md", source="no", run="1")
    assert expect_problem(unknown, 404)["type"] == "/problems/source-not-found"
    assert (await put(admin, {"amber.md": FILES["amber.md"]}, run=1, confirm_deletions=True))["removed"] == 2


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"source": "mines"}, "run"), ({"run": "1"}, "source"), ({"source": "mines", "run": "x"}, "run")],
)
async def test_upload_names_both_the_source_and_its_run(admin: Caller, fields: dict[str, str], named: str) -> None:
    answer = await admin.upload("a.md", b"a", "text/plain", external_id="a.md", **fields)
    assert [e["field"] for e in expect_problem(answer, 422)["errors"]] == [named]


async def test_name_of_a_source_is_bounded(admin: Caller) -> None:
    for name in ("A", "-a", "a" * 64, "a b", "ä"):
        expect_problem(await admin.request("PUT", f"/knowledge/sources/{name}", json={"items": []}), 422)


async def test_deleted_source_keeps_its_assets_by_default(admin: Caller, api_services: Services) -> None:
    await fill(admin, api_services)
    assert (await admin.delete("/knowledge/sources/mines")).status_code == 204
    expect_problem(await admin.get("/knowledge/sources/mines"), 404)
    kept = (await admin.get("/knowledge/assets")).json()["items"]
    assert {(a["source"], a["external_id"]) for a in kept} == {(None, path) for path in FILES}


async def test_an_invalid_name_of_a_source_is_refused_with_what_is_allowed(admin: Caller) -> None:
    for method in ("GET", "PUT", "DELETE"):
        body = {"json": manifest(FILES)} if method == "PUT" else {}
        answer = await admin.request(method, "/knowledge/sources/Two%20words", **body)
        problem = expect_problem(answer, 422)
        assert problem["errors"] == [{"field": "name", "message": NAME_RULE}]

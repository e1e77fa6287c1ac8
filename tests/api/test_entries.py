"""Entries."""

import json
from typing import Any

import asyncpg
import pytest
from sqlalchemy import event

from app.composition.services import Services
from app.db.queries.entries import SQL
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import allow, expect_fields, expect_problem, is_id

PATH = "/knowledge/entries"
UNKNOWN_ID = "0b6f0a5e-5b0c-4d0a-9f0e-3a1d2c4b5e6f"


@pytest.mark.parametrize(("field", "value"), [("content", ""), ("parent_id", UNKNOWN_ID), ("id", "x")])
async def test_a_field_outside_its_range_is_named_and_nothing_is_stored(admin: Caller, field: str, value: Any) -> None:
    expect_fields(await admin.post(PATH, {"content": "word", field: value}), field)
    assert (await admin.get(PATH)).json()["items"] == []
    assert (await admin.get("/admin/audit")).json()["items"] == []


async def test_a_change_of_nothing_changes_nothing(admin: Caller) -> None:
    entry = await admin.add("The harbour", tags=["a"])
    for patch in ({}, {"tags": ["a"]}, {"content": "The harbour"}):
        answer = await admin.patch(f"{PATH}/{entry['id']}", patch)
        assert (answer.status_code, answer.json()) == (200, entry)


async def test_a_stale_etag_stops_a_change(admin: Caller) -> None:
    entry = await admin.add("The harbour")
    path, stale = f"{PATH}/{entry['id']}", {"If-Match": '"1"'}
    assert (await admin.patch(path, {"title": "One"}, headers=stale)).status_code == 200
    expect_problem(await admin.patch(path, {"title": "Two"}, headers=stale), 412)
    expect_problem(await admin.delete(path, headers=stale), 412)
    assert (await admin.get(path)).json()["title"] == "One"
    assert (await admin.patch(path, {"title": "Three"}, headers={"If-Match": "*"})).status_code == 200
    assert (await admin.delete(path, headers={"If-Match": '"3"'})).status_code == 204


async def test_a_read_with_a_current_etag_is_answered_304(admin: Caller, work: Work) -> None:
    entry, asset = await admin.add("The harbour"), (await admin.upload("a.md", b"Boats.", "text/markdown")).json()
    asset_path = f"/knowledge/assets/{asset['id']}"
    await work()
    for path in (f"{PATH}/{entry['id']}", asset_path, f"{asset_path}/content", "/admin/settings"):
        read = await admin.get(path)
        tag = read.headers["etag"]
        for known in (tag, f'"other", W/{tag}', "*"):
            again = await admin.get(path, headers={"If-None-Match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag), (path, known)
            assert "content-type" not in again.headers
        for other in ('"other"', tag.strip('"')):
            again = await admin.get(path, headers={"If-None-Match": other})
            assert (again.status_code, again.content) == (200, read.content), (path, other)
    expect_problem(await admin.get(f"{PATH}/{asset['id']}", headers={"If-None-Match": "*"}), 404)


async def test_an_etag_changes_with_what_the_service_changes(admin: Caller, work: Work) -> None:
    path = f"/knowledge/assets/{(await admin.upload('a.md', b'Boats.', 'text/markdown')).json()['id']}"
    pending = await admin.get(path)
    await work()
    indexed = await admin.get(path, headers={"If-None-Match": pending.headers["etag"]})
    assert (indexed.status_code, indexed.json()["status"]) == (200, "indexed")
    assert indexed.json()["version"] == pending.json()["version"]
    changed = await admin.patch(path, {"tags": ["a"]}, headers={"If-Match": pending.headers["etag"]})
    assert changed.status_code == 200, "no caller has changed it since"


async def test_one_of_several_etags_suffices(admin: Caller) -> None:
    entry = await admin.add("The harbour")
    path = f"{PATH}/{entry['id']}"
    for tags, status in (
        ('"999", "1"', 200),
        ('"999","2" , W/"7", "x"', 200),
        ('"999", "1"', 412),
        ('W/"3"', 412),
        ('"a,3,b"', 412),
        (' "3" ', 200),
        ("4", 200),
    ):
        answer = await admin.patch(path, {"title": tags}, headers={"If-Match": tags})
        assert answer.status_code == status, tags
    assert (await admin.delete(path, headers={"If-Match": '"5", "6"'})).status_code == 204


async def test_an_entry_cannot_be_its_own_relative(admin: Caller) -> None:
    entry = await admin.add("One")
    for field in ("parent_id", "superseded_by_id"):
        expect_fields(await admin.patch(f"{PATH}/{entry['id']}", {field: entry["id"]}), field)


BULK_PATH = "/knowledge/entries/bulk"


async def write_with_failures(admin: Caller, *entries: Any) -> list[dict[str, Any]]:
    """The results of a bulk write in which existing entries may fail."""
    answer = await admin.post(BULK_PATH, {"entries": entries})
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


async def write(admin: Caller, *entries: Any) -> list[dict[str, Any]]:
    """The results of a bulk write, with their form checked."""
    body = json.dumps({"entries": entries})
    answer = await admin.post(BULK_PATH, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"results"}
    results: list[dict[str, Any]] = answer.json()["results"]
    assert [result["index"] for result in results] == list(range(len(entries)))
    for result in results:
        assert set(result) == {"index", "id", "status", "error"}
        failed = result["status"] == "failed"
        assert (result["id"] is None, bool(result["error"])) == (failed, failed)
        assert failed or is_id(result["id"])
    return results


async def test_a_thousand_entries_are_stored_and_repeats_change_nothing(admin: Caller) -> None:
    entries = [{"content": f"Entry number {n}", "external_id": f"E{n}"} for n in range(1_000)]
    first = await write(admin, *entries)
    assert {result["status"] for result in first} == {"created"}
    assert len({result["id"] for result in first}) == 1_000
    again = await write(admin, *entries)
    assert {result["status"] for result in again} == {"unchanged"}
    assert [r["id"] for r in again] == [r["id"] for r in first]
    assert (await admin.get("/admin/stats")).json()["entries"] == 1_000


async def test_refused_entries_do_not_prevent_the_others_from_being_stored(admin: Caller) -> None:
    parent = (await admin.add("The parent"))["id"]
    results = await write(
        admin,
        {"content": "good"},
        {"content": ""},
        {"content": "child", "parent_id": parent},
        {"content": "orphan", "parent_id": "0190b8f6-0000-7000-8000-000000000000"},
        {"title": "no content"},
        {"content": "x", "surprise": 1},
        {"content": "nul \x00"},
        {"content": "lone \ud800"},
        {"content": "key", "\ud800": 1},
        {"content": "meta", "metadata": {"a": "\ud800"}},
        {"content": "x", "entry_type": "chunk"},
        {"content": "x", "expires_at": "2030-01-01T00:00:00"},
        7,
        None,
        ["content"],
        {"content": "also good", "tags": ["t"]},
    )
    stored = [result["index"] for result in results if result["status"] == "created"]
    assert stored == [0, 2, 15]
    errors = {result["index"]: result["error"] for result in results if result["error"]}
    for index, field in ((1, "content"), (3, "parent_id"), (4, "content"), (5, "surprise"), (9, "metadata")):
        assert errors[index].startswith(f"{field}: ")
    assert set(await admin.find("good")) == {"good", "also good"}


async def test_repeats_within_one_request_are_written_in_order(admin: Caller) -> None:
    results = await write(
        admin,
        {"content": "one", "external_id": "A"},
        {"content": "two", "external_id": "A"},
        {"content": "two", "external_id": "A"},
        {"content": "three"},
        {"content": "three"},
        {"content": "three", "tags": ["t"]},
    )
    assert [r["status"] for r in results] == [
        *("created", "updated", "unchanged"),
        *("created", "unchanged", "updated"),
    ]
    assert len({r["id"] for r in results}) == 2
    assert {(await admin.get(f"/knowledge/entries/{r['id']}")).json()["content"] for r in results} == {"two", "three"}


@pytest.mark.one_server
@pytest.mark.parametrize("repeats", [2, 300])
async def test_repeats_cost_one_round_at_any_number(admin: Caller, api_services: Services, repeats: int) -> None:
    entries = [{"content": "same", "tags": ["t"]}] * repeats
    entries += [{"content": f"text {n % 3}", "external_id": "A"} for n in range(repeats)]
    statements: list[str] = []
    seen: set[asyncpg.Connection[asyncpg.Record]] = set()

    def note(record: Any) -> None:
        statements.append(record.query)

    def watch(_connection: Any, kept: Any, _proxy: Any) -> None:
        seen.add(kept.driver_connection)
        kept.driver_connection.add_query_logger(note)

    engine = api_services.database.engine.sync_engine
    event.listen(engine, "checkout", watch)
    try:
        results = await write(admin, *entries)
    finally:
        event.remove(engine, "checkout", watch)
        for connection in seen:
            connection.remove_query_logger(note)
    assert [r["status"] for r in results[:repeats]] == ["created", *["unchanged"] * (repeats - 1)]
    assert [r["status"] for r in results[repeats:]] == ["created", *["updated"] * (repeats - 1)]
    stored = (await admin.get(f"/knowledge/entries/{results[-1]['id']}")).json()
    assert stored["content"] == entries[-1]["content"]
    assert sum(SQL["find_same"].sql == statement for statement in statements) == 2


async def test_a_repeat_of_an_entry_over_the_quota_is_written_where_it_fits(admin: Caller, platform: Caller) -> None:
    await allow(platform, admin, bytes=30)
    long, short = ({"content": "x" * n, "external_id": "A"} for n in (40, 20))
    results = await write_with_failures(admin, long, long, short, long, short, {**short, "content": "y" * 25})
    assert [r["status"] for r in results] == ["failed", "failed", "created", "failed", "unchanged", "updated"]
    assert len({r["id"] for r in results[2:]}) == 1
    assert {r["error"] for r in results[:2]} == {"bytes: this would exceed the tenant's limit of 30 stored bytes"}
    assert (await admin.get("/admin/stats")).json()["limits"]["bytes"]["used"] == 25


async def test_the_vectors_of_a_bulk_are_embedded_in_the_background(admin: Caller, work: Any) -> None:
    results = await write(admin, {"content": "first of two"}, {"content": "second of two"})
    assert (await admin.get("/admin/stats")).json()["pending_embeddings"] == 2
    await work()
    assert (await admin.get("/admin/stats")).json()["pending_embeddings"] == 0
    entry = (await admin.get(f"/knowledge/entries/{results[0]['id']}")).json()
    assert entry["embedding_status"] == "ready"

"""Entries over HTTP: write, read, list, change, delete."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.api.fields import ENTRY
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import each, expect_fields, expect_problem, is_id, is_time
from tests.fixtures.providers.failing import FailingProvider

PATH = "/knowledge/entries"
JSON = {"Content-Type": "application/json"}
UNKNOWN_ID = "0b6f0a5e-5b0c-4d0a-9f0e-3a1d2c4b5e6f"
FAR = "9999-12-31T23:59:59-12:00"


async def test_a_new_entry_has_every_field_and_its_defaults(admin: Caller) -> None:
    answer = await admin.post(PATH, {"content": "The harbour opens at six in the morning"})
    assert answer.status_code == 201
    entry = answer.json()
    assert set(entry) == ENTRY
    assert answer.headers["location"] == f"{PATH}/{entry['id']}"
    assert answer.headers["etag"] == '"1"'
    assert is_id(entry["id"])
    assert is_time(entry["created_at"])
    assert is_time(entry["updated_at"])
    assert (entry["entry_type"], entry["roles"], entry["scope"]) == ("fact", ["all"], "global")
    assert (entry["confidence"], entry["is_verified"], entry["language"]) == (1.0, False, "english")
    assert (entry["tags"], entry["source_ids"], entry["metadata"]) == ([], [], {})
    for name in ("title", "parent_id", "superseded_by_id", "asset_id", "expires_at", "external_id"):
        assert entry[name] is None
    assert entry["embedding_status"] == "ready"
    read = await admin.get(answer.headers["location"])
    assert (read.status_code, read.json(), read.headers["etag"]) == (200, entry, '"1"')


async def test_every_given_field_is_kept(admin: Caller) -> None:
    other = (await admin.add("Another"))["id"]
    given: dict[str, Any] = {
        "content": "  Der Hafen öffnet um sechs 🚢\n",
        "entry_type": "lesson",
        "title": "Öffnungszeit",
        "tags": ["hafen", "zeit"],
        "roles": ["pm", "qa"],
        "confidence": 0.5,
        "scope": "project",
        "parent_id": other,
        "source_ids": [other],
        "metadata": {"a": {"b": [1, 2.5, None, "ü"]}},
        "language": "german",
        "superseded_by_id": other,
        "is_verified": True,
        "external_id": "KB-1",
    }
    entry = await admin.add(**given, expires_at="2040-01-02T03:04:05+02:00")
    assert {name: entry[name] for name in given} == given
    assert entry["expires_at"] == "2040-01-02T01:04:05+00:00"


async def test_the_same_content_again_is_the_same_entry(admin: Caller, provider: FailingProvider) -> None:
    first = await admin.add("The harbour opens at six")
    again = await admin.post(PATH, {"content": "The harbour opens at six"})
    assert (again.status_code, again.json()) == (200, first)
    changed = await admin.post(PATH, {"content": "The harbour opens at six", "tags": ["time"]})
    assert (changed.status_code, changed.json()["id"]) == (200, first["id"])
    assert (changed.json()["tags"], changed.json()["version"]) == (["time"], 2)
    assert len(provider.documents) == 1


async def test_the_same_external_id_again_changes_the_entry(admin: Caller) -> None:
    first = await admin.add("The harbour opens at six", external_id="H1")
    again = await admin.post(PATH, {"content": "The harbour opens at seven", "external_id": "H1"})
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    assert await admin.find("harbour") == ["The harbour opens at seven"]
    other = await admin.post(PATH, {"content": "The harbour opens at seven", "external_id": "H2"})
    assert (other.status_code, other.json()["id"] != first["id"]) == (201, True)


async def test_an_entry_is_stored_and_found_by_words_while_the_provider_is_down(
    admin: Caller, provider: FailingProvider
) -> None:
    provider.down = True
    entry = await admin.add("The harbour opens at six")
    assert entry["embedding_status"] == "pending"
    assert await admin.find("harbour") == ["The harbour opens at six"]
    provider.down = False
    again = await admin.patch(f"{PATH}/{entry['id']}", {"title": "Opening"})
    assert again.json()["embedding_status"] == "ready"


REFUSED: list[tuple[str, Any]] = [
    *each("content", "", "  \n", None, 1, "x" * 100_001, "a\x00", "\ud800"),
    *each("entry_type", "chunk", "novel", None, 1),
    *each("title", "", "  ", "x" * 1001, "\x00", 1),
    *each("tags", "a", [""], [None], ["x" * 101], ["\x00"], ["\udfff"], ["t"] * 51, None),
    *each("roles", [], ["boss"], "dev", None, ["all"] * 5),
    *each("confidence", -0.1, 1.1, float("nan"), "1", True, None),
    *each("scope", "galaxy", None),
    *each("parent_id", "x", 1, UNKNOWN_ID),
    *each("source_ids", ["x"], "x", [UNKNOWN_ID], [UNKNOWN_ID] * 101),
    *each("superseded_by_id", "x", UNKNOWN_ID),
    *each("metadata", [], "x", {"a": "\x00"}, {"\ud800": 1}, {"a": "x" * 70_000}, {"a": 10**30}),
    *each("language", "klingon", "English", "", 1, "english; drop"),
    *each("expires_at", "soon", "2030-01-01T00:00:00", "2030-01-01", 1e30, {}, "2030-13-01T00:00Z"),
    *each("is_verified", "yes", 1, None),
    *each("external_id", "", " ", "x" * 513, "\x00", 7),
    *((name, "x") for name in ("id", "tenant_id", "asset_id", "version", "created_at", "surprise")),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("field", "value"), REFUSED, ids=lambda v: ascii(v)[:30])
async def test_a_field_outside_its_range_is_named_and_nothing_is_stored(admin: Caller, field: str, value: Any) -> None:
    body = json.dumps({"content": "word", field: value})
    answer = await admin.post(PATH, content=body, headers=JSON)
    errors = expect_problem(answer, 422)["errors"]
    assert {error["field"].partition(".")[0] for error in errors} == {field}
    assert (await admin.get(PATH)).json()["items"] == []
    assert (await admin.get("/admin/audit")).json()["items"] == []


@pytest.mark.parametrize("time", [FAR, "0001-01-01T00:00:00+12:00"])
async def test_a_time_beyond_the_calendar_is_refused(admin: Caller, time: str) -> None:
    expect_fields(await admin.post(PATH, {"content": "word", "expires_at": time}), "expires_at")
    assert (await admin.get(PATH)).json()["items"] == []


@pytest.mark.parametrize("size", [1, 100_000])
async def test_content_of_the_allowed_lengths_is_stored(admin: Caller, size: int) -> None:
    entry = await admin.add("x" * size)
    assert len(entry["content"]) == size


async def test_a_change_keeps_what_it_does_not_name(admin: Caller, provider: FailingProvider) -> None:
    entry = await admin.add("The harbour opens at six", title="Opening", tags=["time"])
    provider.documents.clear()
    answer = await admin.patch(f"{PATH}/{entry['id']}", {"tags": ["clock"], "title": None})
    assert answer.status_code == 200
    changed = answer.json()
    different = {name for name in ENTRY if changed[name] != entry[name]}
    assert different == {"tags", "title", "version", "updated_at"}
    assert answer.headers["etag"] == '"2"'
    assert provider.documents == ["The harbour opens at six"]  # the title is part of what is embedded


async def test_a_changed_text_is_found_by_its_new_words_only(admin: Caller, provider: FailingProvider) -> None:
    provider.vectors["Old words"] = provider.vectors["old"] = provider.direction(1.0)
    provider.vectors["New text"] = provider.direction(0.0, 1.0)
    entry = await admin.add("Old words")
    assert (await admin.search("old", mode="semantic"))["results"]
    provider.down = True
    answer = await admin.patch(f"{PATH}/{entry['id']}", {"content": "New text"})
    assert answer.json()["embedding_status"] == "pending"
    provider.down = False
    assert (await admin.search("old", mode="semantic"))["results"] == []
    assert (await admin.find("words"), await admin.find("text")) == ([], ["New text"])


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
    for tag in ('"x"', "", '"' + "9" * 40 + '"', "²"):
        header = {"If-Match": tag.encode("latin-1")}
        expect_problem(await admin.patch(path, {"title": "Two"}, headers=header), 412)
    assert (await admin.get(path)).json()["title"] == "One"
    assert (await admin.patch(path, {"title": "Three"}, headers={"If-Match": "*"})).status_code == 200
    assert (await admin.delete(path, headers={"If-Match": '"3"'})).status_code == 204


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


async def test_of_two_changes_at_once_with_one_etag_one_succeeds(admin: Caller) -> None:
    entry = await admin.add("The harbour")
    path, match = f"{PATH}/{entry['id']}", {"If-Match": '"1"'}
    answers = await asyncio.gather(*(admin.patch(path, {"title": f"T{n}"}, headers=match) for n in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412, 412]


async def test_a_change_that_makes_two_entries_the_same_is_a_conflict(admin: Caller) -> None:
    first, second = await admin.add("One"), await admin.add("Two", external_id="T")
    other = await admin.add("Three", external_id="X")
    expect_problem(await admin.patch(f"{PATH}/{second['id']}", {"external_id": "X"}), 409)
    expect_problem(await admin.patch(f"{PATH}/{first['id']}", {"external_id": "X"}), 409)
    assert (await admin.get(f"{PATH}/{other['id']}")).json() == other


async def test_an_entry_cannot_be_its_own_relative(admin: Caller) -> None:
    entry = await admin.add("One")
    for field in ("parent_id", "superseded_by_id"):
        expect_fields(await admin.patch(f"{PATH}/{entry['id']}", {field: entry["id"]}), field)


async def test_a_deleted_entry_is_not_found(admin: Caller) -> None:
    entry = await admin.add("The harbour opens at six")
    answer = await admin.delete(f"{PATH}/{entry['id']}")
    assert (answer.status_code, answer.content) == (204, b"")
    for method in ("GET", "DELETE"):
        expect_problem(await admin.request(method, f"{PATH}/{entry['id']}"), 404)
    expect_problem(await admin.patch(f"{PATH}/{entry['id']}", {"title": "x"}), 404)
    assert (await admin.search("The harbour opens at six"))["results"] == []


async def test_a_malformed_id_is_refused(admin: Caller) -> None:
    expect_fields(await admin.get(f"{PATH}/17"), "entry_id")


async def test_a_list_comes_in_pages_newest_first(admin: Caller) -> None:
    ids = [(await admin.add(f"Entry {n}", tags=["even"] if n % 2 == 0 else []))["id"] for n in range(5)]
    seen, cursor, sizes = [], None, []
    while True:
        page = (await admin.get(PATH, params={"limit": 2} | ({"cursor": cursor} if cursor else {}))).json()
        assert set(page) == {"items", "next_cursor"}
        assert all(set(item) == ENTRY for item in page["items"])
        seen += [item["id"] for item in page["items"]]
        sizes.append(len(page["items"]))
        if (cursor := page["next_cursor"]) is None:
            break
    assert (seen, sizes) == (ids[::-1], [2, 2, 1])
    even = (await admin.get(PATH, params={"tag": "even"})).json()["items"]
    assert [item["id"] for item in even] == [ids[4], ids[2], ids[0]]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *each("limit", "0", "201", "x", "1.5", "", "9" * 30),
        *each("cursor", "", "x", "é", "A" * 30, "\x00", "f_________8" + "A" * 21),
        *each("tag", "\x00", "x" * 101),
        *each("external_id", "\x00", "x" * 513),
        ("entry_type", "novel"),
        ("asset_id", "x"),
    ],
)
async def test_a_list_refuses_invalid_parameters(reader: Caller, field: str, value: str) -> None:
    expect_fields(await reader.get(PATH, params={field: value}), field)

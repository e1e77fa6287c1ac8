"""Bodies and parameters that are malformed, huge or odd: each is refused with the name of its field."""

import asyncio
import gc
import json
from collections.abc import Sequence
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import Message

from app.errors import InvalidInput
from app.web.bodies import (
    BODIES,
    BULK,
    DEPTH,
    LARGE,
    MCP_READER,
    MIB,
    STEP,
    UPLOADS,
    JsonRequest,
    check_shape,
    parse_json,
)
from app.web.bodies import SEARCH as BOUNDS
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_fields, expect_problem

SEARCH = "/knowledge/search"
ENTRIES = "/knowledge/entries"
SOURCES = "/knowledge/sources"
JSON = {"Content-Type": "application/json"}
UNKNOWN = "0190b8f6-0000-7000-8000-000000000000"


def nest(depth: int, opening: bytes = b'{"a":', closing: bytes = b"}") -> bytes:
    """A search with metadata of `depth` levels."""
    inner = depth - 1
    return b'{"query": "word", "metadata": ' + opening * inner + b"1" + closing * inner + b"}"


@pytest.mark.slow
async def test_a_body_of_the_maximum_depth_is_read(admin: Caller) -> None:
    answer = await admin.post(SEARCH, content=nest(DEPTH), headers=JSON)
    assert answer.status_code == 200, answer.text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("depth", [DEPTH + 1, 500, 1_990])
@pytest.mark.parametrize(("opening", "closing"), [(b'{"a":', b"}"), (b"[", b"]")], ids=["objects", "lists"])
async def test_a_body_over_the_maximum_depth_is_refused(
    admin: Caller, depth: int, opening: bytes, closing: bytes
) -> None:
    answer = await admin.post(SEARCH, content=nest(depth, opening, closing), headers=JSON)
    assert str(DEPTH) in expect_fields(answer, "body")["detail"]


async def test_a_body_of_far_too_many_levels_is_refused(admin: Caller) -> None:
    answer = await admin.post(SEARCH, content=nest(20_000), headers=JSON)
    assert str(BOUNDS.containers) in expect_fields(answer, "body")["detail"]
    expect_problem(await admin.post(SEARCH, content=nest(150_000), headers=JSON), 413)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", [SEARCH, ENTRIES, f"{ENTRIES}/bulk", f"{SEARCH}/why-not"])
@pytest.mark.parametrize("depth", [200, 100_000])
async def test_depth_is_bounded_on_every_path(admin: Caller, path: str, depth: int) -> None:
    body = b'{"entries": [' + b"[" * depth + b"]" * depth + b"]}"
    expect_fields(await admin.post(path, content=body, headers=JSON), "body")


@pytest.mark.parametrize(
    ("metadata", "bound"),
    [
        (b"[" + b"[]," * BOUNDS.containers + b"[]]", BOUNDS.containers),
        (b'{"a":' + b"[{}," * 60 + b"{}," * BOUNDS.containers, BOUNDS.containers),
        (b"[" + b"1," * BOUNDS.values + b"1]", BOUNDS.values),
        (b'["' + b'","' * BOUNDS.values + b'"]', BOUNDS.values),
    ],
    ids=["lists", "objects", "numbers", "texts"],
)
async def test_a_body_of_too_many_values_is_refused(admin: Caller, metadata: bytes, bound: int) -> None:
    body = b'{"query": "word", "metadata": ' + metadata + b"}"
    answer = expect_fields(await admin.post(SEARCH, content=body, headers=JSON), "body")
    assert f"at most {bound} " in answer["detail"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("content", ["[{,", '"[', "\\[{", '\\"[', "\\\\", 'é"[,', "\n]}"])
@pytest.mark.parametrize("shift", range(3))
def test_brackets_in_a_string_do_not_count_as_structure(content: str, shift: int) -> None:
    wanted = {"a" * shift: content * 250_000, "b": [[content]]}
    assert parse_json(json.dumps(wanted).encode(), BULK) == wanted
    assert parse_json(json.dumps(wanted, ensure_ascii=False).encode(), BULK) == wanted


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", ["", '"', '\\"', "\\\\", '["'])
@pytest.mark.parametrize("length", range(STEP - 3, STEP + 4))
def test_brackets_after_a_string_of_any_length_count_as_structure(text: str, length: int) -> None:
    body = json.dumps([(text + "x" * STEP)[:length]]).encode()[:-1] + b"," + b"[" * DEPTH
    with pytest.raises(InvalidInput, match="levels"):
        check_shape(body, BULK)
    check_shape(body[:-1], BULK)


async def test_parsing_a_large_body_does_not_block_other_requests() -> None:
    turns: list[str] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b'["' + b"x" * LARGE + b'"]', "more_body": False}

    asyncio.get_running_loop().call_soon(turns.append, "another")
    await JsonRequest({"type": "http", "path": "/knowledge/entries/bulk", "headers": []}, receive).json()
    assert turns == ["another"]


LARGE_TEXT = b"x" * (3 * MIB)


def find_errors() -> Sequence[Exception]:
    """The errors of refused requests that something still refers to."""
    kinds = (InvalidInput, HTTPException, RequestValidationError, json.JSONDecodeError)
    return [kept for kept in gc.get_objects() if isinstance(kept, kinds)]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (f"{ENTRIES}/bulk", b'{"entries": [], "unknown": "%b"}' % LARGE_TEXT, 422),
        (f"{ENTRIES}/bulk", b'{"entries": ["%b"' % (LARGE_TEXT[:LARGE]), 422),
        (f"{ENTRIES}/bulk", b'{"entries": ["%b"], "unknown": 1}' % LARGE_TEXT[:LARGE], 422),
        (SEARCH, b'{"query": "%b"}' % LARGE_TEXT[:100_000], 422),
        ("/mcp", b'{"jsonrpc": "2.0", "id": 1, "method": "%b"}' % LARGE_TEXT, 400),
    ],
    ids=["long text", "broken", "unknown field", "small", "message"],
)
async def test_a_refused_body_is_freed_without_the_collector(
    admin: Caller, path: str, body: bytes, status: int
) -> None:
    headers = {**JSON, "Accept": "application/json, text/event-stream"}
    gc.collect()
    gc.disable()
    known = find_errors()  # parameters of other tests, which stay
    try:
        refused = await admin.post(path, content=body, headers=headers)
        assert refused.status_code == status, refused.text
        # The loop refers to what it ran last, and the thread that parsed the body ends a moment later.
        async with asyncio.timeout(30):
            while any(kept not in known for kept in find_errors()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        gc.enable()


LIMITS = {
    path: bounds.bytes
    for path, bounds in BODIES.items()
    if path.startswith("/knowledge") and path not in UPLOADS | {SOURCES}
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("path", "limit"), [*LIMITS.items(), (f"{SEARCH}/batch/", 4 * MIB), ("/knowledge/feedback", 65_536)]
)
async def test_each_path_has_its_own_body_limit(admin: Caller, path: str, limit: int) -> None:
    fits = await admin.post(path, content=b" " * limit, headers=JSON)
    assert fits.status_code in (307, 404, 422), fits.text
    refused = await admin.post(path.rstrip("/"), content=b" " * (limit + 1), headers=JSON)
    assert f"limit of {limit} bytes" in expect_problem(refused, 413)["detail"]


async def test_a_manifest_has_its_own_body_limit(admin: Caller) -> None:
    limit = BODIES[SOURCES].bytes
    fits = await admin.request("PUT", f"{SOURCES}/a", content=b" " * limit, headers=JSON)
    assert fits.status_code == 422, fits.text
    refused = await admin.request("PUT", f"{SOURCES}/a", content=b" " * (limit + 1), headers=JSON)
    assert f"limit of {limit} bytes" in expect_problem(refused, 413)["detail"]


async def test_a_message_of_a_reader_to_mcp_has_a_smaller_limit(admin: Caller, reader: Caller) -> None:
    headers = {**JSON, "Accept": "application/json, text/event-stream"}
    body = b" " * (MCP_READER.bytes + 1)
    refused = await reader.post("/mcp", content=body, headers=headers)
    assert f"limit of {MCP_READER.bytes} bytes" in expect_problem(refused, 413)["detail"]
    read = await admin.post("/mcp", content=body, headers=headers)
    assert read.json()["error"]["code"] == -32700


async def test_the_largest_entry_is_stored(admin: Caller) -> None:
    body = json.dumps({"content": "\U0001f6a2" * 100_000, "metadata": {"a": "\u00e9" * 8_000}}).encode()
    assert len(body) > 1_200_000
    answer = await admin.post(ENTRIES, content=body, headers=JSON)
    assert answer.status_code == 201, answer.text


async def test_too_deep_metadata_of_an_upload_is_refused(admin: Caller) -> None:
    for depth in (2_000, 100_000):
        metadata = '{"a":' * depth + "1" + "}" * depth
        expect_fields(await admin.upload("a.txt", b"text", "text/plain", metadata=metadata), "metadata")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"query": "word", "limit": 1' + b"0" * 5_000 + b"}", "body"),
        (b'{"query": "word", "limit": 99999999999999999999}', "limit"),
        (b'{"query": "word", "limit": 1e3}', "limit"),
        (b'{"query": "word", "rrf_k": 9223372036854775808}', "rrf_k"),
        (b'{"query": "word", "min_confidence": 1e999}', "min_confidence"),
        (b'{"query": "word", "metadata": {"a": 1e999}}', "metadata"),
        (b'{"query": "word", "metadata": {"a": 18446744073709551616}}', "metadata"),
        (b'{"query": "word", "\\u0000": 1}', "\x00"),
    ],
)
async def test_a_value_outside_its_range_is_refused_with_its_field(admin: Caller, body: bytes, field: str) -> None:
    expect_fields(await admin.post(SEARCH, content=body, headers=JSON), field)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("expires_at", "0001-01-01T00:00:00+20:00"),
        ("metadata", {"a\x00": 1}),
        ("title", "\ud800"),
        ("confidence", 10**400),
    ],
)
async def test_an_entry_value_outside_its_range_is_refused_with_its_field(
    admin: Caller, field: str, value: Any
) -> None:
    body = json.dumps({"content": "The harbour", field: value}).encode()
    answer = expect_problem(await admin.post(ENTRIES, content=body, headers=JSON), 422)
    assert [error["field"].partition(".")[0] for error in answer["errors"]] == [field]
    bulk = await admin.post(f"{ENTRIES}/bulk", content=b'{"entries": [' + body + b"]}", headers=JSON)
    assert bulk.status_code == 200, bulk.text
    assert bulk.json()["results"][0]["status"] == "failed"
    assert (await admin.get(ENTRIES)).json()["items"] == []


@pytest.mark.parametrize("offset", ["+20:28", "-20:28", "+23:59", "-23:59"])
async def test_a_time_keeps_its_moment_with_any_offset(admin: Caller, offset: str) -> None:
    # Postgres itself accepts offsets up to 16 hours.
    entries = [{"content": f"{way} {offset}", "expires_at": f"2207-05-30T09:24:48{offset}"} for way in "ab"]
    single = await admin.post(ENTRIES, entries[0])
    assert single.status_code == 201, single.text
    assert single.json()["expires_at"].startswith("2207-05-")
    bulk = await admin.post(f"{ENTRIES}/bulk", {"entries": entries[1:]})
    assert bulk.json()["results"][0]["status"] == "created", bulk.text


@pytest.mark.parametrize(
    "path",
    [
        f"{ENTRIES}?limit=99999999999999999999",
        f"{ENTRIES}?limit=1e2",
        f"{ENTRIES}?limit=%00",
        f"{ENTRIES}?limit=1&limit=x",
        f"{ENTRIES}?cursor=%00",
        f"{ENTRIES}?cursor=gICAgICAgIAAAAAAAAAAAAAAAAAAAAAA",
        f"{ENTRIES}?asset_id={UNKNOWN}%00",
        f"{ENTRIES}/%00",
        f"{ENTRIES}/..%2f..%2fetc%2fpasswd",
        "/admin/audit?cursor=%ff%fe",
    ],
)
async def test_a_parameter_outside_its_range_is_refused(admin: Caller, path: str) -> None:
    answer = await admin.get(path)
    assert answer.status_code in (404, 422), answer.text
    expect_problem(answer, answer.status_code)


@pytest.mark.parametrize("match", ['"' + "9" * 5_000 + '"', "W/", "²", "\\x00", '"7", "8"', 'W/"1"', "null", "", "१"])
async def test_a_precondition_that_no_entry_meets_is_refused(admin: Caller, match: str) -> None:
    entry = await admin.add("The harbour")
    headers = {"If-Match": match.encode()}
    answer = await admin.request("PATCH", f"{ENTRIES}/{entry['id']}", json={"title": "T"}, headers=headers)
    expect_problem(answer, 412)


async def test_a_thousand_form_fields_are_refused(admin: Caller) -> None:
    files = [("tags", (None, f"t{number}".encode())) for number in range(1_100)]
    answer = await admin.post("/knowledge/assets", files=[("file", ("a.txt", b"text", "text/plain")), *files])
    expect_problem(answer, 400)


async def test_a_form_field_over_its_limit_is_refused(admin: Caller) -> None:
    answer = await admin.upload("a.txt", b"text", "text/plain", external_id="x" * 2_000_000)
    expect_problem(answer, 400)


@pytest.mark.parametrize("name", ["../../etc/passwd", "C:\\secrets.txt", "a\r\nX-Injected: 1.txt", "a.txt;x"])
async def test_an_upload_name_is_not_used_as_a_path(admin: Caller, name: str) -> None:
    answer = await admin.upload(name, f"text of {name}".encode(), "text/plain")
    assert answer.status_code == 202, answer.text
    stored = answer.json()["name"]
    assert "/" not in stored
    assert "\r" not in stored
    assert "x-injected" not in answer.headers

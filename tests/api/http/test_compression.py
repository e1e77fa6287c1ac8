"""Long JSON answers are compressed for callers that accept it."""

from __future__ import annotations

import gzip

import pytest

from app.web.layer import MIN_BYTES
from tests.fixtures.http.callers import Caller

GZIP = {"Accept-Encoding": "gzip"}
PLAIN = {"Accept-Encoding": "identity"}


@pytest.fixture
async def filled(admin: Caller) -> Caller:
    for number in range(12):
        await admin.add(f"The harbour opens at {number}. " * 30, tags=["harbour", "time"])
    return admin


async def send(caller: Caller, method: str, path: str, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    """The body as it was sent, and the headers."""
    json = {"query": "harbour"} if method == "POST" else None
    request = caller.http.build_request(
        method, path, json=json, headers={"Authorization": f"Bearer {caller.token}", **headers}
    )
    answer = await caller.http.send(request, stream=True)
    sent = b"".join([part async for part in answer.aiter_raw()])
    assert answer.status_code == 200
    return sent, dict(answer.headers)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/knowledge/search"), ("GET", "/knowledge/entries")],
)
async def test_long_answers_are_compressed_on_request(filled: Caller, method: str, path: str) -> None:
    sent, headers = await send(filled, method, path, GZIP)
    assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
    assert int(headers["content-length"]) == len(sent)
    whole = gzip.decompress(sent)
    assert len(sent) < len(whole) / 2
    plain, headers = await send(filled, method, path, PLAIN)
    assert "content-encoding" not in headers
    assert len(plain) >= MIN_BYTES
    if method == "GET":
        assert plain == whole


async def test_a_head_request_has_the_headers_of_the_compressed_answer(filled: Caller) -> None:
    _, expected = await send(filled, "GET", "/knowledge/entries", GZIP)
    sent, headers = await send(filled, "HEAD", "/knowledge/entries", GZIP)
    assert sent == b""
    for name in ("content-encoding", "content-length", "vary"):
        assert headers[name] == expected[name]


async def test_short_answers_are_not_compressed(filled: Caller) -> None:
    short, headers = await send(filled, "GET", "/knowledge/entries?limit=1&tag=nothing", GZIP)
    assert len(short) < MIN_BYTES
    assert "content-encoding" not in headers


async def test_an_answer_with_an_etag_is_not_compressed(filled: Caller) -> None:
    long = {"n": "The harbour. " * 1000}
    entry = await filled.add("A long entry. " * 1000)
    upload = await filled.upload("a.txt", b"The quay.", "text/plain")
    asset = f"/knowledge/assets/{upload.json()['id']}"
    assert (await filled.request("PATCH", asset, json={"metadata": long})).status_code == 200
    for path in (f"/knowledge/entries/{entry['id']}", asset):
        sent, headers = await send(filled, "GET", path, GZIP)
        plain, others = await send(filled, "GET", path, PLAIN)
        assert sent == plain
        assert len(sent) >= MIN_BYTES
        assert headers["etag"] == others["etag"]
        assert not {"content-encoding", "vary"} & {*headers, *others}


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.1", True),
        ("x-gzip", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("nogzip", False),
        ("br, zstd, deflate", False),
        ("identity;q=0", False),
        ("", False),
    ],
)
async def test_the_caller_decides_by_weights(filled: Caller, accepted: str, compressed: bool) -> None:
    sent, headers = await send(filled, "GET", "/knowledge/entries", {"Accept-Encoding": accepted})
    assert ("content-encoding" in headers) is compressed
    assert headers["vary"] == "Accept-Encoding"
    assert (sent[:2] == b"\x1f\x8b") is compressed


async def test_the_list_of_tools_is_compressed(admin: Caller) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    for coding, length in (("gzip", range(1_000, 25_000)), ("identity", range(50_000, 200_000))):
        answer = await admin.post("/mcp", message, headers={**headers, "Accept-Encoding": coding})
        assert answer.headers.get("content-encoding", "identity") == coding
        assert int(answer.headers["content-length"]) in length
        assert answer.json()["result"]["tools"]

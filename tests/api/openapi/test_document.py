"""The document is generated once, and its bytes are served with an ETag."""

from __future__ import annotations

import asyncio
import gzip

import httpx
import pytest
from fastapi import FastAPI

from app.web.openapi import PATH, install_document


async def test_the_document_is_generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    app = FastAPI(openapi_url=None)
    install_document(app)
    generated = 0
    generate = app.openapi

    def count() -> dict[str, object]:
        nonlocal generated
        generated += 1
        return generate()

    monkeypatch.setattr(app, "openapi", count)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://knowledge.test") as http:
        answers = await asyncio.gather(*(http.get(PATH) for _ in range(5)))
    assert generated == 1
    assert len({answer.content for answer in answers}) == 1


@pytest.mark.parametrize("coding", ["identity", "gzip", "gzip;q=0", "br, GZIP;q=0.5"])
async def test_the_document_has_an_etag_for_each_coding(http: httpx.AsyncClient, coding: str) -> None:
    answer = await http.get(PATH, headers={"Accept-Encoding": coding})
    coded = coding in ("gzip", "br, GZIP;q=0.5")
    assert answer.headers.get("content-encoding") == ("gzip" if coded else None)
    assert answer.headers["etag"].endswith('-gzip"') is coded
    assert (answer.headers["cache-control"], answer.headers["vary"]) == ("no-cache", "Accept-Encoding")
    assert answer.json()["openapi"].startswith("3.")
    for known in (answer.headers["etag"], f'"other", W/{answer.headers["etag"]}', "*"):
        again = await http.get(PATH, headers={"Accept-Encoding": coding, "If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == answer.headers["etag"]
    other = await http.get(PATH, headers={"Accept-Encoding": coding, "If-None-Match": '"other"'})
    assert other.status_code == 200


async def test_the_compressed_document_is_the_same(http: httpx.AsyncClient) -> None:
    plain = await http.get(PATH, headers={"Accept-Encoding": "identity"})
    async with http.stream("GET", PATH, headers={"Accept-Encoding": "gzip"}) as answer:
        sent = b"".join([part async for part in answer.aiter_raw()])
    assert int(answer.headers["content-length"]) == len(sent) < len(plain.content) / 5
    assert gzip.decompress(sent) == plain.content

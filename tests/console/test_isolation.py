"""Another tenant's ids are answered like unknown ids, on every page."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from tests.console.conftest import SignIn
from tests.console.pages import IDS, PAGES, path_of
from tests.fixtures.http.callers import Caller
from tests.isolation.holdings import fill, replace_cursor_id

CHANGING = re.compile(r'request [0-9a-f]{16}|search <span class="mono search-id">[^<]*|\d+ ms( \([^)]*\))?')


async def test_another_tenants_ids_are_answered_like_unknown_ones(
    sign_in: SignIn, admin: Caller, stranger: Caller, work: Callable[[], Awaitable[None]]
) -> None:
    theirs = await fill(admin, "bluebird", work)
    await fill(stranger, "sparrow", work)
    browser = sign_in(stranger)
    foreign_ids = {**theirs.ids, "name": "shelf-bluebird"}

    async def ask(page: str, ids: dict[str, str], **query: str) -> tuple[Any, ...]:
        method, path = path_of(page, ids)
        answer = (await (browser.get(path, query) if method == "GET" else browser.post(path))).answer
        text = answer.text
        for value in (*ids.values(), *query.values()):
            text = text.replace(value, "<id>")
        headers = {k: v for k, v in answer.headers.items() if k not in ("x-request-id", "content-length")}
        headers["hx-push-url"] = ""
        return answer.status_code, headers, CHANGING.sub("", text)

    compared = 0
    for page in PAGES:
        for name in (name for name in IDS if f"{{{name}}}" in page):
            found = await ask(page, {name: foreign_ids[name]})
            assert found == await ask(page, {name: str(uuid4())}), page
            assert "bluebird" not in found[2]
            compared += 1
    assert compared >= 10
    search = {"query": "harbour", "mode": "keyword"}
    places = {
        "GET /console/why-not": ("entry_id", theirs.ids["entry_id"], str(uuid4())),
        "GET /console": ("asset_id", theirs.ids["asset_id"], str(uuid4())),
        "GET /console/compare": ("asset_id", theirs.ids["asset_id"], str(uuid4())),
    }
    for page, (name, foreign, unknown) in places.items():
        found = await ask(page, {}, **search, **{name: foreign})
        assert found == await ask(page, {}, **search, **{name: unknown}), page
        assert "bluebird" not in found[2]
    cursor = theirs.cursors["search"]
    unknown = replace_cursor_id(cursor, {theirs.ids["search_id"]})
    found = await ask("GET /console", {}, **search, cursor=cursor)
    assert found == await ask("GET /console", {}, **search, cursor=unknown)
    assert found[0] == 410

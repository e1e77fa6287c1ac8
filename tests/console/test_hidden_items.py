"""Items that a caller may not read are answered as unknown ones, on every page of the console."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest

from app.auth.principal import Role
from tests.console.asset_pages import Work
from tests.console.conftest import SignIn
from tests.console.members import join
from tests.console.pages import PAGES, path_of
from tests.fixtures.http.callers import Caller

WORD = "kittiwake"
CHANGING = re.compile(r'request [0-9a-f]{16}|search <span class="mono search-id">[^<]*|\d+ ms( \([^)]*\))?')
IDS = ("entry_id", "asset_id", "name")


async def hide(ann: Caller, work: Work) -> dict[str, str]:
    """Store an entry, a document and a source that only the group finance may read; their ids."""
    lists: dict[str, Any] = {"readers": ["group:finance"], "tags": [WORD], "metadata": {WORD: WORD}}
    entry = await ann.add(f"A {WORD} at the pier", title=WORD, external_id=WORD, **lists)
    form = {"readers": "group:finance", "tags": WORD, "external_id": f"file-{WORD}"}
    file = (await ann.upload(f"{WORD}.md", f"# {WORD}\n\nIt nests.".encode(), "text/markdown", **form)).json()
    manifest = {"items": [{"external_id": f"{WORD}.md", "digest": "1"}], "readers": ["group:finance"]}
    name = f"shelf-{WORD}"
    assert (await ann.request("PUT", f"/knowledge/sources/{name}", json=manifest)).status_code == 201
    await work()
    return {"entry_id": entry["id"], "asset_id": file["id"], "name": name}


@pytest.mark.parametrize("role", [Role.READER, Role.CREATOR, Role.TENANT_ADMIN])
async def test_hidden_items_are_answered_like_unknown_ones(
    sign_in: SignIn, admin: Caller, work: Work, role: Role
) -> None:
    hidden = await hide(join(admin, "ann", "finance"), work)
    ben = join(admin, "ben", "board", role=role)
    await join(admin, "ben", "board").add("A gull at the pier")
    browser = sign_in(ben)

    async def ask(page: str, ids: dict[str, str], **query: str) -> tuple[int, str]:
        method, path = path_of(page, ids)
        answer = (await (browser.get(path, query) if method == "GET" else browser.post(path))).answer
        text = answer.text
        for value in ids.values():
            text = text.replace(value, "<id>")
        return answer.status_code, CHANGING.sub("", text)

    compared = 0
    for page in PAGES:
        for name in (name for name in IDS if f"{{{name}}}" in page):
            found = await ask(page, {name: hidden[name]})
            assert found == await ask(page, {name: str(uuid4())}), page
            assert WORD not in found[1], page
            compared += 1
    assert compared > 15
    queries = {
        "GET /console": {"query": "pier", "mode": "keyword", "explain": "true", "facets": "tags"},
        "GET /console/compare": {"query": "pier", "mode": "keyword"},
        "GET /console/entries": {"source": "any"},
        "GET /console/assets": {},
        "GET /console/saved-searches": {},
        "GET /console/access": {},
        "GET /console/health": {},
    }
    for page, query in queries.items():
        status, text = await ask(page, {}, **query)
        assert status in (200, 403)
        assert WORD not in text, page
        assert not any(value in text for value in hidden.values()), page

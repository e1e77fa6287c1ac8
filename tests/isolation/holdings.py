"""A tenant's data, created through the HTTP API: one object of each kind, with ids and cursors for attacks."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from tests.fixtures.database.cluster import Connection
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller

SUBJECTS = ("routes in vercel.json", "a backup of the database", "the harbour at night")
"""The text that both tenants write, so that every search could find the other's entries by mistake."""


LISTS = ("/knowledge/entries", "/knowledge/assets", "/knowledge/saved-searches", "/admin/audit")
"""Lists whose cursors are taken; the last one is for admins alone."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """A tenant's ids by the names of path parameters, and the cursors of its lists and searches."""

    ids: Mapping[str, str]
    cursors: Mapping[str, str]


async def fill(
    caller: Caller, word: str, work: Work, *, with_sources: bool = True, lists: Sequence[str] = LISTS
) -> Holdings:
    """Give the caller's tenant entries, an asset with chunks, searches and sources; all contain `word`."""
    parent = await caller.add(f"All about {word}", tags=[word, "harbour", "night"], external_id=word)
    for subject in SUBJECTS:
        await caller.add(
            f"{word} knows {subject}", title=f"{word} title", tags=[word, "harbour", "night"],
            parent_id=parent["id"], source_ids=[parent["id"]], metadata={word: word},
        )  # fmt: skip
    text = f"# {word}\n\n" + "\n\n".join(f"{word} reads about {subject}." for subject in SUBJECTS)
    asset = (await caller.upload(f"{word}.md", text.encode(), "text/markdown", external_id=word)).json()
    await work()
    for source in ("shelf", f"shelf-{word}") if with_sources else ():
        manifest = {"items": [{"external_id": f"{word}-{n}.md", "digest": "1"} for n in range(2)]}
        await caller.request("PUT", f"/knowledge/sources/{source}", json=manifest)
    # An asset that is not processed yet.
    await caller.upload(f"{word}-2.md", f"{word} once more".encode(), "text/markdown")
    found = await caller.search(f"{word} harbour", limit=1)
    saved = await caller.post("/knowledge/saved-searches", {"name": word, "request": {"query": f"{word} night"}})
    await caller.post("/knowledge/saved-searches", {"name": f"{word} 2", "request": {"query": word}})
    ids = {
        "entry_id": parent["id"],
        "asset_id": asset["id"],
        "search_id": found["metadata"]["search_id"],
        "saved_search_id": saved.json()["id"],
        "tenant_id": str(caller.tenant_id),
    }
    cursors = {"search": found["metadata"]["next_cursor"]}
    for path in lists:
        answer = await caller.get(path, params={"limit": 1})
        cursors[path] = answer.json()["next_cursor"]
    assert all(cursors.values()), cursors
    return Holdings(ids, cursors)


def replace_cursor_id(cursor: str, known: set[str]) -> str:
    """The same cursor with an unknown id in place of its own."""
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    for start in range(len(raw) - 15):
        if str(UUID(bytes=raw[start : start + 16])) in known:
            raw = raw[:start] + uuid4().bytes + raw[start + 16 :]
            return base64.urlsafe_b64encode(raw).decode().rstrip("=")
    raise LookupError("no known id in the cursor")


def find_ids(value: Any) -> set[str]:
    """Every id anywhere in a JSON value."""
    if isinstance(value, dict):
        return set().union(*map(find_ids, value.values())) if value else set()
    if isinstance(value, list):
        return set().union(*map(find_ids, value)) if value else set()
    try:
        return {str(UUID(value))} if isinstance(value, str) and len(value) == 36 else set()
    except ValueError:
        return set()


async def snapshot(connection: Connection, tenant_id: Any) -> list[str]:
    """All data of a tenant, as text."""
    places = await connection.fetch("""
        select c.oid::regclass::text as name from pg_class c join pg_attribute a on a.attrelid = c.oid
         where a.attname = 'tenant_id' and c.relkind in ('r', 'p') and not c.relispartition
           and c.relnamespace = 'public'::regnamespace order by 1""")
    rows: list[str] = []
    for place in places:
        sql = f"select to_jsonb(t)::text from {place['name']} t where tenant_id = $1 order by 1"
        rows += [f"{place['name']} {row[0]}" for row in await connection.fetch(sql, tenant_id)]
    return rows

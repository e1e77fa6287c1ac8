"""Callers that write to some tenants and search them over HTTP, what was acknowledged to them, and what they saw."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx

from app.auth.principal import Role
from tests.fixtures.http.callers import Caller, make_token

SEARCHES = ("hybrid", "semantic", "keyword")
KINDS = ("create", "bulk", "patch", "delete", "upload", "saved search", "feedback", *SEARCHES)
PAUSE = 0.01
"""Seconds between two turns of a writer."""
READING = 0.3
"""Seconds between two searches: a reader would otherwise search more often than the writers send each kind."""
BULK = 3
CREW = "crew"
EXPECTED = {"embeddings_pending", "ranking_truncated"}
"""Rows of a bulk write get their vectors later, and each entry has the first word of the query."""
ALL = {"X-KB-Access": "all"}


class Refused(Exception):
    """A request did not succeed."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A request that succeeded: its kind, the change of places that it met, if any, and its seconds."""

    kind: str
    change: str | None
    seconds: float


@dataclass(eq=False)
class Stock:
    """What was acknowledged to the callers of a tenant.

    Attributes:
        entries: the content of each entry by its id; None: it was deleted, or is being changed.
        deleted: the ids of the deleted entries.
        uploads: the content of each file by the id of its asset.
        saved: the query of the saved search.
        rated: the number of rated hits.
        newest: the entry that each search must find.
    """

    tenant: UUID
    entries: dict[str, str | None] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    uploads: dict[str, str] = field(default_factory=dict)
    saved: str | None = None
    rated: int = 0
    newest: tuple[str, str] | None = None

    def note(self, entry: dict[str, Any]) -> None:
        """Make this the newest, unless it gets its vector later."""
        if entry["embedding_status"] == "ready":
            self.newest = entry["id"], entry["content"]

    @property
    def mark(self) -> str:
        """Each content has this, in a word of its own."""
        return f"of{self.tenant.int}"


class Load:
    """For each tenant, a creator that sends the writes in turn, one that rates hits, and a reader that searches.

    Half of the entries have readers: the group of the callers.

    Attributes:
        answered: the requests that succeeded.
        refused: those that did not.
        wrong: answers that lack an acknowledged entry, have one of another tenant, or lack a leg.
    """

    def __init__(self, http: httpx.AsyncClient, tenants: Sequence[UUID]) -> None:
        self._http = http
        self._stocks = [Stock(tenant) for tenant in tenants]
        self._change: str | None = None
        self._ends = False
        self.answered: list[Answered] = []
        self.refused: list[str] = []
        self.wrong: list[str] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send requests until the block ends, and some before and after it. Errors other than refusals end it."""
        async with asyncio.TaskGroup() as group:
            for stock in self._stocks:
                group.create_task(self._repeat(stock, Role.CREATOR, self._write, PAUSE))
                group.create_task(self._repeat(stock, Role.CREATOR, self._rate, PAUSE))
                group.create_task(self._repeat(stock, Role.READER, self._search, READING))
            await self._wait_for(60)
            yield
            await self._wait_for(60)
            self._ends = True

    async def _wait_for(self, requests: int) -> None:
        wanted = len(self.answered) + len(self.refused) + requests
        while len(self.answered) + len(self.refused) < wanted:  # noqa: ASYNC110
            await asyncio.sleep(PAUSE)

    @contextmanager
    def during(self, change: str) -> Iterator[None]:
        """Requests that run in the block, if only in part, meet this change."""
        self._change = change
        yield
        self._change = None

    async def _repeat(self, stock: Stock, role: Role, act: Any, pause: float) -> None:
        caller = self._caller(stock, role)
        for number in itertools.count():
            if self._ends:
                return
            with contextlib.suppress(Refused):
                await act(stock, caller, number)
            await asyncio.sleep(pause)

    def _caller(self, stock: Stock, role: Role) -> Caller:
        return Caller(self._http, stock.tenant, make_token(stock.tenant, role, subject=role, groups=[CREW]))

    async def _write(self, stock: Stock, caller: Caller, number: int) -> None:
        word = f"word{number}{stock.mark}"
        text = f"harbour {word}"
        readers = {"readers": [f"group:{CREW}"]} if number % 2 else {}
        entries = "/knowledge/entries"
        entry = await self._send("create", caller, "POST", entries, json={"content": text, **readers})
        created = entry["id"]
        stock.entries[created] = text
        stock.note(entry)

        contents = [f"{text} row{row}" for row in range(BULK)]
        rows = [{"content": content, **readers} for content in contents]
        answer = await self._send("bulk", caller, "POST", f"{entries}/bulk", json={"entries": rows})
        ids = [row["id"] for row in answer["results"] if row["status"] == "created"]
        stock.entries.update(zip(ids, contents, strict=True))

        stock.entries[created] = None
        changed = f"{text} changed"
        entry = await self._send("patch", caller, "PATCH", f"{entries}/{created}", json={"content": changed})
        stock.entries[created] = changed
        stock.note(entry)

        stock.entries[ids[0]] = None
        await self._send("delete", caller, "DELETE", f"{entries}/{ids[0]}")
        stock.deleted.add(ids[0])

        file = {"file": (f"{number}.md", f"{text} uploaded".encode(), "text/markdown")}
        asset = (await self._send("upload", caller, "POST", "/knowledge/assets", files=file, data=readers))["id"]
        stock.uploads[asset] = f"{text} uploaded"

        saved = {"name": "newest", "request": {"query": word}}
        await self._send("saved search", caller, "POST", "/knowledge/saved-searches", json=saved)
        stock.saved = word

    async def _rate(self, stock: Stock, caller: Caller, _: int) -> None:
        """Rate a hit: the answer waits until the search is recorded."""
        if stock.newest is None:
            return
        wanted, text = stock.newest
        ask = {"query": text.split()[1], "mode": "keyword"}
        found = await self._send("keyword", caller, "POST", "/knowledge/search", json=ask)
        note = {"search_id": found["metadata"]["search_id"], "entry_id": wanted, "relevant": True}
        await self._send("feedback", caller, "POST", "/knowledge/feedback", json=note)
        stock.rated += 1

    async def _search(self, stock: Stock, caller: Caller, number: int) -> None:
        """Look for the newest acknowledged entry; all entries of all tenants have the first word."""
        if stock.newest is None:
            return
        (wanted, text), mode = stock.newest, SEARCHES[number % len(SEARCHES)]
        found = await self._send(mode, caller, "POST", "/knowledge/search", json={"query": text, "mode": mode})
        contents = {hit["id"]: hit["content"] for hit in found["results"]}
        self.wrong += [f"foreign: {content!r}" for content in contents.values() if stock.mark not in content]
        if degraded := {*found["metadata"]["degraded"]} - EXPECTED:
            self.wrong.append(f"{mode}: {degraded}")
        if wanted not in contents and stock.entries[wanted] == text:
            self.wrong.append(f"{mode} did not find {text!r}")

    async def _send(self, kind: str, caller: Caller, method: str, path: str, **options: Any) -> Any:
        """The answer to a request. Raises Refused."""
        change, began = self._change, time.monotonic()
        answer = await caller.request(method, path, **options)
        seconds = time.monotonic() - began
        if not answer.is_success:
            self.refused.append(f"{kind}: {answer.status_code} {answer.text}")
            raise Refused
        self.answered.append(Answered(kind, change or self._change, seconds))
        return answer.json() if answer.content else None

    async def find_lost(self) -> list[str]:
        """How the stored differs from the acknowledged, once all uploads are indexed; nothing may be stored twice."""
        lost: list[str] = []
        for stock in self._stocks:
            admin = self._caller(stock, Role.TENANT_ADMIN)
            await _wait_for_indexing(admin)
            entries = await _list(admin, "/knowledge/entries", **ALL)
            saved = await _list(self._caller(stock, Role.CREATOR), "/knowledge/saved-searches")
            report = (await admin.get("/admin/feedback", headers=ALL)).json()
            wanted = {entry: text for entry, text in stock.entries.items() if entry not in stock.deleted}
            lost += [
                f"{what}: {stored!r} instead of {acknowledged!r}"
                for what, acknowledged, stored in (
                    ("entries", wanted, {e["id"]: e["content"] for e in entries if e["asset_id"] is None}),
                    ("uploads", stock.uploads, {e["asset_id"]: e["content"] for e in entries if e["asset_id"]}),
                    ("saved", [stock.saved], [search["request"]["query"] for search in saved]),
                    ("rated", stock.rated, report["relevant"]),
                )
                if acknowledged != stored
            ]
        return lost


async def _wait_for_indexing(admin: Caller) -> None:
    while any(asset["status"] in ("pending", "processing") for asset in await _list(admin, "/knowledge/assets", **ALL)):  # noqa: ASYNC110
        await asyncio.sleep(PAUSE)


async def _list(caller: Caller, path: str, **headers: str) -> list[dict[str, Any]]:
    """The items of all pages."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await caller.get(path, params={"limit": 100, **cursor}, headers=headers)
        assert answer.is_success, answer.text
        page = answer.json()
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        cursor = {"cursor": page["next_cursor"]}

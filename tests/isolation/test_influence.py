"""One tenant's data does not affect another tenant's hits, scores, counts or suggestions."""

from __future__ import annotations

import json
import re
from typing import Any

from app.auth.principal import Role
from app.composition.services import Services, build_services
from app.embeddings.resilience.cache import QueryCache
from app.knowledge.search.query import SearchQuery
from tests.fixtures.database.cluster import MODEL
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.providers.failing import FailingProvider

UUIDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
CHANGING = re.compile(
    r'("\w+_ms":) ?\d+|("\w*cursor": ?)"[^"]+"|("slug":) ?"[^"]*"|(")20\d\d-\d\d-\d\dT[^"]*(")'
)
KNOWLEDGE = [
    "The harbour closes at night", "The lighthouse keeper lights the lamp", "Ships wait outside the harbour",
    "Pilots guide ships in", "A bell rings at the pier", "Nets are repaired in winter",
]  # fmt: skip
QUERIES = [
    "harbour", "harbour at night", "lighthouse keeper", "harbuor", "lihgthouse", "lampe", "pier-17", "tariff",
    "zeppelin", "zepelin", "anchorage tariff", '"harbour closes"', "winter nets bell",
]  # fmt: skip


async def ask_everything(caller: Caller, services: Services) -> list[str]:
    """The responses to all queries, with ids numbered in order of appearance, and without times."""
    entries: list[dict[str, Any]] = []
    for text in KNOWLEDGE:
        tags = ["sea", text.split()[1].lower()]
        entries.append(await caller.add(text, tags=tags, parent_id=entries[0]["id"] if entries else None))
    assert caller.tenant_id is not None
    services.tenants.forget(caller.tenant_id)
    answers: list[Any] = [entries]
    for query in QUERIES:
        for mode, fusion in (("keyword", "rrf"), ("hybrid", "score")):
            answers.append(await caller.search(query, mode=mode, fusion=fusion, explain=True, limit=3))
        request = {"query": query, "mode": "keyword"}
        answers.append(
            (
                await caller.post(
                    "/knowledge/search/why-not", {"entry_id": entries[3]["id"], "request": request}
                )
            ).json()
        )
        answers.append(await caller.search(query, tags=["nowhere"]))
    await services.journal.flush()
    for path in (
        f"/knowledge/entries/{entries[0]['id']}/related",
        "/knowledge/entries",
        "/admin/stats",
        "/admin/settings",
    ):
        answers.append((await caller.get(path)).json())
        answers[-1].pop("searches_by_hour", None)  # an hour may end between the two runs
    numbers: dict[str, str] = {}
    texts = [CHANGING.sub(r"\1\2\3\4\5", json.dumps(a, separators=(",", ":"))) for a in answers]
    return [UUIDS.sub(lambda m: numbers.setdefault(m[0], f"#{len(numbers)}"), text) for text in texts]


async def test_responses_do_not_depend_on_another_tenants_data(
    admin: Caller, stranger: Caller, api_services: Services
) -> None:
    alone = await ask_everything(stranger, api_services)
    words = ["harbour", "night", "lighthouse", "tariff", "zeppelin", "pier-17", "anchorage", "keeper"]
    flood = [
        {
            "content": f"{word} number {n}: the {words[n % 8]} harbour lighthouse zeppelin",
            "title": f"{word} harbours",
            "tags": [word, "sea", "harbours", "zeppelin"],
        }
        for n in range(20)
        for word in words
    ]
    assert (await admin.post("/knowledge/entries/bulk", {"entries": flood})).status_code == 200
    for query in QUERIES:
        await admin.search(query)
    later = await api_services.tenants.create(f"later-{stranger.tenant_id}"[:63], "Later", actor="test")
    caller = Caller(admin.http, later.id, make_token(later.id, Role.TENANT_ADMIN, subject="sam"))
    together = await ask_everything(caller, api_services)
    differences = [(a, b) for a, b in zip(alone, together, strict=True) if a != b]
    assert differences == []


async def test_cached_query_of_one_tenant_does_not_speed_up_another(
    admin: Caller, stranger: Caller, api_services: Services
) -> None:
    """Otherwise the time of an embedding would reveal what other tenants have just searched for."""
    provider = FailingProvider(MODEL)
    services = await build_services(api_services.database, QueryCache(provider))
    for asking in (admin, stranger, admin, stranger):
        assert asking.tenant_id is not None
        await services.search.search(asking.tenant_id, SearchQuery(query="the harbour at night"))
    assert provider.queries == ["the harbour at night"] * 2
    await services.close()

"""What a tenant's callers are answered, in a form that can be compared with that of another tenant."""

import json
import re
from typing import Any

from app.composition.services import Services
from tests.fixtures.http.callers import Caller

UUIDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
CHANGING = re.compile(r'("\w+_ms":) ?\d+|("\w*cursor": ?)"[^"]+"|("slug":) ?"[^"]*"|(")20\d\d-\d\d-\d\dT[^"]*(")')
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
            (await caller.post("/knowledge/search/why-not", {"entry_id": entries[3]["id"], "request": request})).json()
        )
        answers.append(await caller.search(query, tags=["nowhere"]))
    await services.journal.flush()
    await services.similarities.flush()
    services.tenants.forget(caller.tenant_id)  # its context knows how many searches were counted
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

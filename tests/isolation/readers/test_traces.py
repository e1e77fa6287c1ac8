"""No answer of any endpoint or tool depends on what its caller may not read."""

import io
import json
import re

from fastapi import FastAPI

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.settings import SettingsPatch
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.providers.failing import FailingProvider
from tests.isolation.holdings import LISTS, fill
from tests.isolation.influence import QUERIES, ask_everything
from tests.isolation.looking import CANARY, NEAR, look_everywhere
from tests.isolation.places import MCP
from tests.isolation.readers.conftest import Join

ONLY = ["group:finance"]
REQUEST = re.compile(r'"request_id": ?"\w+"')


async def hide(writer: Caller, work: Work) -> set[str]:
    """Write what only the writer's group may read, of every kind; returns its ids."""
    parent = await writer.add(f"All about {CANARY}", tags=[CANARY, "harbour"], readers=ONLY, external_id=CANARY)
    ids = {parent["id"]}
    for n in range(12):
        entry = await writer.add(
            f"{CANARY} number {n} sings at the harbour at night", title=f"{CANARY} title", readers=ONLY,
            tags=[CANARY, "harbour", "night", "sea"], parent_id=parent["id"], source_ids=[parent["id"]],
            metadata={CANARY: n},
        )  # fmt: skip
        ids.add(entry["id"])
    for n in range(2):
        text = f"# {CANARY}\n\nThe {CANARY} in document {n} reads about the harbour at night.".encode()
        asset = await writer.upload(f"{CANARY}-{n}.md", text, "text/markdown", readers=ONLY, tags=CANARY)
        ids.add(asset.json()["id"])
        await work()
    changed = await writer.patch(f"/knowledge/entries/{entry['id']}", {"title": f"{CANARY} changed"})
    assert changed.status_code == 200
    await writer.upload(f"{CANARY}-9.md", f"{CANARY} waits".encode(), "text/markdown", readers=ONLY)
    await writer.post("/knowledge/saved-searches", {"name": "theirs", "request": {"query": CANARY}})
    assert len(await writer.find(CANARY)) > 1
    return ids


async def test_canaries_that_a_caller_may_not_read_are_in_none_of_its_answers(
    app: FastAPI,
    admin: Caller,
    join: Join,
    provider: FailingProvider,
    api_services: Services,
    work: Work,
    log: io.StringIO,
) -> None:
    await api_services.tenants.change_settings(
        admin.tenant_id,  # type: ignore[arg-type]
        SettingsPatch(keep_query_text=True, keep_versions_days=30),
    )
    insider, outsider = join("ann", "finance"), join("cleo", "board")
    secrets = [CANARY, *await hide(insider, work)]
    await insider.search(CANARY)
    own = await fill(outsider, "sparrow", work, lists=LISTS[:-1])
    for caller in (outsider, admin):
        told = await look_everywhere(caller, app, own.ids["entry_id"])
        provider.down = True
        told += [(await caller.post("/knowledge/search", {"query": word})).text for word in NEAR[:3]]
        provider.down = False
        told += [json.dumps(answer) for answer in await call_tools(caller)]
        for path in ("/knowledge/tags", "/knowledge/entries", "/knowledge/assets"):
            told.append((await caller.get(path, params={"limit": 200})).text)
        for text in told:
            assert [secret for secret in secrets if secret in text.lower()] == [], text[:500]
        assert len(told) > 60
    metrics = (await admin.http.get("/metrics")).text
    assert "knowledge_" in metrics
    assert len(log.getvalue().splitlines()) > 50
    for text in (metrics, log.getvalue().lower()):
        assert CANARY not in text
        assert "sparrow" not in text


async def call_tools(caller: Caller) -> list[object]:
    """The answers of every tool whose arguments are words, and of the lists of resources."""
    headers = {"Accept": "application/json, text/event-stream"}

    async def ask(method: str, params: dict[str, object]) -> object:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await caller.post(MCP, body, headers=headers)).json()

    answers = [await ask("tools/list", {}), await ask("resources/list", {})]
    for word in NEAR:
        answers += [
            await ask("tools/call", {"name": name, "arguments": arguments})
            for name, arguments in (
                ("kb_search", {"query": word}),
                ("hybrid_search", {"query_text": word}),
                ("search", {"query": word}),
                ("kb_list_tags", {}),
                ("kb_list_tags", {"prefix": "b"}),
                ("kb_saved_searches", {}),
            )
        ]
    return answers


async def test_answers_are_the_same_as_without_what_a_caller_may_not_read(
    admin: Caller, stranger: Caller, api_services: Services, work: Work
) -> None:
    """The same knowledge in two tenants, one of which also has hidden entries with the same words."""

    def sam(tenant: Caller) -> Caller:
        token = make_token(tenant.tenant_id, Role.CREATOR, subject="sam", groups=["board"])
        return Caller(admin.http, tenant.tenant_id, token)

    ann = Caller(
        admin.http, admin.tenant_id, make_token(admin.tenant_id, Role.CREATOR, subject="ann", groups=["finance"])
    )
    alone = await ask_everything(sam(stranger), api_services)
    words = ["harbour", "night", "lighthouse", "tariff", "zeppelin", "pier-17", "anchorage", "keeper"]
    flood = [
        {
            "content": f"{word} number {n}: the {words[n % 8]} harbour lighthouse zeppelin",
            "title": f"{word} harbours",
            "tags": [word, "sea", "harbours", "zeppelin"],
            "readers": ONLY,
        }
        for n in range(20)
        for word in words
    ]
    flood += [{"content": f"Der Hafen {n} schließt in der Nacht", "readers": ONLY} for n in range(5)]
    assert (await ann.post("/knowledge/entries/bulk", {"entries": flood})).status_code == 200
    await work()
    for query in QUERIES:
        await ann.search(query)
    together = await ask_everything(sam(admin), api_services)
    pairs = [(REQUEST.sub("", a), REQUEST.sub("", b)) for a, b in zip(alone, together, strict=True)]
    assert [_first_difference(a, b) for a, b in pairs if a != b] == []


def _first_difference(a: str, b: str) -> tuple[str, str]:
    place = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return a[max(0, place - 90) : place + 30], b[max(0, place - 90) : place + 30]

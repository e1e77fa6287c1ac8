"""Mixed traffic, and what a scrape shows of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from app.auth.principal import Role
from tests.fixtures.http.mcp_client import connect
from tests.operation.service import Operated

CANARY = "Zypernkanarie"
Series = tuple[str, frozenset[tuple[str, str]]]


def read_scrape(text: str) -> dict[Series, float]:
    """Every series of a scrape that belongs to the service."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("knowledge_")
    }


def value(series: Mapping[Series, float], name: str, **labels: str) -> float:
    """The value of one series; 0 if it does not exist."""
    return series.get((name, frozenset(labels.items())), 0.0)


async def scrape(operated: Operated) -> dict[Series, float]:
    answer = await operated.http.get("/metrics")
    assert answer.status_code == 200
    return read_scrape(answer.text)


async def make_traffic(operated: Operated) -> list[str]:
    """Send a little of everything, with words that must not appear; return ids and names that must not appear."""
    tenant = await operated.make_tenant()
    caller = operated.call_as(tenant)
    entry = await caller.add(f"The {CANARY} sings at dusk", title=CANARY, tags=[CANARY])
    upload = await caller.upload(f"{CANARY}.md", f"# {CANARY}\n\nIt sings.".encode(), "text/markdown")
    await caller.upload("broken.pdf", b"%PDF-1.4 nothing more", "application/pdf")
    await operated.work()
    for mode in ("hybrid", "semantic", "keyword"):
        for _ in range(2):
            await caller.search(CANARY, mode=mode)
    found = await caller.search(CANARY, limit=1)
    await caller.search(CANARY, limit=1, cursor=found["metadata"]["next_cursor"])
    await caller.post("/knowledge/search", {"query": CANARY, CANARY: 1})
    await caller.post("/knowledge/search/batch", {"searches": [{"query": CANARY}, {"query": "dusk"}]})
    await caller.get(f"/knowledge/{CANARY}")
    await caller.get(f"/knowledge/entries/{entry['id']}")
    await caller.request(CANARY.upper(), "/knowledge/search")
    await operated.call_as(tenant, Role.READER).get("/admin/stats")
    operated.provider.down = True
    for number in range(5):
        await caller.search(f"{CANARY} {number}")
    operated.provider.down = False
    async with connect(operated.app, caller.token) as client:
        await client.call_tool("kb_search", {"query": CANARY})
        await client.call_tool("kb_search", {CANARY: 1})
    await caller.patch("/admin/settings", {"limits": {"requests_per_minute": 1}})
    refused = [(await caller.get("/knowledge/entries")).status_code for _ in range(3)]
    assert 429 in refused
    return [str(tenant.id), tenant.slug, entry["id"], upload.json()["id"], caller.token]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Scrapes before and after mixed traffic, the secrets in the traffic, and all existing routes."""

    before: Mapping[Series, float]
    after: str
    secrets: Sequence[str]
    routes: frozenset[str]

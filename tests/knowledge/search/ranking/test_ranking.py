"""A small collection with known relevance: what each query must find first, with the local model.

`EXPECTED` names the entries that must lead, best first; what follows them is free.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.composition.services import Services
from app.contract.administration import NewTenant, Tenant
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import SearchQuery

ENTRIES: dict[str, dict[str, Any]] = {
    "vercel-overview": {
        "title": "Vercel overview",
        "content": "Vercel hosts our front end. Each push to main is built and deployed; previews exist for branches.",
        "entry_type": "summary",
        "tags": ["vercel", "hosting"],
    },
    "vercel-routes": {
        "title": "Route order in vercel.json",
        "content": "Routes in vercel.json are matched from top to bottom. Order the specific routes first and put the "
        "catch-all last, or it swallows the API.",
        "entry_type": "lesson",
        "tags": ["vercel", "routing", "serverless"],
        "parent": "vercel-overview",
    },
    "serverless-order": {
        "title": "Order of serverless handlers",
        "content": "On serverless platforms the route table is read in order and the first match wins, whatever "
        "the provider is.",
        "tags": ["serverless", "routing"],
    },
    "vercel-limits": {
        "title": "Limits of functions",
        "content": "A function may run for 60 seconds and answer with at most 4.5 MB.",
        "tags": ["vercel", "limits"],
        "parent": "vercel-overview",
    },
    "conn-reset": {
        "title": "ERR_CONN_RESET after a deploy",
        "content": "ERR_CONN_RESET in the logs means that the pooler closed an idle connection; the client retries.",
        "entry_type": "lesson",
        "tags": ["postgres", "errors"],
    },
    "conn-refused": {
        "content": "ERR_CONN_REFUSED means that nothing listens on the port.",
        "tags": ["errors"],
    },
    "know-004": {"content": "KNOW-004: feature flags are removed two releases after they are fully on."},
    "know-040": {"content": "KNOW-040: every flag has an owner and a date."},
    "version-214": {"content": "Version 2.14.1 of the billing service fixed rounding of refunds."},
    "version-210": {"content": "Version 2.10.0 of the billing service brought invoices as PDF."},
    "python-3114": {"content": "The workers run Python 3.11.4; older ones crash in the tokenizer."},
    "python-3141": {"content": "Python 3.14.1 is tried on one worker."},
    "python-31140": {"content": "Python 3.11.40 does not exist, but a ticket of April names it."},
    "password": {"content": "To regain access when a password is forgotten, use the link on the sign-in page."},
    "salary": {"content": "Salaries are paid on the 25th; the bank needs two days."},
    "holiday": {"content": "Vacation days are requested in the people tool and approved by the team lead."},
    "backup-de": {
        "title": "Datensicherung",
        "content": "Die Datenbank wird jede Nacht gesichert. Sicherungen werden dreißig Tage aufbewahrt.",
    },
    "restore-de": {
        "content": "Zum Wiederherstellen einer Sicherung wird zuerst ein leerer Cluster angelegt, nie der laufende "
        "überschrieben.",
    },
    "phrase-exact": {"content": "Our motto is to measure twice and cut once before any migration."},
    "phrase-mixed": {"content": "Once you cut the release, measure the load, twice if the migration was large."},
    "onboarding": {"content": "New colleagues get a laptop, a badge and a buddy on their first day."},
    "kubernetes": {"content": "Kubernetes clusters are upgraded every quarter, staging first."},
    "postmortem": {
        "content": "After an outage we write down what happened without blaming anybody.",
        "entry_type": "template",
    },
    "lunch": {"content": "On Thursdays the kitchen serves soup; say if you eat no meat."},
    "c-sharp": {
        "content": "The desktop client is written in C# and C++ & signed with an EV certificate (100 % of builds)."
    },
}

# Exact, semantic and mixed matches, special characters, irrelevant questions.
EXPECTED: list[tuple[str, list[str]]] = [
    ("How to order routes in vercel.json", ["vercel-routes", "serverless-order", "vercel-overview"]),
    ("ERR_CONN_RESET", ["conn-reset"]),
    ("KNOW-004", ["know-004"]),
    ("2.14.1", ["version-214"]),
    ("3.11.4", ["python-3114"]),
    ("which workers run Python 3.11.4?", ["python-3114"]),
    ("what does ERR_CONN_RESET mean", ["conn-reset", "conn-refused"]),
    ("KNOW-040 flag owner", ["know-040", "know-004"]),
    ("vercel.json", ["vercel-routes"]),
    ('"measure twice and cut once"', ["phrase-exact"]),
    ("I forgot my login credentials", ["password"]),
    ("requesting a vacation", ["holiday"]),
    ("when do I get paid", ["salary"]),
    ("kubernets", ["kubernetes"]),
    ("Wie lange werden Sicherungen aufbewahrt?", ["backup-de"]),
    ("Sicherung wiederherstellen", ["restore-de"]),
    ("Limits of functions", ["vercel-limits"]),
    ("C++ & C# (desktop)", ["c-sharp"]),
    ("what do we do after the site was down", ["postmortem"]),
]


@pytest.fixture(scope="module")
async def stock(local_services: Services) -> AsyncIterator[tuple[Tenant, dict[str, str]]]:
    """The tenant with the entries, and their names by id."""
    tenant = await local_services.tenants.create(NewTenant("ranking"), actor="test")
    names: dict[str, str] = {}
    ids: dict[str, Any] = {}
    for name, values in ENTRIES.items():
        given = {k: v for k, v in values.items() if k != "parent"}
        if "parent" in values:
            given["parent_id"] = ids[values["parent"]]
        entry, _ = await local_services.entries.create(tenant.id, EntryDraft(**given))
        ids[name] = entry.id
        names[str(entry.id)] = name
    yield tenant, names
    await local_services.tenants.delete(tenant.id, actor="test")


async def ask(services: Services, stock: tuple[Tenant, dict[str, str]], query: str, **options: Any) -> list[str]:
    result: SearchResult = await services.search.search(stock[0].id, SearchQuery(query, **options))
    return [stock[1][str(hit.id)] for hit in result]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fusion", ["rrf", "score"])
@pytest.mark.parametrize(("query", "expected"), EXPECTED, ids=[query for query, _ in EXPECTED])
async def test_query_ranks_its_relevant_entry_first(
    local_services: Services,
    stock: tuple[Tenant, dict[str, str]],
    query: str,
    expected: list[str],
    fusion: Any,
) -> None:
    found = await ask(local_services, stock, query, fusion=fusion)
    assert found[: len(expected)] == expected


async def test_irrelevant_question_has_no_similar_entry(
    local_services: Services, stock: tuple[Tenant, dict[str, str]]
) -> None:
    assert await ask(local_services, stock, "zygote mitosis telophase", mode="semantic") == []


@pytest.mark.parametrize("diversity", [0.0, 0.9])
async def test_entries_with_the_identifier_rank_above_similar_ones(
    local_services: Services, stock: tuple[Tenant, dict[str, str]], diversity: float
) -> None:
    """In the semantic leg the wrong version is closer, and the right one is below the threshold."""
    for query, right, wrong in (
        ("3.11.4", "python-3114", "python-31140"),
        ("2.14.1", "version-214", "python-3141"),
    ):
        assert (await ask(local_services, stock, query, mode="semantic"))[0] == wrong
        found = await ask(local_services, stock, query, diversity=diversity)
        assert found[0] == right
        assert wrong in found, "meaning is still asked"


async def test_identifier_of_another_case_is_found(
    local_services: Services, stock: tuple[Tenant, dict[str, str]]
) -> None:
    assert (await ask(local_services, stock, "err_conn_reset", mode="keyword"))[0] == "conn-reset"
    assert (await ask(local_services, stock, "know-004", mode="keyword"))[0] == "know-004"


async def test_related_entries_are_graded_by_shared_tags(
    local_services: Services, stock: tuple[Tenant, dict[str, str]]
) -> None:
    tenant, names = stock
    routes = next(i for i, name in names.items() if name == "vercel-routes")
    entry = await local_services.entries.list_entries(tenant.id, tag="routing")
    assert {names[str(e.id)] for e in entry.items} == {"vercel-routes", "serverless-order"}
    found = await local_services.related.related(tenant.id, next(e.id for e in entry.items if str(e.id) == routes))
    assert [(names[str(r.id)], r.relationship, r.overlap_count) for r in found.results] == [
        ("vercel-overview", "parent", None),
        ("vercel-limits", "sibling", None),
        ("serverless-order", "tag_overlap", 2),
    ]


async def test_ten_concurrent_searches_answer_like_sequential_ones(
    local_services: Services, stock: tuple[Tenant, dict[str, str]]
) -> None:
    queries = [query for query, _ in EXPECTED[:10]]
    one_by_one = [await ask(local_services, stock, query) for query in queries]
    at_once = await asyncio.gather(*(ask(local_services, stock, query) for query in queries))
    assert at_once == one_by_one

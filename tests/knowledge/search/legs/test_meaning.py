"""The leg of meaning, and who may read its hits."""

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import NewTenant, Tenant
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.principals import SERVICE, acting_as, principals_of
from app.db.queries.search import count_readable
from app.errors import KnowledgeError
from app.knowledge.search.legs.semantic import session_setup
from app.knowledge.search.plan import SearchDefaults
from app.knowledge.tenants.directory import MOST, WIDE_KEPT_SECONDS, WideCallers
from tests.fixtures.workers import run_due
from tests.knowledge.search.history import MODES
from tests.knowledge.writing import ids

TEXTS = (
    "The cat sleeps on the warm windowsill all afternoon.",
    "Interest rates were raised by the central bank on Thursday.",
    "To reset your password, open the account page and choose a new one.",
    "The recipe needs flour, butter, sugar and three eggs.",
)


async def test_question_finds_its_answer_without_a_common_word(local_services: Services) -> None:
    tenant = await local_services.tenants.create(NewTenant("meaning"), actor="test")
    made = {text: (await local_services.entries.create(tenant.id, EntryDraft(content=text)))[0].id for text in TEXTS}
    for query, answer in (
        ("I forgot my login credentials", TEXTS[2]),
        ("baking a cake", TEXTS[3]),
        ("monetary policy", TEXTS[1]),
        ("resting pets", TEXTS[0]),
    ):
        result = await local_services.search.search(
            tenant.id, SearchQuery(query=query, mode="semantic", similarity_threshold=0.1)
        )
        assert result[0].id == made[answer], query
        assert result.metadata.exact


UNKNOWN = {"🦉": "🍎🍐", "სიცოცხლე": "საქართველო", "ᚠᚢᚦ ᚨᚱᚲ": "ዓለም ሰላም", "กบเต้น": "สวัสดีครับ ยินดีที่ได้รู้จัก"}
"""Queries and texts of which the default model knows no token: for it, all are alike."""

SPELT = {
    "ξφδω ρτλψ κσθ": "Το ψωμί ζυμώνεται με προζύμι και νερό κάθε μέρα.",
    "कमन दपस तरल": "खमीर को हर दिन आटा और पानी खिलाया जाता है।",
    "노더 머기 사우": "발효종은 날마다 밀가루와 물을 먹여야 합니다.",
    "ظضغ ثذخ شصط": "تُغذّى الخميرة كل يوم بالدقيق والماء بكميات متساوية.",
    "ъэщ фгж чцх": "Закваску каждый день кормят мукой и водой.",
    "qzxv wkjph gqrt": "The leaven is fed with flour and water every day.",
}
"""Nonsense in scripts that the model only spells, with a text of the script."""


async def test_texts_and_queries_that_the_model_does_not_know_are_not_strong_matches(local_services: Services) -> None:
    tenant = await local_services.tenants.create(NewTenant("scripts"), actor="test")
    for content in (*UNKNOWN.values(), *SPELT.values()):
        entry, _ = await local_services.entries.create(tenant.id, EntryDraft(content=content))
        assert (entry.embedding_status == "none") is (content in UNKNOWN.values()), content
    for mode in MODES:
        for query in (*UNKNOWN, *SPELT):
            found = await local_services.search.search(tenant.id, SearchQuery(query=query, mode=mode))
            assert not found.metadata.strong_match, (mode, query)
            unknown = query in UNKNOWN and mode != "keyword"
            assert found.metadata.degraded == (["query_unknown"] if unknown else []), (mode, query)
            assert all(hit.similarity is None for hit in found) or query in SPELT
        for text in (*UNKNOWN.values(), *SPELT.values()):
            if mode != "semantic" or text in UNKNOWN.values():
                found = await local_services.search.search(tenant.id, SearchQuery(query=text, mode=mode))
                assert found[0].content == text
                assert found.metadata.strong_match, (mode, text)


async def test_no_part_of_a_long_query_is_lost(local_services: Services) -> None:
    tenant = await local_services.tenants.create(NewTenant("long"), actor="test")
    made = {text: (await local_services.entries.create(tenant.id, EntryDraft(content=text)))[0].id for text in TEXTS}
    rest = "Our ferry sails at noon past the old lighthouse, and gulls follow it over the grey and windy sea. " * 60
    question = "I forgot my login credentials and cannot get in. How do I get a new password for my account?"
    for query in (rest + question, question + rest, rest[:2940] + question + rest[2940:]):
        for mode in ("semantic", "hybrid"):
            found = await local_services.search.search(tenant.id, SearchQuery(query=query.strip(), mode=mode))
            assert (found[0].id, found.metadata.degraded) == (made[TEXTS[2]], []), mode
            (again,) = await local_services.search.search_many(tenant.id, [SearchQuery(query=query.strip(), mode=mode)])
            assert not isinstance(again, KnowledgeError)
            assert [(hit.id, hit.score) for hit in again] == [(hit.id, hit.score) for hit in found]
    verdict = await local_services.search.why_not(tenant.id, made[TEXTS[2]], SearchQuery(query=rest + question))
    assert verdict.in_results


FEW = 5
LISTS = [["group:few"]] * 2 + [["group:east", "group:west"]] * 4 + [["group:east"]] * 2 + [["group:rest"]] * 8
"""The readers of the entries: `few` and `west` have two and four entries, and more than FEW together."""


@pytest.fixture
async def divided(services: Services, tenant: Tenant) -> Services:
    """Services that compare at most five passages exactly, over a tenant whose entries all have readers."""
    drafts = [EntryDraft(content=f"harbour number {n}", readers=readers) for n, readers in enumerate(LISTS)]
    with acting_as(SERVICE):
        await services.entries.create_many(tenant.id, drafts)
        await run_due(services.worker)
    services.tenants.forget(tenant.id)
    return await build_services(services.database, services.provider, defaults=SearchDefaults(exact_limit=FEW))


async def find(services: Services, tenant: Tenant, *groups: str) -> int:
    """The number of hits for a caller in these groups."""
    with acting_as(principals_of("jane", groups)):
        found = await services.search.search(tenant.id, SearchQuery(query="harbour", limit=50))
        assert found.metadata.exact
        return len(ids(found))


@pytest.mark.parametrize(
    ("groups", "least"), [((), 0), (("few",), 2), (("east", "west"), 6), (("few", "east", "west"), 6)]
)
async def test_statistics_bound_what_a_caller_may_read(
    divided: Services, tenant: Tenant, groups: tuple[str, ...], least: int
) -> None:
    with acting_as(principals_of("jane", groups)):
        async with divided.database.tenant_session(tenant.id) as session:
            assert await count_readable(session) == least


async def test_the_service_may_read_all(divided: Services, tenant: Tenant) -> None:
    with acting_as(SERVICE):
        async with divided.database.tenant_session(tenant.id) as session:
            assert await count_readable(session) == len(LISTS)


async def test_a_caller_whose_groups_overlap_is_counted_once(divided: Services, tenant: Tenant) -> None:
    known = (await divided.tenants.context(tenant.id)).wide_callers
    for groups, expected in ((("few",), 2), (("few", "west"), 6), (("east",), 6), ((), 0)):
        assert await find(divided, tenant, *groups) == expected
        # Six entries of one group are many without counting.
        assert (principals_of("jane", groups) in known) == (groups == ("few", "west"))
    assert await find(divided, tenant, "few", "west") == 6
    assert (await divided.tenants.context(tenant.id)).wide_callers is known


def test_wide_callers_are_remembered_for_a_while() -> None:
    now = 100.0
    known = WideCallers(clock=lambda: now)
    known.add(("everyone",))
    now += WIDE_KEPT_SECONDS - 1
    assert ("everyone",) in known
    assert ("everyone", "user:jane") not in known
    now += 1
    assert ("everyone",) not in known
    for number in range(MOST + 1):
        known.add((f"user:{number}",))
    assert (f"user:{MOST}",) in known
    assert ("user:0",) not in known


def test_the_search_effort_grows_with_the_passages_up_to_a_bound() -> None:
    for passages, effort in ((0, 130), (100_000, 400), (1_000_000, 500)):
        assert f"hnsw.ef_search={effort};" in session_setup(None, passages)
    assert "hnsw.ef_search=40;" in session_setup(40, 100_000)

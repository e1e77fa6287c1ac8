"""Near-duplicates, which differ only in numbers and dates: one hit stands for them."""

from itertools import product
from typing import Any

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.db.statements import Statement
from app.knowledge.search.plan import POOL
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs
from tests.knowledge.search.history import FUSIONS, MODES
from tests.knowledge.writing import write

pytestmark = pytest.mark.own_tenants

OTHERS = (
    "The nightly backup of the archive failed because its disk was full.",
    "Who restores a backup of the ledger asks the operator on duty first.",
    "A backup is kept for thirty days, and the last one of a month for a year.",
)
PATTERN = Statement("pattern", "select text_pattern($1::text, $2::text)", ("title", "content"), writes=False)


async def search(services: Services, tenant: Tenant, query: str, **fields: Any) -> SearchResult:
    return await services.search.search(tenant.id, SearchQuery(query=query, **fields))


def note(number: int) -> str:
    return f"Backup run {number} of 2026-03-{number % 28 + 1:02} finished without errors on the main server."


async def fill(services: Services, tenant: Tenant, provider: FailingProvider, notes: int) -> None:
    """Notes that differ in numbers and dates, and three other texts; all have the same vector."""
    provider.default = provider.direction(1)
    await write(services, tenant, *OTHERS)
    await services.entries.create_many(tenant.id, [EntryDraft(content=note(n)) for n in range(100, 100 + notes)])
    await services.embedder.embed_all(tenant.id)


async def test_one_hit_stands_for_near_duplicates(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    await fill(services, tenant, failing_provider, 30)
    for mode, fusion, diversity in product(MODES, FUSIONS, (0.0, 0.5)):
        asked = {"mode": mode, "fusion": fusion, "diversity": diversity}
        found = await search(services, tenant, "backup", **asked)
        assert {hit.content for hit in found} >= set(OTHERS), asked
        assert sorted(hit.duplicates for hit in found) == [0, 0, 0, 29], asked
        assert (found.metadata.total, found.metadata.estimated_matches, found.metadata.degraded) == (4, 33, []), asked
        first = await search(services, tenant, "backup", limit=2, **asked)
        second = await search(services, tenant, "backup", limit=2, cursor=first.metadata.next_cursor, **asked)
        assert [(h.id, h.duplicates) for page in (first, second) for h in page] == [(h.id, h.duplicates) for h in found]
        shown = await search(services, tenant, "backup", limit=50, duplicates="show", **asked)
        assert (len(shown), {hit.duplicates for hit in shown}) == (33, {0}), asked


async def test_the_near_duplicate_with_the_number_of_the_query_stands_for_the_others(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    await fill(services, tenant, failing_provider, 30)
    for mode, fusion, number in product(MODES, FUSIONS, (104, 117)):
        query = SearchQuery(query=f"What became of backup run {number}?", mode=mode, fusion=fusion)
        found = await services.search.search(tenant.id, query)
        (folded,) = [hit for hit in found if hit.duplicates]
        assert folded.content == note(number), (mode, fusion)
        if mode != "semantic":
            assert found[0] == folded, (mode, fusion)
        (other,) = await write(services, tenant, note(130))
        verdict = await services.search.why_not(tenant.id, other, query)
        assert (verdict.in_results, [reason.stage for reason in verdict.reasons]) == (False, ["duplicate"])
        assert str(folded.id) in verdict.reasons[0].detail


async def test_more_near_duplicates_than_the_pool_has_room_for_hide_nothing(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    await fill(services, tenant, failing_provider, 2 * POOL)
    for mode, fusion in product(MODES, FUSIONS):
        found = await search(services, tenant, "backup run", mode=mode, fusion=fusion, limit=5)
        assert {hit.content for hit in found} >= set(OTHERS), (mode, fusion)
        assert max(hit.duplicates for hit in found) == 2 * POOL - 1
        assert found.metadata.degraded == []


async def test_near_duplicates_are_folded_before_they_are_grouped_by_asset(
    services: Services, tenant: Tenant, run_jobs: RunJobs
) -> None:
    for number in (7, 8, 9):
        await services.assets.upload(tenant.id, Upload(name=f"{number}.txt", data=note(number).encode()))
    await services.assets.upload(tenant.id, Upload(name="other.txt", data=OTHERS[0].encode()))
    await run_jobs()
    asked = {"mode": "keyword", "group_by": "asset"}
    found = await search(services, tenant, "backup", **asked)
    assert {hit.asset_name: hit.duplicates for hit in found if hit.asset_name == "other.txt"} == {"other.txt": 0}
    assert sorted(hit.duplicates for hit in found) == [0, 2]
    assert (await search(services, tenant, "backup 8", **asked))[0].asset_name == "8.txt"
    assert len(await search(services, tenant, "backup", duplicates="show", **asked)) == 4


ALIKE = (
    ("Error 4711: the disk of the host is full", "error 4712 -> the disk of the host is full", False),
    ("Error 4711: the disk of the host is full", "error 4712: The disk of the host, is full.", True),
    (
        "The meeting of the team is on Monday, 12 March 2026 at 10:30.",
        "The meeting of the team is on Friday, 3 April 2025 at 9:00.",
        True,
    ),
    ("The meeting is on March 12, 2026 in the hall.", "The meeting is on 2026-04-01 in the hall.", True),
    ("Das Treffen ist am 3. Mai 2026 im großen Saal.", "Das Treffen ist am 12. Juni 2027 im großen Saal.", True),
    ("La reunión es el 3 de mayo de 2026 en la sala.", "La reunión es el 12 de junio de 2027 en la sala.", True),
    ("The 1st rule of the house is silence.", "The 22nd rule of the house is silence.", True),
    ("The price of the plan is 1,000.50 a month.", "The price of the plan is 12 a month.", True),
    ("会議は2026年3月12日に大きな部屋で開かれる予定です。", "会議は2027年4月1日に大きな部屋で開かれる予定です。", True),
    ("Deploy of version 1.2.3 to the staging cluster", "Deploy of version 2.10 to the staging cluster", True),
    ("Deploy of version 1.2.3 to the staging cluster", "Deploy of version 1.2.3 to the main cluster", False),
    ("The compiler of C++ 17 is on the build server", "The compiler of C# 17 is on the build server", False),
    ("ORA-00942: the table or view does not exist", "TNS-00942: the table or view does not exist", False),
    ("In March the harbour is closed for repairs", "In April the harbour is closed for repairs", False),
    ("Error 4711", "Error 4712", False),
    ("| 2025 | 12 | 40 |", "| 2026 | 13 | 41 |", False),
)


@pytest.mark.parametrize(("one", "other", "alike"), ALIKE)
async def test_near_duplicates_have_the_same_words_but_for_numbers_and_dates(
    services: Services, tenant: Tenant, one: str, other: str, alike: bool
) -> None:
    async with services.database.tenant_session(tenant.id) as session:
        made = [await session.fetch_value(PATTERN, title=None, content=text) for text in (one, other)]
        titled = [await session.fetch_value(PATTERN, title=title, content=one) for title in ("Berlin", "Paris")]
    assert (made[0] is not None and made[0] == made[1]) is alike
    assert titled[0] is None or titled[0] != titled[1]

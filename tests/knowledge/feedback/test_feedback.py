"""Feedback on hits, and the report and comparison that use it."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from app.contract.administration import NewTenant
from app.contract.results import SearchResult
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.db.queries.reembedding import SampledQuery
from app.errors import EntryNotFound, InvalidInput, SearchNotFound
from app.knowledge.feedback import JudgedQuery
from app.knowledge.reembedding.comparison import ModelComparer
from tests.knowledge.subscriptions.subscribing import Desk


async def search(desk: Desk, query: str, subject: str = "anna") -> SearchResult:
    found = await desk.services.search.search(desk.tenant.id, SearchQuery(query=query, mode="keyword"), subject=subject)
    await desk.services.journal.flush()
    return found


async def judge(desk: Desk, found: SearchResult, entry: UUID, relevant: bool, subject: str = "anna") -> None:
    await desk.services.feedback.give(desk.tenant.id, subject, found.metadata.search_id, entry, relevant)


async def keep_queries(desk: Desk, keep: bool = True) -> None:
    await desk.services.tenants.change_settings(desk.tenant.id, SettingsPatch(keep_query_text=keep), actor="admin")


async def test_feedback_is_for_hits_of_the_callers_own_searches(desk: Desk) -> None:
    entry, other = await desk.write("The harbour"), await desk.write("The road")
    found = await desk.services.search.search(
        desk.tenant.id, SearchQuery(query="harbour", mode="keyword"), subject="anna"
    )
    stranger = await desk.services.tenants.create(NewTenant("stranger"), actor="test")
    service, search_id = desk.services.feedback, found.metadata.search_id
    given = await service.give(desk.tenant.id, "anna", search_id, entry, True)
    assert (given.search_id, given.entry_id, given.relevant) == (search_id, entry, True), "at once"
    for tenant, subject, identifier in (
        (desk.tenant.id, "berta", search_id),
        (stranger.id, "anna", search_id),
        (desk.tenant.id, "anna", uuid4()),
    ):
        with pytest.raises(SearchNotFound, match="you ran no search with this id in the last 24 hours"):
            await service.give(tenant, subject, identifier, entry, True)
    for wrong in (other, uuid4()):
        with pytest.raises(InvalidInput, match="entry_id: must be a hit of that search"):
            await service.give(desk.tenant.id, "anna", search_id, wrong, True)
    await desk.services.entries.delete(desk.tenant.id, entry)
    with pytest.raises(EntryNotFound):
        await service.give(desk.tenant.id, "anna", search_id, entry, True)
    assert await desk.sql("select count(*) from feedback") == [0]


async def test_feedback_can_be_changed(desk: Desk) -> None:
    entry = await desk.write("The harbour")
    found = await search(desk, "harbour")
    for relevant in (True, False):
        await judge(desk, found, entry, relevant)
    assert await desk.sql("select relevant from feedback") == [False]


async def test_feedback_is_accepted_for_a_day(desk: Desk) -> None:
    entry = await desk.write("The harbour")
    found = await search(desk, "harbour")
    await desk.sql("update searches set at = at - interval '25 hours'")
    with pytest.raises(SearchNotFound):
        await judge(desk, found, entry, True)


async def test_the_report_lists_queries_without_results_and_disliked_hits(desk: Desk) -> None:
    await keep_queries(desk)
    good, bad = await desk.write("The harbour"), await desk.write("The harbour bell", title="Bell")
    for subject in ("anna", "berta"):
        found = await search(desk, "Harbour", subject)
        await judge(desk, found, bad, False, subject)
        await judge(desk, found, good, True, subject)
    for query in ("zeppelin", "zeppelin", "airship"):
        await search(desk, query)
    report = await desk.services.feedback.report(desk.tenant.id)
    assert (report.relevant, report.not_relevant, report.searches_without_results) == (2, 2, 3)
    assert [(e.query, e.searches) for e in report.empty_searches] == [("zeppelin", 2), ("airship", 1)]
    (disliked,) = report.disliked
    assert (disliked.entry_id, disliked.title, disliked.not_relevant, disliked.relevant) == (
        bad,
        "Bell",
        2,
        0,
    )
    assert disliked.queries == ["Harbour"]


async def test_no_query_is_shown_or_stored_when_the_tenant_does_not_keep_queries(desk: Desk) -> None:
    entry = await desk.write("The harbour")
    await judge(desk, await search(desk, "harbour"), entry, False)
    await search(desk, "zeppelin")
    report = await desk.services.feedback.report(desk.tenant.id)
    assert (report.queries_kept, report.searches_without_results, report.empty_searches) == (False, 1, [])
    assert report.disliked[0].queries == []
    kept = "select count(*) from feedback where query is not null"
    receipts = "select count(*) from searches where receipt ? 'query'"
    assert (await desk.sql(kept), await desk.sql(receipts)) == ([0], [0])
    await keep_queries(desk)
    await judge(desk, await search(desk, "harbour"), entry, False)
    assert (await desk.sql(kept), await desk.sql(receipts)) == ([1], [1])
    await keep_queries(desk, keep=False)
    assert (await desk.sql(kept), await desk.sql(receipts)) == ([0], [0]), "what was kept is erased"


@pytest.mark.slow
async def test_searches_with_results_are_removed_after_a_day(desk: Desk) -> None:
    await keep_queries(desk)
    await desk.write("The harbour")
    found, missed, old = [await search(desk, q) for q in ("harbour", "zeppelin", "airship")]
    age = "update searches set at = at - $2::interval where id = $1"
    for result, hours in ((found, 25), (missed, 25), (old, 24 * 31)):
        await desk.sql(age.replace("$2::interval", f"interval '{hours} hours'"), result.metadata.search_id)
    with pytest.raises(SearchNotFound):
        await desk.services.administration.receipt(desk.tenant.id, missed.metadata.search_id)
    await desk.services.worker.sweep.run()
    assert await desk.sql("select receipt from searches") == ['{"query": "zeppelin"}']
    with pytest.raises(SearchNotFound):
        await desk.services.administration.receipt(desk.tenant.id, missed.metadata.search_id)
    report = await desk.services.feedback.report(desk.tenant.id)
    assert [e.query for e in report.empty_searches] == ["zeppelin"]


async def test_judgements_need_a_majority(desk: Desk) -> None:
    await keep_queries(desk)
    liked, drawn, disliked = [await desk.write(f"The harbour {n}") for n in range(3)]
    votes = {liked: (True, True, False), drawn: (True, False), disliked: (False,)}
    for place, subject in enumerate(("anna", "berta", "carla")):
        found = await search(desk, "Harbour" if place else "harbour", subject)
        for entry, said in votes.items():
            if place < len(said):
                await judge(desk, found, entry, said[place], subject)
    judged = await desk.services.feedback.judged_queries(desk.tenant.id)
    assert judged == [JudgedQuery("harbour", {liked: 1.0, disliked: 0.0})]


async def test_a_query_without_a_relevant_hit_is_not_judged(desk: Desk) -> None:
    await keep_queries(desk)
    entry = await desk.write("The harbour")
    await judge(desk, await search(desk, "harbour"), entry, False)
    assert await desk.services.feedback.judged_queries(desk.tenant.id) == []


async def test_a_comparison_of_models_measures_both_by_the_feedback(desk: Desk) -> None:
    entries = [await desk.write(f"The harbour {n}") for n in range(3)]
    context = await desk.services.tenants.context(desk.tenant.id)
    # The same model twice; one of them with the keyword leg only, so that they differ.
    silent = replace(context, settings=replace(context.settings, similarity_threshold=1.0))
    judged = [JudgedQuery("The harbour 1", {entries[1]: 1.0}), JudgedQuery("zeppelin", {entries[0]: 1.0})]
    comparer = ModelComparer(desk.services.database, desk.services.ranker, desk.services.search.defaults)
    sample = [SampledQuery("harbour", None)]
    compared = await comparer.ask(silent, context, sample, judged)
    assert (compared.judgements, compared.judged) == (2, 2)
    assert compared.quality is not None
    assert compared.quality.old == 0.5 <= compared.quality.new
    assert compared.semantic_quality is not None
    assert (compared.queries, compared.source, compared.semantic_overlap) == (0, None, None)
    without = await comparer.ask(context, context, sample)
    assert (without.judged, without.quality, without.semantic_quality) == (0, None, None)

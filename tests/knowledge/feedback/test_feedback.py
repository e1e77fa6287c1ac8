"""Feedback on hits, and the weights that are tuned with it."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from app.composition.services import Services
from app.contract.administration import NewTenant, Tenant
from app.contract.entries import EntryDraft
from app.contract.results import SearchResult
from app.contract.search import SearchQuery, Weights
from app.contract.settings import SettingsPatch
from app.db.queries.reembedding import SampledQuery
from app.errors import EntryNotFound, InvalidInput, SearchNotFound
from app.knowledge.feedback import JudgedQuery, WeightTuner
from app.knowledge.reembedding.comparison import ModelComparer
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.searching import explanation_of
from tests.knowledge.subscriptions.subscribing import Desk

pytestmark = pytest.mark.own_tenants


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
    assert (disliked.entry_id, disliked.title, disliked.not_relevant, disliked.relevant) == (bad, "Bell", 2, 0)
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


QUERIES = 6


@pytest.fixture
async def right(services: Services, tenant: Tenant, failing_provider: FailingProvider) -> list[UUID]:
    """The right answers to queries whose word leads to a wrong entry, first with the default weights."""
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_query_text=True))
    d, found = failing_provider.direction, []
    for n in range(QUERIES):
        word = f"harbour{n}"
        base = [0.0] * n
        failing_provider.vectors |= {
            word: d(*base, 1),
            f"Answer {n}": d(*base, 0.55, *([0.0] * (12 - n)), 0.835),
            f"The {word}": d(*([0.0] * 15), 1),
        }
        answer, wrong = [
            (await services.entries.create(tenant.id, EntryDraft(content=content)))[0].id
            for content in (f"Answer {n}", f"The {word}")
        ]
        first = await services.search.search(tenant.id, SearchQuery(query=word), subject="anna")
        assert [hit.id for hit in first][:2] == [wrong, answer]
        await services.journal.flush()
        for entry, relevant in ((answer, True), (wrong, False)):
            await services.feedback.give(tenant.id, "anna", first.metadata.search_id, entry, relevant)
        found.append(answer)
    return found


def make_tuner(services: Services, fewest: int = QUERIES) -> WeightTuner:
    return WeightTuner(services.database, services.tenants, services.ranker, services.search.defaults, fewest=fewest)


async def first_hit(services: Services, tenant: Tenant, n: int) -> tuple[UUID, Weights]:
    found = await services.search.search(tenant.id, SearchQuery(query=f"harbour{n}", explain=True))
    return found[0].id, explanation_of(found).weights


async def test_better_weights_apply_are_recorded_and_undone_by_one_setting(
    services: Services, tenant: Tenant, right: list[UUID]
) -> None:
    tuner = make_tuner(services)
    tuned = await tuner.tune(tenant.id)
    assert tuned is not None
    assert (tuned.fusion, tuned.queries, tuned.former) == ("score", QUERIES, Weights(0.5, 0.5))
    assert 0 < tuned.low <= tuned.gain <= tuned.high
    assert await first_hit(services, tenant, 2) == (right[2], tuned.weights)
    assert (await services.tenants.read_settings(tenant.id)).tuned == tuned
    record = next(r for r in (await services.administration.audit(tenant.id)).items if r.action == "settings.tune")
    assert record.actor == "tuning"
    assert record.detail["former"] == {"semantic": 0.5, "keyword": 0.5}
    assert (record.detail["low"], record.detail["high"]) == (tuned.low, tuned.high)
    assert "harbour" not in str(record.detail)
    assert await tuner.tune(tenant.id) is None, "nothing is better than what applies"
    await services.tenants.change_settings(tenant.id, SettingsPatch(auto_tune=False))
    answer, weights = await first_hit(services, tenant, 2)
    assert answer != right[2]
    assert weights == Weights(0.5, 0.5)
    assert await make_tuner(services).tune(tenant.id) is None


@pytest.mark.usefixtures("right")
async def test_weights_of_the_admin_and_of_the_caller_are_never_touched(services: Services, tenant: Tenant) -> None:
    own = SettingsPatch(weights=Weights(0.3, 0.7))
    await services.tenants.change_settings(tenant.id, own)
    assert await make_tuner(services).tune(tenant.id) is None
    await services.tenants.change_settings(tenant.id, SettingsPatch(weights=None))
    assert await make_tuner(services).tune(tenant.id) is not None
    await services.tenants.change_settings(tenant.id, own)
    assert (await first_hit(services, tenant, 0))[1] == Weights(0.3, 0.7)
    await services.tenants.change_settings(tenant.id, SettingsPatch(weights=None))
    other = SearchQuery(query="harbour0", fusion="rrf", explain=True)
    debug = explanation_of(await services.search.search(tenant.id, other))
    assert debug.weights == Weights(0.7, 0.3), "they are for the other fusion"
    with pytest.raises(InvalidInput, match="tuned: unknown field"):
        SettingsPatch(tuned={"fusion": "score"})  # type: ignore[call-arg]


@pytest.mark.usefixtures("right")
async def test_nothing_is_tuned_by_few_queries_without_texts_or_without_the_provider(
    services: Services, tenant: Tenant, failing_provider: FailingProvider
) -> None:
    assert await make_tuner(services, QUERIES + 1).tune(tenant.id) is None
    failing_provider.down = True
    assert await make_tuner(services).tune(tenant.id) is None
    failing_provider.down = False
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_query_text=False))
    assert await make_tuner(services).tune(tenant.id) is None
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_query_text=True))
    assert await make_tuner(services).tune(tenant.id) is None, "the texts were erased"
    assert (await services.tenants.read_settings(tenant.id)).tuned is None


@pytest.mark.usefixtures("right")
async def test_the_sweep_tunes(services: Services, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = services.worker.sweep
    monkeypatch.setattr(sweep, "tuner", make_tuner(services))
    await sweep.run()
    assert (await services.tenants.read_settings(tenant.id)).tuned is not None

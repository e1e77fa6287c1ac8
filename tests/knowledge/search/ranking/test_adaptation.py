"""Weights that follow how sure the semantic leg is of the tenant's searches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import NewTenant, Tenant
from app.contract.results import SearchResult
from app.contract.search import RRF_WEIGHTS, SCORE_WEIGHTS, SearchQuery, Weights
from app.contract.settings import Adaptation, SettingsPatch, TunedWeights
from app.db.principals import acting_as, principals_of
from app.db.queries import tenants as db
from app.embeddings.provider import E5, EmbeddingModel, resolve_model
from app.knowledge.tenants.adaptation import LEAST, adapt
from app.knowledge.tenants.directory import store_tuned, version_of
from tests.fixtures.database.cluster import MODEL, connected
from tests.fixtures.providers.failing import FailingProvider
from tests.fixtures.searching import explanation_of
from tests.knowledge.writing import ids, write

CENTRE = 0.3
SURE = 1.0
"""The cosine of each pair of texts in these tests."""

ENGLISH, MANY_LANGUAGES = resolve_model("local"), resolve_model("local", E5)


def test_weights_follow_the_distance_from_the_centre() -> None:
    cases: list[tuple[EmbeddingModel, int, float, float]] = [
        (ENGLISH, 0, 0.0, 0.5),
        (ENGLISH, 1_000, ENGLISH.centre or 0, 0.5),
        (ENGLISH, 10, 0.65, 0.4),  # ten searches count half, like the prior
        (ENGLISH, 1_000_000, 0.65, 0.3),
        (ENGLISH, 1_000_000, 0.95, LEAST),
        (ENGLISH, 1_000_000, 0.35, 0.5),  # a low mean changes nothing
        (MANY_LANGUAGES, 1_000_000, (MANY_LANGUAGES.centre or 0) + 0.0314, 0.3),  # cosines are stretched
        (replace(ENGLISH, centre=None), 1_000, 0.9, 0.5),
    ]
    for model, searches, mean, keyword in cases:
        found = adapt(model, searches, mean).weights
        assert found == Weights(round(1 - keyword, 2), keyword), (model.name, searches, mean)


@dataclass(frozen=True)
class Desk:
    """A tenant whose model has a centre, and whose texts all have the same vector."""

    services: Services
    tenant: Tenant
    superuser_dsn: str

    async def sql(self, statement: str, *values: object) -> None:
        """Run a statement as the superuser, and let the service see its effect."""
        async with connected(self.superuser_dsn) as superuser:
            await superuser.execute(statement, *values)
        self.services.tenants.forget(self.tenant.id)

    async def search(self, query: str = "harbour", **values: Any) -> SearchResult:
        """Search, and count the search."""
        found = await self.services.search.search(self.tenant.id, SearchQuery(query=query, explain=True, **values))
        await self.settle()
        return found

    async def settle(self) -> None:
        """Write what is counted, and read it again."""
        await self.services.similarities.flush()
        self.services.tenants.forget(self.tenant.id)

    async def seen(self) -> Adaptation:
        """What the searches have shown."""
        found = (await self.services.tenants.read_settings(self.tenant.id)).adaptation
        assert found is not None
        return found


@pytest.fixture
async def desk(services: Services, tenant: Tenant, failing_provider: FailingProvider, superuser_dsn: str) -> Desk:
    failing_provider.default = failing_provider.direction(1)
    made = Desk(services, tenant, superuser_dsn)
    await write(services, tenant, "the harbour opens", "ships in the harbour at night", "a cook bakes bread")
    await made.sql("update embedding_models set centre = $1", CENTRE)
    return made


async def test_the_first_searches_move_the_weights_and_the_answer_says_so(desk: Desk) -> None:
    first = await desk.search()
    assert (first.metadata.weights, first.metadata.weights_from) == (SCORE_WEIGHTS, "default")
    assert explanation_of(first).adaptation is None
    second = await desk.search()
    moved = Weights(0.63, 0.37)  # 0.5 - 2 · (1 - 0.3) · 1 / (1 + 10)
    assert (second.metadata.weights, second.metadata.weights_from) == (moved, "searches")
    debug = explanation_of(second)
    assert (debug.weights, debug.weights_from) == (moved, "searches")
    assert debug.adaptation == Adaptation(1, SURE, CENTRE, moved)
    assert second[0].score == pytest.approx(debug.hits[0].semantic_term + debug.hits[0].keyword_term)  # type: ignore[operator]
    assert debug.hits[0].semantic_term == pytest.approx(moved.semantic)
    assert (await desk.seen()).searches == 2


async def test_other_weights_take_precedence(desk: Desk) -> None:
    """From the weakest to the strongest; each later one replaces the earlier ones."""
    services, tenant = desk.services, desk.tenant
    await desk.search()

    async def used(**values: Any) -> tuple[Weights, str]:
        metadata = (await desk.search(**values)).metadata
        return metadata.weights, metadata.weights_from

    assert (await used())[1] == "searches"
    assert await used(fusion="rrf") == (RRF_WEIGHTS, "default"), "it uses ranks, which say nothing of sureness"
    assert await used(mode="keyword") == (SCORE_WEIGHTS, "default"), "the score of a single leg does not move"
    tuned = TunedWeights("score", Weights(0.4, 0.6), SCORE_WEIGHTS, 60, 0.1, 0.05, 0.15)
    async with services.database.tenant_session(tenant.id) as session:
        assert await store_tuned(session, tuned)
    services.tenants.forget(tenant.id)
    assert await used() == (Weights(0.4, 0.6), "feedback")
    await services.tenants.change_settings(tenant.id, SettingsPatch(weights=Weights(0.2, 0.8)))
    assert await used() == (Weights(0.2, 0.8), "settings")
    assert await used(weights=Weights(0.9, 0.1)) == (Weights(0.9, 0.1), "request")
    patch = SettingsPatch(weights=None, auto_tune=False, adaptive_weights=False)
    changed = await services.tenants.change_settings(tenant.id, patch)
    assert await used() == (SCORE_WEIGHTS, "default")
    assert changed.adaptation is not None
    assert changed.adaptation.searches == (await desk.seen()).searches - 1 > 0, "it is counted with any weights"


async def test_settings_keep_their_version_while_the_mean_moves(desk: Desk) -> None:
    before = await desk.services.tenants.read_settings(desk.tenant.id)
    await desk.search()
    after = await desk.services.tenants.read_settings(desk.tenant.id)
    assert before.adaptation != after.adaptation
    assert version_of(before) == version_of(after)
    await desk.services.tenants.change_settings(
        desk.tenant.id, SettingsPatch(verified_boost=2.0), if_version={version_of(before)}
    )


async def test_pages_of_a_list_have_the_same_weights(desk: Desk) -> None:
    whole = await desk.search()
    first = await desk.search(limit=1)
    for _ in range(5):
        await desk.search()
    rest = await desk.search(cursor=first.metadata.next_cursor)
    assert rest.metadata.weights == first.metadata.weights != (await desk.seen()).weights
    assert rest.metadata.weights_from == explanation_of(rest).weights_from == "searches"
    assert [*ids(first), *ids(rest)] == ids(whole)
    assert explanation_of(rest).adaptation is None, "the receipt does not have it"


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ({}, 1),
        ({"mode": "semantic"}, 1),
        ({"fusion": "rrf", "weights": Weights(0.1, 0.9)}, 1),
        ({"group_by": "asset"}, 1),
        ({"similarity_threshold": 0.05}, 1),
        ({"mode": "keyword"}, 0),
        ({"entry_type": "fact"}, 0),
        ({"similarity_threshold": 0.9}, 0),
        ({"query_embedding": [1.0] + [0.0] * (MODEL.dimensions - 1)}, 0),
    ],
)
async def test_only_searches_of_the_whole_by_a_text_count(desk: Desk, values: Mapping[str, Any], counts: int) -> None:
    found = await desk.search(**values)
    assert len(found) == (2 if values.get("mode") == "keyword" else 3)
    assert (await desk.seen()).searches == counts


async def test_searches_without_a_record_or_without_the_model_do_not_count(
    desk: Desk, failing_provider: FailingProvider
) -> None:
    await desk.services.search.search(desk.tenant.id, SearchQuery(query="harb"), recorded=False)
    await desk.services.search.rank(desk.tenant.id, SearchQuery(query="harbour"))
    failing_provider.down = True
    assert (await desk.search("ships")).metadata.fallback_mode
    assert (await desk.seen()) == Adaptation(0, None, CENTRE, SCORE_WEIGHTS)


async def test_a_search_counts_only_if_all_callers_may_read_its_best_hit(
    desk: Desk, failing_provider: FailingProvider
) -> None:
    """Otherwise the weights of other callers would tell of an entry that they may not read."""
    failing_provider.vectors["the vault"] = failing_provider.direction(0, 1)
    failing_provider.vectors["secret?"] = failing_provider.direction(0.5, 1)
    jane = principals_of("jane", ["crew"])
    with acting_as(jane):
        await write(desk.services, desk.tenant, "the vault", readers=["group:crew"])
        secret = await desk.search("secret?")
    assert secret[0].content == "the vault"
    assert (await desk.seen()).searches == 0
    with acting_as(jane):
        await desk.search("harbour")
    assert (await desk.seen()).searches == 1, "her other searches count"
    with acting_as(principals_of("joe", ["dock"])):
        other = await desk.search("secret?")
    assert "the vault" not in [hit.content for hit in other]
    assert (await desk.seen()).searches == 2


async def test_the_mean_forgets_and_ignores_languages_that_the_model_does_not_know(desk: Desk) -> None:
    tenant = await desk.services.tenants.context(desk.tenant.id)
    (english,) = await write(desk.services, desk.tenant, "Boats lie here.", language="english")
    (german,) = await write(desk.services, desk.tenant, "Hier liegen Boote.", language="german")

    async def add(*best: tuple[UUID, float], model: EmbeddingModel = MODEL) -> tuple[int, float]:
        async with desk.services.database.tenant_session(desk.tenant.id) as session:
            await db.add_similarities(session, tenant.space.model_id, model, best, memory=4)
            row = await db.own_tenant(session)
        assert row is not None
        return row.searches, round(row.mean_similarity, 6)

    assert await add((english, 0.4), (english, 0.8)) == (2, 0.6)
    assert await add((german, 0.9)) == (3, 0.7)
    assert await add((english, 0.7)) == (4, 0.7)
    assert await add((english, 0.2)) == (5, 0.6), "a fifth of the distance"
    assert await add((english, 0.1)) == (6, 0.5), "the same again: it remembers four"
    assert await add((german, 0.99), model=ENGLISH) == (7, 0.51), "it counts as the centre, 0.55"
    assert await add((tenant.tenant_id, 0.9)) == (7, 0.51), "the entry no longer exists"


async def test_each_model_and_each_tenant_has_a_mean_of_its_own(desk: Desk) -> None:
    await desk.search()
    other = await desk.services.tenants.create(NewTenant("second"), actor="test")
    assert (await desk.services.tenants.context(other.id)).searches == 0
    await desk.sql(
        "insert into embedding_models (provider, name, dimensions, max_tokens, similarity_threshold)"
        " values ('mock', 'another', 8, 100, 0)"
    )
    await desk.sql("update tenants set model_id = (select max(id) from embedding_models) where id = $1", desk.tenant.id)
    assert await desk.seen() == Adaptation(0, None, None, SCORE_WEIGHTS), "a model begins at the prior"
    await desk.sql("update tenants set model_id = (select min(id) from embedding_models) where id = $1", desk.tenant.id)
    assert (await desk.seen()).searches == 1, "to go back brings the mean back"


async def test_counts_of_several_processes_add_up(desk: Desk) -> None:
    """Neither process reads the mean before it writes."""
    similarities = desk.services.similarities
    other = type(similarities)(desk.services.database)
    plan = []
    count = similarities.count
    similarities.count = lambda *searched: plan.append(searched)  # type: ignore[method-assign]
    await desk.search()
    for meter_count in (count, other.count):
        for _ in range(3):
            meter_count(*plan[0])
    await other.flush()
    await desk.settle()
    assert (await desk.seen()).searches == 6

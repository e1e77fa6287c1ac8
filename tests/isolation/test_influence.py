"""One tenant's data does not affect another tenant's hits, scores, counts or suggestions."""

from app.auth.principal import Role
from app.composition.services import Services, build_services
from app.contract.administration import NewTenant
from app.contract.search import SearchQuery
from app.embeddings.resilience import QueryCache
from tests.fixtures.database.cluster import MODEL
from tests.fixtures.http.callers import Caller, make_token
from tests.fixtures.providers.failing import FailingProvider
from tests.isolation.influence import QUERIES, ask_everything


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
    later = await api_services.tenants.create(NewTenant(f"later-{stranger.tenant_id}"[:63], "Later"), actor="test")
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

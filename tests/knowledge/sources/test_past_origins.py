"""The origin of a hit of a past time."""

from __future__ import annotations

from datetime import UTC, datetime

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from tests.knowledge.sources.origins import Shelf, run_source


async def test_hit_of_a_past_time_has_an_origin_unless_it_was_replaced(services: Services, tenant: Tenant) -> None:
    """The text of a former version was not the origin's when the source last agreed."""
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_versions_days=30))
    shelf = Shelf({"amber.md": b"The amber is old.", "basalt.md": b"The amber stays."})
    await run_source(services, tenant, shelf)
    then = datetime.now(UTC)
    shelf.files["amber.md"] = b"The amber is new."
    await run_source(services, tenant, shelf)
    agreed_at = (await services.sources.get(tenant.id, "shelf")).agreed_at
    query = SearchQuery(query="amber", mode="keyword", as_of=then)
    hits = {hit.content: hit for hit in await services.search.search(tenant.id, query)}
    assert set(hits) == {"The amber is old.", "The amber stays."}
    assert hits["The amber is old."].origin is None
    still = hits["The amber stays."].origin
    assert still is not None
    assert (still.source, still.agreed_at) == ("shelf", agreed_at)

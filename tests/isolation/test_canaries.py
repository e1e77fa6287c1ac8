"""Words that only one tenant has never appear in another tenant's responses, in metrics or in a log."""

import io
import json

from fastapi import FastAPI

from app.composition.services import Services
from app.contract.settings import SettingsPatch
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller
from tests.fixtures.providers.failing import FailingProvider
from tests.isolation.holdings import fill, snapshot
from tests.isolation.looking import CANARY, NEAR, look_everywhere


async def test_canaries_of_one_tenant_are_not_visible_to_others(
    app: FastAPI,
    admin: Caller,
    stranger: Caller,
    provider: FailingProvider,
    api_services: Services,
    api_database: TestDatabase,
    work: Work,
    log: io.StringIO,
) -> None:
    theirs = await fill(admin, CANARY, work)
    for n in range(6):
        await admin.add(f"{CANARY} number {n} sings", tags=[CANARY], metadata={"n": n})
    await api_services.tenants.change_settings(admin.tenant_id, SettingsPatch(keep_query_text=True))  # type: ignore[arg-type]
    await admin.search(CANARY)
    own = await fill(stranger, "sparrow", work)
    # The canary can be found: corrections and suggestions lead its own tenant to it.
    led = await admin.search("bluebirt", mode="keyword")
    assert CANARY in json.dumps(led["results"])
    led = await admin.search("bluebork", mode="keyword", tags=[CANARY])
    assert CANARY in led["metadata"]["suggestions"]

    told = await look_everywhere(stranger, app, own.ids["entry_id"])
    provider.down = True
    told += [(await stranger.post("/knowledge/search", {"query": word})).text for word in NEAR[:3]]
    provider.down = False
    await work()
    await api_services.journal.flush()
    told.append((await stranger.get("/admin/audit", params={"limit": 200})).text)
    async with connected(api_database.superuser_dsn) as superuser:
        stored = await snapshot(superuser, stranger.tenant_id)
    metrics = (await stranger.http.get("/metrics")).text
    secrets = [CANARY, *theirs.ids.values()]
    for text in (*told, *stored):
        assert [secret for secret in secrets if secret in text.lower()] == [], text[:300]
    assert len(told) > 60
    for tenant_id in (admin.tenant_id, stranger.tenant_id):
        assert str(tenant_id) not in metrics
    for text in (metrics, log.getvalue()):
        assert CANARY not in text.lower()
        assert "sparrow" not in text.lower()
    assert len(log.getvalue().splitlines()) > 50

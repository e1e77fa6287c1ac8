"""What was erased is in no answer of any endpoint and in no row of any table."""

from typing import Any

import httpx
from fastapi import FastAPI

from app.auth.principal import Role
from app.composition.services import Services
from app.contract.settings import SettingsPatch
from app.db.rows import new_id
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.http.application import Work
from tests.fixtures.http.callers import Caller, make_token
from tests.isolation.holdings import fill, snapshot
from tests.isolation.looking import CANARY, look_everywhere


async def plant(leaver: Caller, services: Services, database: TestDatabase, work: Work) -> dict[str, str]:
    """Leave the canary wherever a caller can leave it; returns ids."""
    assert leaver.tenant_id is not None
    await services.tenants.change_settings(leaver.tenant_id, SettingsPatch(keep_query_text=True), actor="boss")
    # A source belongs to the tenant: its name and manifest stay.
    ids = dict((await fill(leaver, CANARY, work, with_sources=False)).ids)
    found = await leaver.search(f"{CANARY} harbour", tags=[CANARY], metadata={CANARY: CANARY})
    await services.journal.flush()
    hit = found["results"][0]["id"]
    feedback = {"search_id": found["metadata"]["search_id"], "entry_id": hit, "relevant": True}
    assert (await leaver.post("/knowledge/feedback", feedback)).status_code == 200
    why = {"entry_id": ids["entry_id"], "request": {"query": CANARY}}
    assert (await leaver.post("/knowledge/search/why-not", why)).status_code == 200
    hook = {"url": f"https://example.com/{CANARY}"}
    path = f"/knowledge/saved-searches/{ids['saved_search_id']}/subscription"
    assert (await leaver.post(path, hook)).status_code in (200, 201)
    async with connected(database.superuser_dsn) as superuser:
        await superuser.execute(
            "insert into deliveries (tenant_id, id, saved_search_id, entry_id, fingerprint, finding)"
            " values ($1, $2, $3, $4, '', jsonb_build_object('planted', $5::text))",
            leaver.tenant_id, new_id(), ids["saved_search_id"], ids["entry_id"], CANARY,
        )  # fmt: skip
        await superuser.execute(
            "insert into lexeme_statistics (tenant_id, lexeme, entries) values ($1, $2, 5)", leaver.tenant_id, CANARY
        )
    return ids


async def test_what_was_erased_is_nowhere(
    app: FastAPI, http: httpx.AsyncClient, admin: Caller, api_services: Services, api_database: TestDatabase, work: Work
) -> None:
    leaver = Caller(http, admin.tenant_id, make_token(admin.tenant_id, Role.TENANT_ADMIN, subject=CANARY))
    kept = await admin.add("The harbour at night is quiet", tags=["harbour"])
    ids = await plant(leaver, api_services, api_database, work)
    async with connected(api_database.superuser_dsn) as superuser:
        planted = {row.split()[0] for row in await snapshot(superuser, admin.tenant_id) if CANARY in row}
    assert planted >= {
        *("assets", "audit", "deliveries", "entries", "feedback", "lexeme_statistics", "saved_searches", "searches"),
        *("subscriptions", "tag_statistics"),
    }

    answer = await admin.post("/admin/erasures", {"subject": CANARY})

    assert answer.status_code == 201, answer.text
    erasure: dict[str, Any] = answer.json()
    assert answer.headers["Location"] == f"/admin/erasures/{erasure['id']}"
    assert erasure["state"] == "erased"
    assert {place["place"] for place in erasure["places"] if place["removed"]} >= planted
    assert [place for place in erasure["places"] if place["found"]] == []
    async with connected(api_database.superuser_dsn) as superuser:
        await superuser.execute("update jobs set run_at = now() where kind = 'erase'")
    await work()
    shown = (await admin.get(answer.headers["Location"])).json()
    assert shown["state"] == "done"
    assert (await admin.get("/admin/erasures")).json()["items"] == [shown]
    told = await look_everywhere(admin, app, ids["entry_id"])
    for path in ("entries/{entry_id}", "assets/{asset_id}", "assets/{asset_id}/text"):
        answer = await admin.get(f"/knowledge/{path.format(**ids)}")
        assert answer.status_code == 404
        told.append(answer.text)
    await api_services.journal.flush()
    async with connected(api_database.superuser_dsn) as superuser:
        stored = await snapshot(superuser, admin.tenant_id)
    assert [text for text in (*told, *stored) if CANARY in text.lower()] == []
    assert len(told) > 30
    left = (await admin.get("/knowledge/entries")).json()["items"]
    assert kept["id"] in {entry["id"] for entry in left}

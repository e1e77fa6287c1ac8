"""API keys: bearer tokens that an admin creates."""

import asyncio
import base64
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, cast
from uuid import UUID, uuid4

import httpx
import pytest
from asgi_lifespan import LifespanManager

from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.keys import NewKey
from app.db.database import Database
from app.db.rows import new_id
from app.db.session import PlatformSession, TenantSession
from app.errors import Unauthenticated
from app.knowledge.audit import AuditTrail
from app.knowledge.tenants import keys
from app.knowledge.tenants.directory import KEPT_SECONDS, TenantDirectory
from app.knowledge.tenants.keys import ApiKeys
from app.main import create_app
from app.settings import Settings
from tests.fixtures.clock import FakeClock
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.http.callers import SECRET, Caller, open_client
from tests.fixtures.http.expectations import expect_fields, expect_problem

PATH = "/admin/keys"


async def make_key(admin: Caller, name: str = "import", role: Role = Role.CREATOR, **fields: Any) -> dict[str, Any]:
    answer = await admin.post(PATH, {"name": name, "role": role, **fields})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def bearer(admin: Caller, key: str) -> Caller:
    return Caller(admin.http, admin.tenant_id, key)


async def test_a_key_acts_in_its_tenant_with_its_role_and_its_groups(admin: Caller, stranger: Caller) -> None:
    made = await make_key(admin, groups=["crew"])
    caller = bearer(admin, made["key"])
    entry = await caller.add("The harbour opens at six", readers=["group:crew"])
    assert await caller.find("harbour") == ["The harbour opens at six"]
    assert (
        await bearer(admin, (await stranger.post(PATH, {"name": "x", "role": "reader"})).json()["key"]).find("harbour")
        == []
    )
    expect_problem(await caller.get("/admin/stats"), 403)
    expect_problem(await caller.get("/admin/tenants"), 403)
    written = (await admin.get("/admin/audit", params={"action": "entry.write"}, headers={"X-KB-Access": "all"})).json()
    assert [(row["actor"], row["subject_ids"]) for row in written["items"]] == [("key:import", [entry["id"]])]


async def test_a_key_is_shown_once_and_stored_as_a_hash(admin: Caller, api_database: TestDatabase) -> None:
    made = await make_key(admin)
    assert made["key"].startswith("kb_")
    listed = await admin.get(PATH)
    assert listed.json()["items"] == [{name: value for name, value in made.items() if name != "key"}]
    async with connected(api_database.superuser_dsn) as superuser:
        row = await superuser.fetchrow("select digest, k::text from api_keys k where id = $1", UUID(made["id"]))
    assert row is not None
    assert row["digest"] == sha256(made["key"].encode()).digest()
    assert made["key"][40:] not in row["k"]
    audited = (await admin.get("/admin/audit")).text
    assert "key.create" in audited
    assert made["key"][40:] not in audited


async def test_a_revoked_key_is_refused_and_its_name_is_free(admin: Caller, stranger: Caller) -> None:
    made, other = await make_key(admin), await make_key(admin, "other")
    assert (await bearer(admin, made["key"]).get("/knowledge/entries")).status_code == 200
    expect_problem(await admin.post(PATH, {"name": "import", "role": "reader"}), 409)
    expect_problem(await stranger.delete(f"{PATH}/{made['id']}"), 404)
    assert (await admin.delete(f"{PATH}/{made['id']}")).status_code == 204
    expect_problem(await admin.delete(f"{PATH}/{made['id']}"), 404)
    expect_problem(await bearer(admin, made["key"]).get("/knowledge/entries"), 401)
    assert (await bearer(admin, other["key"]).get("/knowledge/entries")).status_code == 200
    assert (await make_key(admin))["key"] != made["key"]


async def test_an_expired_key_is_refused(admin: Caller, api_database: TestDatabase, api_services: Services) -> None:
    made = await make_key(admin, expires_at=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
    assert (await bearer(admin, made["key"]).get("/knowledge/entries")).status_code == 200
    async with connected(api_database.superuser_dsn) as superuser:
        await superuser.execute("update api_keys set expires_at = now() where id = $1", UUID(made["id"]))
    fresh = ApiKeys(api_services.database, api_services.trail, api_services.tenants)
    with pytest.raises(Unauthenticated, match="expired"):
        await fresh.verify(made["key"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", " padded"),
        ("name", "a\nb"),
        ("name", "x" * 101),
        ("role", "platform_admin"),
        ("groups", ["a"] * 65),
        ("expires_at", "2020-01-01T00:00:00Z"),
        ("key", "kb_mine"),
    ],
)
async def test_a_field_outside_its_range_is_named(admin: Caller, field: str, value: Any) -> None:
    expect_fields(await admin.post(PATH, {"name": "import", "role": "reader", field: value}), field)


async def test_the_keys_of_a_tenant_are_bounded(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MAX_KEYS", 1)
    await make_key(admin)
    expect_problem(await admin.post(PATH, {"name": "other", "role": "reader"}), 409)


async def test_a_key_needs_an_overview_where_not_all_readers_may_read_everything(admin: Caller) -> None:
    await admin.add("Wages", readers=["user:ada"])
    body = {"name": "spy", "role": "reader", "groups": ["hr"]}
    expect_problem(await admin.post(PATH, body), 403)
    assert (await admin.post(PATH, body, headers={"X-KB-Access": "all"})).status_code == 201
    assert len((await admin.get(PATH)).json()["items"]) == 1


FORGED: dict[str, Callable[[str], str]] = {
    "another secret": lambda key: key[:30] + ("A" if key[30] != "A" else "B") + key[31:],
    "another tenant": lambda key: "kb_" + base64.urlsafe_b64encode(uuid4().bytes).decode()[:21] + key[24:],
    "cut": lambda key: key[:-1],
    "longer": lambda key: key + "A",
    "a padded end": lambda key: key[:-1] + "=",
    "a line break": lambda key: key[:-1] + "\x0b",
    "another alphabet": lambda key: key[:-1] + "+",
    "an uppercase prefix": lambda key: "KB_" + key[3:],
    "no secret": lambda key: key[:24],
    "a hash": lambda key: "kb_" + sha256(key.encode()).hexdigest(),
    "a JWT behind the prefix": lambda _: "kb_eyJhbGciOiJub25lIn0.e30.",
    "SQL": lambda _: "kb_' or 1=1 --",
    "five megabytes": lambda key: key * 75_000,
    "the prefix alone": lambda _: "kb_",
}


async def test_no_forged_key_is_accepted(admin: Caller) -> None:
    made = await make_key(admin, role=Role.TENANT_ADMIN)
    assert (await bearer(admin, made["key"]).get("/admin/stats")).status_code == 200
    for name, forge in FORGED.items():
        for path in ("/knowledge/entries", "/admin/stats", "/admin/tenants"):
            answer = await bearer(admin, forge(made["key"])).get(path)
            body = expect_problem(answer, 401)
            assert str(admin.tenant_id) not in answer.text, name
            assert len(body["detail"]) < 120, name
    texts = {
        expect_problem(await bearer(admin, FORGED[name](made["key"])).get("/knowledge/entries"), 401)["detail"]
        for name in ("another secret", "another tenant", "cut")
    }
    assert texts == {"the key is not valid"}, "a refusal tells nothing of tenants"


class Counting:
    """A database that counts its transactions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.tell_of_deleted = database.tell_of_deleted
        self.transactions = 0

    def tenant_session(self, tenant_id: UUID, **options: Any) -> AbstractAsyncContextManager[TenantSession]:
        self.transactions += 1
        return self._database.tenant_session(tenant_id, **options)

    def platform_session(self) -> AbstractAsyncContextManager[PlatformSession]:
        self.transactions += 1
        return self._database.platform_session()


async def test_guesses_share_their_queries(admin: Caller, api_services: Services) -> None:
    made, clock = await make_key(admin), FakeClock()
    counting = Counting(api_services.database)
    database = cast("Database", counting)
    tenants = TenantDirectory(database, AuditTrail(database), default_model_id=1, clock=clock)
    elsewhere = ApiKeys(database, AuditTrail(database), tenants, clock=clock)
    for forge, expected in (("another tenant", 1), ("another secret", 2)):
        await asyncio.gather(*(elsewhere.verify(FORGED[forge](made["key"])) for _ in range(20)), return_exceptions=True)
        assert counting.transactions == expected, forge


async def test_another_process_refuses_a_revoked_key_when_its_list_expires(
    admin: Caller, api_services: Services
) -> None:
    made = await make_key(admin)
    now = 0.0
    elsewhere = ApiKeys(api_services.database, api_services.trail, api_services.tenants, clock=lambda: now)
    assert (await elsewhere.verify(made["key"])).subject == "key:import"
    await admin.delete(f"{PATH}/{made['id']}")
    now = KEPT_SECONDS
    with pytest.raises(Unauthenticated):
        await elsewhere.verify(made["key"])


async def test_the_last_use_is_written_in_the_background_once_a_minute(admin: Caller, api_services: Services) -> None:
    made = await make_key(admin)
    now = 0.0
    counted = ApiKeys(api_services.database, api_services.trail, api_services.tenants, clock=lambda: now)

    async def last_use() -> str | None:
        await counted.flush()
        (item,) = (await admin.get(PATH)).json()["items"]
        used: str | None = item["last_used_at"]
        return used

    assert await last_use() is None
    await asyncio.gather(*(counted.verify(made["key"]) for _ in range(20)))
    first = await last_use()
    assert first is not None
    now = 59.0
    await counted.verify(made["key"])
    assert await last_use() == first
    now = 60.0
    await counted.verify(made["key"])
    assert await last_use() != first


async def test_a_key_of_a_deleted_tenant_is_refused(http: httpx.AsyncClient, api_services: Services) -> None:
    tenant = await api_services.tenants.create(NewTenant(f"t-{new_id().hex}"), actor="test")
    made = await api_services.keys.create(tenant.id, NewKey(name="import", role="reader"), actor="test")
    caller = Caller(http, tenant.id, made.key)
    assert (await caller.get("/knowledge/entries")).status_code == 200, "also at once after the tenant's creation"
    await api_services.tenants.delete(tenant.id, actor="test")
    expect_problem(await caller.get("/knowledge/entries"), 401)


async def test_a_key_is_accepted_with_tokens_of_any_issuer(
    settings: Settings, api_services: Services, admin: Caller
) -> None:
    made = await make_key(admin, role=Role.READER)
    app = create_app(settings, api_services, TokenVerifier(secret=SECRET, audience="kb", issuer="https://issuer.test"))
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Accept": "application/json, text/event-stream"}
    async with LifespanManager(app), open_client(app) as client:
        caller = Caller(client, admin.tenant_id, made["key"])
        assert (await caller.get("/knowledge/entries")).status_code == 200
        assert (await caller.post("/mcp", call, headers=headers)).status_code == 200
        wrong = Caller(client, admin.tenant_id, FORGED["another secret"](made["key"]))
        assert (await wrong.post("/mcp", call, headers=headers)).status_code == 401

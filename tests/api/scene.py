"""What the acts of the audit trail work on."""

from dataclasses import dataclass, field
from uuid import UUID

from app.auth.principal import Role
from app.contract.administration import NewTenant
from app.db.rows import new_id
from tests.api.stage import Stage
from tests.fixtures.http.callers import Caller, make_token


@dataclass(frozen=True, slots=True)
class Scene:
    """A tenant's admin and a platform admin, something to act on, and the stage they share."""

    stage: Stage
    admin: Caller
    platform: Caller
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def tenant_id(self) -> UUID:
        assert self.admin.tenant_id is not None
        return self.admin.tenant_id

    async def work(self) -> None:
        """Run all queued jobs of the tenant, except the reading of files."""
        await self.stage.superuser.execute(
            "delete from jobs where tenant_id <> $1 or kind = 'ingest_asset'", self.tenant_id
        )
        while True:
            await self.stage.superuser.execute("update jobs set run_at = now() where state = 'queued'")
            if not await self.stage.services.worker.run_once():
                return


async def open_scene(stage: Stage) -> Scene:
    """A tenant with an entry, an asset and a saved search."""
    tenant = await stage.services.tenants.create(NewTenant(f"t-{new_id().hex}"), actor="test")
    admin = Caller(stage.http, tenant.id, make_token(tenant.id, Role.TENANT_ADMIN))
    platform = Caller(stage.http, None, make_token(None, Role.PLATFORM_ADMIN, subject="paula"))
    entry = await admin.add("The harbour opens at six")
    asset = (await admin.upload("a.txt", b"The lighthouse is red", "text/plain")).json()
    body = {"name": "Saved", "request": {"query": "harbour"}}
    saved = (await admin.post("/knowledge/saved-searches", body)).json()
    ids = {"name": "shelf", "entry_id": entry["id"], "asset_id": asset["id"], "saved_search_id": saved["id"]}
    return Scene(stage, admin, platform, {**ids, "tenant_id": str(tenant.id)})

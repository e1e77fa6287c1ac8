"""A tenant in which every table has rows of things that only one group may read, or only change; and those who try."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.assets import AssetPatch, Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.contract.sources import Manifest
from app.db.principals import EVERYONE, SERVICE, acting_as, principals_of
from app.db.rows import new_id
from tests.fixtures.database.cluster import Connection, connected
from tests.fixtures.providers.failing import FailingProvider

GROUP = "group:finance"
INSIDER = principals_of("ann", ["finance"])
PRINCIPALS: dict[str, tuple[str, ...]] = {
    "a reader": INSIDER,
    "another group": principals_of("cleo", ["board", "financ", "finance2"]),
    "a user named as the group": principals_of("group:finance", []),
    "everyone": (EVERYONE,),
    "none": (),
    "the service": SERVICE,
}
SEES = {"a reader", "the service"}
TAGS = ["quokka", "sea", "night"]
SECRET = "The quokka guards the payroll of the harbour pilots"
PLAIN = "The harbour closes at night"
CLOSED = "The harbour's own wombat"
DOCUMENT = f"# Quokka\n\n{SECRET} in a document.\n".encode()


@dataclass(frozen=True, slots=True)
class Held:
    """The tenant, the ids of what only the group may read, and a time before the last changes.

    `closed_id`: an entry that all may read, and only the group may change.
    """

    tenant_id: UUID
    entry_id: UUID
    asset_id: UUID
    chunk_id: UUID
    search_id: UUID
    then: datetime
    closed_id: UUID


async def fill_restricted(services: Services, provider: FailingProvider, superuser_dsn: str) -> Held:
    """Make a tenant with one open entry, and hidden rows in every table that has a policy on readers."""
    tenant = await services.tenants.create(NewTenant(f"readers-{new_id()}"[:40]), actor="test")
    with acting_as(INSIDER):
        await services.entries.create(tenant.id, EntryDraft(content=PLAIN, tags=["sea", "night"]))
        await services.tenants.change_settings(tenant.id, SettingsPatch(keep_versions_days=30), actor="test")
        parent, _ = await services.entries.create(
            tenant.id, EntryDraft(content="All about the quokka", tags=TAGS, readers=[GROUP])
        )
        entry, _ = await services.entries.create(
            tenant.id,
            EntryDraft(content=SECRET, tags=TAGS, readers=[GROUP], parent_id=parent.id, source_ids=[parent.id]),
        )
        asset, _ = await services.assets.upload(tenant.id, Upload("quokka.md", DOCUMENT, tags=TAGS, readers=[GROUP]))
        while await services.worker.run_once():
            pass
        # The same bytes for fewer, and for all callers: their chunks repeat the first.
        for readers in (["user:ann"], None):
            again = Upload("again.md", DOCUMENT, tags=["sea"], readers=readers)
            await services.assets.upload(tenant.id, again)
            while await services.worker.run_once():
                pass
        chunks = await services.entries.list_entries(tenant.id, asset_id=asset.id)
        then = datetime.now(UTC)
        await services.entries.change(tenant.id, entry.id, EntryDraft(title="Quokka"))
        await services.assets.change(tenant.id, asset.id, AssetPatch(tags=[*TAGS, "later"]))
        provider.down = True
        waiting, _ = await services.entries.create(
            tenant.id, EntryDraft(content="A quokka without a vector", tags=TAGS, readers=[GROUP])
        )
        provider.down = False
        closed = await _fill_closed(services, tenant.id)
        found = await services.search.search(tenant.id, SearchQuery(query="quokka payroll"), subject="ann")
        await services.journal.flush()
        await services.entries.read(tenant.id, entry.id)
        await services.accesses.flush()
    search_id = found.metadata.search_id
    async with connected(superuser_dsn) as superuser:
        await superuser.execute(
            "insert into feedback (tenant_id, search_id, entry_id, subject, relevant) values ($1, $2, $3, 'ann', true)",
            *(tenant.id, search_id, entry.id),
        )
        await superuser.execute(
            "insert into saved_searches (tenant_id, id, owner, name, request) values ($1, $2, 'ann', 'n', '{}')",
            *(tenant.id, saved := new_id()),
        )
        await superuser.execute(
            "insert into subscriptions (tenant_id, saved_search_id, url, secret, state, rights_until)"
            " values ($1, $2, 'https://example.com/', 's', 'disabled', now())",
            *(tenant.id, saved),
        )
        await superuser.execute(
            "insert into deliveries (tenant_id, id, saved_search_id, entry_id, fingerprint, finding)"
            " values ($1, $2, $3, $4, '', '{}')",
            *(tenant.id, new_id(), saved, entry.id),
        )
        await superuser.execute("insert into entry_changes values ($1, $2)", tenant.id, waiting.id)
        await superuser.execute(
            "insert into callers values ($1, 'ann', '{everyone,user:ann,group:finance}', '{reader}')", tenant.id
        )
        await superuser.execute("insert into lexeme_statistics values ($1, 'quokka', 40, $2)", tenant.id, GROUP)
        await superuser.execute(
            "insert into erasures (tenant_id, id, kind, target, requested_by) values ($1, $2, 'entry', $3, 'root')",
            *(tenant.id, erasure := new_id(), entry.id),
        )
        await superuser.execute(
            "insert into erasure_items (tenant_id, erasure_id, item, kind) values ($1, $2, $3, 'entry')",
            *(tenant.id, erasure, entry.id),
        )
    return Held(tenant.id, entry.id, asset.id, chunks.items[0].id, search_id, then, closed)


async def _fill_closed(services: Services, tenant_id: UUID) -> UUID:
    """Make an entry, an asset and sources that only the group may change; return the entry's id."""
    closed, _ = await services.entries.create(tenant_id, EntryDraft(content=CLOSED, writers=[GROUP]))
    await services.entries.change(tenant_id, closed.id, EntryDraft(content=f"{CLOSED}, too"))
    await services.assets.upload(tenant_id, Upload("closed.md", CLOSED.encode(), writers=[GROUP]))
    for name, readers in (("shelf", None), ("till", [GROUP])):
        manifest = Manifest([{"external_id": "quokka.md", "digest": "1"}], readers=readers, writers=[GROUP])
        await services.sources.accept(tenant_id, name, manifest)
    while await services.worker.run_once():
        pass
    return closed.id


HIDDEN = {
    "entries": "readers is not null",
    "assets": "readers is not null",
    "embeddings": "readers is not null",
    "former_entries": "readers is not null",
    "former_embeddings": "readers is not null",
    "corpus_statistics": "principal <> 'everyone'",
    "lexeme_statistics": "principal <> 'everyone'",
    "pending_embeddings": "true",
    "entry_changes": "true",
    "access_counts": "true",
    "feedback": "true",
    "deliveries": "true",
    "searches": "true",
    "callers": "true",
    "audit": "actor = 'service' and cardinality(subject_ids) > 0",
    "erasures": "true",
    "erasure_items": "true",
    "sources": "readers is not null",
    "source_items": "source = 'till'",
}
"""Tables with a policy on readers, and which of their rows only the group may read, or only the service (the last)."""

CLOSED_ROWS = {
    "entries": "id = '{0.closed_id}'",
    "assets": "readers is null and writers is not null",
    "sources": "readers is null and writers is not null",
    "source_items": "source = 'shelf'",
    "embeddings": "entry_id = '{0.closed_id}'",
    "former_entries": "id = '{0.closed_id}'",
    "former_embeddings": "entry_id = '{0.closed_id}'",
}
"""Tables with policies on writers, and which of their rows all may read, and only the group may change."""

OPEN = {
    *("lexeme_statistics", "tag_statistics", "vector_statistics", "asset_statistics", "usage_by_day"),
    *("saved_searches", "subscriptions", "jobs", "model_changes", "kept_versions", "released_texts"),
    *("permissions", "revoked_tokens", "api_keys"),
}
"""Tables without such a policy; the page Permissions says why."""

OF_THE_SERVICE = {"erasures", "erasure_items", "audit"}
"""Tables that show even a reader only what it did itself: their rows are about everything."""


@asynccontextmanager
async def as_service_role(superuser: Connection, tenant_id: UUID, principals: tuple[str, ...]) -> AsyncIterator[None]:
    """The superuser's transaction as the service's role, in the tenant, for these principals; undone at the end."""
    items = ",".join(f'"{p}"' for p in principals)
    await superuser.execute("savepoint role")
    await superuser.execute("select set_config('app.current_tenant', $1, true)", str(tenant_id))
    value = f"{{{items}}}" if principals else ""
    await superuser.execute("select set_config('app.current_principals', $1, true)", value)
    await superuser.execute("set local role kb_service")
    try:
        yield
    finally:
        await superuser.execute("rollback to savepoint role")

"""Rows in every table of a tenant, made by the services wherever a service makes them."""

from __future__ import annotations

from app.composition.services import Services
from app.db.identifiers import new_id
from app.knowledge.ingestion.assets import Upload
from app.knowledge.search.query import SearchQuery
from app.knowledge.tenants.directory import Tenant
from tests.db.cluster import connected
from tests.knowledge.provider import FailingProvider

DOCUMENT = (
    b"# Harbour\n\nThe harbour closes at dusk.\n\n# Lighthouse\n\nThe lighthouse keeper lights the lamp.\n"
)
TAGS = ["sea", "night", "harbour"]


async def fill_tenant(
    services: Services, tenant: Tenant, provider: FailingProvider, superuser_dsn: str
) -> None:
    """Give a tenant at least one row in every table."""
    await services.assets.upload(tenant.id, Upload("harbour.md", DOCUMENT, tags=TAGS))
    while await services.worker.run_once():
        pass
    chunks = await services.entries.list_entries(tenant.id, entry_type="chunk")
    parent, _ = await services.entries.create(
        tenant.id,
        {"content": "Ships wait outside the harbour at night.", "tags": TAGS, "external_id": "ships"},
    )
    await services.entries.create(
        tenant.id,
        {"content": "Pilots guide ships in.", "parent_id": chunks.items[0].id, "source_ids": [parent.id]},
    )
    provider.down = True
    await services.entries.create(
        tenant.id, {"content": "The harbour bell rings.", "tags": TAGS, "parent_id": parent.id}
    )
    provider.down = False
    await services.search.search(tenant.id, SearchQuery(query="harbour at night"))
    await services.journal.flush()
    # What no service writes from so little knowledge, or only a way in does.
    async with connected(superuser_dsn) as connection:
        await connection.execute(
            "insert into lexeme_statistics (tenant_id, lexeme, entries) values ($1, 'harbour', 4)", tenant.id
        )
        await connection.execute(
            "insert into feedback (tenant_id, search_id, entry_id, subject, relevant)"
            " select tenant_id, id, $2, 'somebody', true from searches where tenant_id = $1",
            tenant.id,
            parent.id,
        )
        await connection.execute(
            "insert into saved_searches (tenant_id, id, owner, name, request)"
            " values ($1, $2, 'somebody', 'night', '{\"query\": \"night\"}')",
            tenant.id,
            new_id(),
        )
        # Disabled: an active one would make rows of its own from whatever a test writes.
        await connection.execute(
            "insert into subscriptions (tenant_id, saved_search_id, url, secret, state, rights_until)"
            " select tenant_id, id, 'https://example.com/hook', 'whsec_', 'disabled', now() from saved_searches"
            " where tenant_id = $1",
            tenant.id,
        )
        await connection.execute(
            "insert into entry_changes (tenant_id, entry_id) values ($1, $2)", tenant.id, parent.id
        )
        await connection.execute(
            "insert into deliveries (tenant_id, id, saved_search_id, entry_id, fingerprint, finding)"
            " select tenant_id, $2, saved_search_id, $3, '', '{}' from subscriptions where tenant_id = $1",
            tenant.id,
            new_id(),
            parent.id,
        )
        await connection.execute(
            "insert into embedding_models (provider, name, dimensions, max_tokens, similarity_threshold)"
            " values ('mock', 'another', 8, 100, 0) on conflict do nothing"
        )
        await connection.execute(
            "insert into model_changes (tenant_id, from_model, to_model, state)"
            " select $1, t.model_id, m.id, 'dropping' from tenants t, embedding_models m"
            " where t.id = $1 and m.name = 'another'",
            tenant.id,
        )

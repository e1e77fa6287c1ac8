"""`knowledge subscription`: the subscriptions of a tenant and whether their endpoints have agreed."""

from __future__ import annotations

import asyncio
from uuid import UUID

from app.composition.services import build_services
from app.contract.saved_searches import NewSavedSearch
from app.db.database import Database
from app.embeddings.providers.mock import MockProvider
from tests.cli.conftest import CommandLine
from tests.fixtures.database.cluster import MODEL, TestDatabase


async def subscribe(dsn: str, slug: str) -> UUID:
    """A subscription of the tenant; returns the id of its saved search."""
    database, provider = Database(dsn, pool_size=2), MockProvider(MODEL)
    services = await build_services(database, provider)
    try:
        tenant = await services.tenants.find(slug)
        saved, _ = await services.saved_searches.save(
            tenant.id, "anna", NewSavedSearch("port news", {"query": "harbour"})
        )
        url = "https://hooks.example.com/secret-path"
        await services.subscriptions.subscribe(tenant.id, "anna", saved.id, url)
        return saved.id
    finally:
        await services.close()
        await database.close()


def test_subscriptions_are_listed_with_their_confirmation(
    knowledge: CommandLine, cli_database: TestDatabase, tenant: str
) -> None:
    saved = asyncio.run(subscribe(cli_database.service_dsn, tenant))
    (row,) = knowledge.succeed("subscription", "list", "-t", tenant, "--json").json
    assert UUID(row["saved_search_id"]) == saved
    assert (row["name"], row["owner"], row["host"]) == ("port news", "anna", "hooks.example.com")
    assert (row["state"], row["confirmation"]) == ("active", "pending")
    assert "secret" not in row
    table = knowledge.succeed("subscription", "list", "-t", tenant).out.splitlines()
    assert table[0].split() == ["NAME", "OWNER", "HOST", "STATE", "CONFIRMATION", "WAITING", "LAST", "ERROR"]
    assert table[1].split()[:6] == ["port", "news", "anna", "hooks.example.com", "active", "pending"]

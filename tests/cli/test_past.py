"""Searches of the past on the command line."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from app.composition.services import build_services
from app.contract.entries import EntryDraft
from app.contract.settings import SettingsPatch
from app.db.database import Database
from app.embeddings.factory import ProviderConfig, build_provider
from tests.cli.conftest import CommandLine
from tests.fixtures.database.cluster import MODEL, TestDatabase


async def change(database: TestDatabase, slug: str) -> str:
    """Let the tenant keep versions and change an entry; returns a time before the change."""
    provider = build_provider(ProviderConfig(kind="mock", dimensions=MODEL.dimensions))
    opened = Database(database.service_dsn, pool_size=2)
    services = await build_services(opened, provider)
    try:
        tenant = await services.tenants.find(slug)
        await services.tenants.change_settings(tenant.id, SettingsPatch(keep_versions_days=30), actor="test")
        entry, _ = await services.entries.create(tenant.id, EntryDraft(content="the old harbour"))
        before = datetime.now(UTC).isoformat()
        await services.entries.change(tenant.id, entry.id, EntryDraft(content="the new harbour"))
        return before
    finally:
        await services.close()
        await provider.close()
        await opened.close()


def test_search_finds_what_was_valid_then(knowledge: CommandLine, tenant: str, cli_database: TestDatabase) -> None:
    before = asyncio.run(change(cli_database, tenant))
    search = ("search", "harbour", "-t", tenant, "--mode", "keyword")
    for options, text in (((), "the new harbour"), (("--as-of", before), "the old harbour")):
        (hit,) = knowledge.succeed(*search, *options, "--json").json["results"]
        assert hit["content"] == text
    assert "the old harbour" in knowledge.succeed(*search, "--as-of", before).out
    refused = knowledge(*search, "--as-of", "2001-01-01T00:00:00Z")
    assert refused.status != 0
    assert "must not be before" in refused.err

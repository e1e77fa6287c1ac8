"""Commands wait as long as there is progress, but not for an unavailable provider."""

from __future__ import annotations

import math

import pytest

from app.cli.execution import working
from app.cli.waiting import Patience, wait_for_assets, wait_for_embeddings
from app.composition.services import Services
from app.contract.administration import NewTenant, Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from tests.fixtures.providers.failing import FailingProvider


@pytest.fixture
async def harbour(services: Services) -> Tenant:
    """A tenant of services that only this test uses."""
    return await services.tenants.create(NewTenant("harbour"), actor="test")


async def test_waiting_for_vectors_ends_while_the_provider_is_unavailable(
    services: Services, harbour: Tenant, failing_provider: FailingProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    failing_provider.down = True
    asset, _ = await services.assets.upload(harbour.id, Upload("a.md", b"The harbour falls dry."))
    async with working(services):
        patience = Patience(services, harbour.id)
        assert await wait_for_assets(services, harbour.id, {asset.id: "a.md"}, "files", patience)
        patience = Patience(services, harbour.id, away=0.0)
        assert await wait_for_embeddings(services, harbour.id, patience) == 1
    assert "the embedding provider does not answer" in capsys.readouterr().err


async def test_waiting_for_vectors_continues_while_the_provider_answers(services: Services, harbour: Tenant) -> None:
    await services.entries.create_many(harbour.id, [EntryDraft(content=f"text {n}") for n in range(200)])
    async with working(services):
        assert await wait_for_embeddings(services, harbour.id, Patience(services, harbour.id, away=0.0)) == 0


async def test_waiting_for_files_ends_without_progress(services: Services, harbour: Tenant) -> None:
    asset, _ = await services.assets.upload(harbour.id, Upload("a.md", b"The harbour falls dry."))
    patience = Patience(services, harbour.id, still=0.0)
    assert not await wait_for_assets(services, harbour.id, {asset.id: "a.md"}, "files", patience)
    async with working(services):
        patience = Patience(services, harbour.id)
        assert await wait_for_assets(services, harbour.id, {asset.id: "a.md"}, "files", patience)


async def test_work_that_starts_again_is_not_progress(services: Services, harbour: Tenant) -> None:
    patience = Patience(services, harbour.id, away=math.inf, still=0.0)
    assert not await patience.is_over(3.0)
    assert not await patience.is_over(2.5)
    assert await patience.is_over(2.98)
    assert await patience.is_over(2.5)
    assert not await patience.is_over(2.4)

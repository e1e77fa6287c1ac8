"""Commands wait as long as there is progress, but not for an unavailable provider."""

from __future__ import annotations

import pytest

from app.cli.door import Door
from app.cli.execution import working
from app.cli.waiting import AssetWatch, Patience, wait_for_embeddings
from app.composition.services import Services
from app.contract.administration import NewTenant, Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from tests.fixtures.door import at_door
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

    def watch(door: Door) -> AssetWatch:
        watch = AssetWatch(door)
        watch.waiting[asset.id] = "a.md"
        watch.finish(lambda: None)
        return watch

    async with working(services):
        found = await at_door(services, "harbour", watch)
        assert (found.indexed, found.failed) == (1, [])
        assert await at_door(services, "harbour", lambda door: wait_for_embeddings(door, 0.0)) == 1
    assert "the embedding provider does not answer" in capsys.readouterr().err


async def test_waiting_for_vectors_continues_while_the_provider_answers(services: Services, harbour: Tenant) -> None:
    await services.entries.create_many(harbour.id, [EntryDraft(content=f"text {n}") for n in range(200)])
    async with working(services):
        assert await at_door(services, "harbour", wait_for_embeddings) == 0


def test_work_that_starts_again_is_not_progress() -> None:
    patience = Patience(0.0)
    assert not patience.is_over(3.0)
    assert not patience.is_over(2.5)
    assert patience.is_over(2.98)
    assert patience.is_over(2.5)
    assert not patience.is_over(2.4)

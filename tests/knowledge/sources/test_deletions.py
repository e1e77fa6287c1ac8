"""Runs of a source that would delete much of it."""

from __future__ import annotations

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.errors import (
    TooManyDeletions,
)
from app.knowledge.sources.run import RunOptions
from tests.knowledge.sources.origins import FIVE, Shelf, assets_of, find, run_source

pytestmark = pytest.mark.own_tenants


async def test_run_that_deletes_more_than_a_fifth_needs_a_confirmation(services: Services, tenant: Tenant) -> None:
    shelf = Shelf(dict(FIVE))
    await run_source(services, tenant, shelf)
    del shelf.files["amber.md"], shelf.files["basalt.md"]
    with pytest.raises(TooManyDeletions) as refused:
        await run_source(services, tenant, shelf)
    assert (refused.value.deletions, refused.value.assets) == (2, 5)
    assert len(await assets_of(services, tenant, "shelf")) == 5
    assert (await services.sources.get(tenant.id, "shelf")).run == 1
    await run_source(services, tenant, shelf, options=RunOptions(confirm_deletions=True))
    assert len(await assets_of(services, tenant, "shelf")) == 3


@pytest.mark.parametrize(("bytes_now", "reason"), [(b"", "5 of 5"), (b"\x00\x01\x02" * 99, "is not supported")])
async def test_files_that_can_no_longer_be_read_keep_their_assets_without_a_confirmation(
    services: Services, tenant: Tenant, bytes_now: bytes, reason: str
) -> None:
    shelf = Shelf(dict(FIVE))
    await run_source(services, tenant, shelf)
    agreed = (await services.sources.get(tenant.id, "shelf")).agreed_at
    shelf.files = dict.fromkeys(FIVE, bytes_now) | {"new.md": b"The fluorite is here."}
    if bytes_now:
        outcome = await run_source(services, tenant, shelf)
        assert sorted(path for path, _ in outcome.failed) == sorted(FIVE)
        assert all(reason in text and "--confirm-deletions" in text for _, text in outcome.failed)
        assert await find(services, tenant, "fluorite")
    else:
        with pytest.raises(TooManyDeletions, match=reason):
            await run_source(services, tenant, shelf)
    (hit,) = await find(services, tenant, "basalt")
    assert hit.origin is not None
    assert hit.origin.agreed_at == agreed
    confirmed = await run_source(services, tenant, shelf, options=RunOptions(confirm_deletions=True))
    assert sorted(path for path, _ in confirmed.refused) == sorted(FIVE)
    assert not await find(services, tenant, "basalt")
    status = await services.sources.get(tenant.id, "shelf")
    assert (status.agrees, status.indexed, status.refused) == (True, 1, 5)


async def test_one_file_of_many_that_can_no_longer_be_read_loses_its_asset(services: Services, tenant: Tenant) -> None:
    shelf = Shelf(dict(FIVE))
    await run_source(services, tenant, shelf)
    shelf.files["basalt.md"] = b"\x00\x01\x02" * 99
    outcome = await run_source(services, tenant, shelf)
    assert [path for path, _ in outcome.refused] == ["basalt.md"]
    assert not await find(services, tenant, "basalt")
    assert (await services.sources.get(tenant.id, "shelf")).agrees


@pytest.mark.parametrize("options", [RunOptions(), RunOptions(confirm_deletions=True)])
async def test_empty_manifest_deletes_nothing_without_its_own_confirmation(
    services: Services, tenant: Tenant, options: RunOptions
) -> None:
    await run_source(services, tenant, Shelf({"amber.md": b"The amber is here."}))
    with pytest.raises(TooManyDeletions, match="--allow-empty"):
        await run_source(services, tenant, Shelf(), options=options)
    assert await assets_of(services, tenant, "shelf")
    await run_source(services, tenant, Shelf(), options=RunOptions(allow_empty=True))
    assert not await assets_of(services, tenant, "shelf")

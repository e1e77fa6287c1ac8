"""A quarantine reaches back: what is hidden today is not found as of a past time either."""

from __future__ import annotations

from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.erasures import Release
from app.contract.search import SearchQuery
from tests.fixtures.providers.failing import FailingProvider
from tests.knowledge.conftest import RunJobs
from tests.knowledge.quarantine.suspicious import CLEAN, ORDER, choose
from tests.knowledge.versions.keeping import found, now, texts
from tests.knowledge.writing import write

pytestmark = pytest.mark.own_tenants


async def quarantine(services: Services, tenant: Tenant, entry_id: UUID) -> None:
    await choose(services, tenant, "quarantine")
    await services.entries.change(tenant.id, entry_id, EntryDraft(content=ORDER))
    assert (await services.entries.get(tenant.id, entry_id)).quarantined


@pytest.mark.parametrize("deleted", [False, True], ids=["quarantined", "deleted in quarantine"])
async def test_no_version_of_a_quarantined_entry_is_found(
    services: Services, keeper: Tenant, failing_provider: FailingProvider, deleted: bool
) -> None:
    failing_provider.default = failing_provider.direction(1)
    held, other = await write(services, keeper, "the harbour at noon", "another harbour")
    before = now()
    assert len(await found(services, keeper, before)) == 2
    await quarantine(services, keeper, held)
    quarantined = now()
    if deleted:
        await services.entries.delete(keeper.id, held)
    await services.entries.change(keeper.id, other, EntryDraft(content="another harbour again"))
    for moment in (before, quarantined):
        assert await found(services, keeper, moment) == ["another harbour"]
    for mode in ("semantic", "hybrid"):
        query = SearchQuery(query="harbour", mode=mode, as_of=before, similarity_threshold=0)
        assert {hit.id for hit in await services.search.search(keeper.id, query)} == {other}
    assert await texts(services, keeper, held) == []
    page = await services.versions.list_versions(keeper.id, held, include_quarantined=True)
    assert [v.content for v in page.items] == [*([ORDER] if deleted else []), "the harbour at noon"]


async def test_a_release_shows_the_versions_from_before_the_quarantine(services: Services, keeper: Tenant) -> None:
    (held,) = await write(services, keeper, "the harbour at noon")
    before = now()
    await quarantine(services, keeper, held)
    quarantined = now()
    await services.entries.quarantine.release(keeper.id, Release(entry_ids=[held]))
    assert await found(services, keeper, before) == ["the harbour at noon"]
    assert await found(services, keeper, quarantined) == []
    assert await found(services, keeper, now()) == [ORDER]
    assert await texts(services, keeper, held) == ["the harbour at noon"]


async def test_a_text_that_was_replaced_in_quarantine_stays_hidden(services: Services, keeper: Tenant) -> None:
    """Also after the quarantine; the text from before it is found again."""
    (held,) = await write(services, keeper, "the harbour at noon")
    before = now()
    await quarantine(services, keeper, held)
    quarantined = now()
    assert await found(services, keeper, before) == []
    await services.entries.change(keeper.id, held, EntryDraft(content=CLEAN))
    assert await found(services, keeper, quarantined) == []
    assert await found(services, keeper, before) == ["the harbour at noon"]
    assert await found(services, keeper, now()) == [CLEAN]


SECRET = "ghp_a8Kd93jfLq0PzXc72mNbVt5RwYh1Gu4Es6Qo"


@pytest.mark.parametrize(
    ("flagged", "clean"),
    [
        (EntryDraft(content="quiet pond", metadata={"token": SECRET}), EntryDraft(metadata={})),
        (EntryDraft(content="quiet pond", tags=[SECRET]), EntryDraft(tags=["pond"])),
    ],
    ids=["metadata", "tag"],
)
async def test_versions_with_a_flagged_field_stay_hidden_after_a_change_ends_the_quarantine(
    services: Services, keeper: Tenant, flagged: EntryDraft, clean: EntryDraft
) -> None:
    await choose(services, keeper, "flag")
    held = (await services.entries.create(keeper.id, flagged))[0].id
    before = now()
    await choose(services, keeper, "quarantine")
    await services.entries.change(keeper.id, held, EntryDraft(confidence=0.5, title="Pond"))
    assert (await services.entries.get(keeper.id, held)).quarantined
    assert await found(services, keeper, before) == []
    await services.entries.change(keeper.id, held, clean)
    assert not (await services.entries.get(keeper.id, held)).quarantined
    assert await found(services, keeper, before) == []
    assert await texts(services, keeper, held) == []


async def test_a_release_shows_no_version_with_another_flagged_field(services: Services, keeper: Tenant) -> None:
    await choose(services, keeper, "flag")
    draft = EntryDraft(content="quiet pond", tags=[SECRET])
    held = (await services.entries.create(keeper.id, draft))[0].id
    before = now()
    await choose(services, keeper, "quarantine")
    await services.entries.change(keeper.id, held, EntryDraft(content=ORDER, tags=["pond"]))
    await services.entries.quarantine.release(keeper.id, Release(entry_ids=[held]))
    assert await found(services, keeper, before) == []
    assert await texts(services, keeper, held) == []


async def test_a_chunk_that_is_quarantined_when_its_file_is_ingested_again_is_hidden_before_too(
    services: Services, keeper: Tenant, run_jobs: RunJobs
) -> None:
    await choose(services, keeper, "flag")
    asset, _ = await services.assets.upload(keeper.id, Upload("a.md", ORDER.encode(), external_id="a"))
    await run_jobs()
    flagged = now()
    assert await found(services, keeper, flagged) == [ORDER]
    await choose(services, keeper, "quarantine")
    again = ORDER.encode() + b"\n"
    await services.assets.upload(keeper.id, Upload("a.md", again, external_id="a"))
    await run_jobs()
    assert await found(services, keeper, now()) == []
    assert await found(services, keeper, flagged) == []
    await services.entries.quarantine.release(keeper.id, Release(asset_ids=[asset.id]))
    assert await found(services, keeper, flagged) == [ORDER]

"""Load the sample knowledge into the tenant `demo`."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import fields
from uuid import UUID

from app.composition.services import Services, working
from app.concurrency.patience import POLL_SECONDS, Patience
from app.contract.administration import NewTenant, Tenant
from app.contract.assets import Upload
from app.contract.entries import NewEntry
from app.contract.validation import validate
from app.contract.vocabulary import COMMAND_LINE
from app.db.principals import acting_for_service
from app.errors import ConfigurationError, TenantNotFound
from app.samples import SampleEntry, load_documents, load_entries

log = logging.getLogger(__name__)

SLUG = "demo"
STILL_SECONDS = 20.0
RELATIONS = ("parent", "sources", "superseded_by")
"""Fields of a sample that name others by their external ids."""


async def load_demo(services: Services, tell: Callable[[str], object] = log.info) -> Tenant:
    """Return the tenant `demo`; create and fill it the first time, or if filling was interrupted.

    The last sample entry is written last, so its presence means that everything was written. Entries that a user has
    changed or deleted since are not restored. `tell` gets remarks for a person who waits.
    """
    with acting_for_service():
        return await _load(services, tell)


async def _load(services: Services, tell: Callable[[str], object]) -> Tenant:
    try:
        tenant = await services.tenants.find(SLUG)
    except TenantNotFound:
        tenant = await services.tenants.create(NewTenant(SLUG, "Demonstration"), actor=COMMAND_LINE)
    samples = load_entries()
    if await _has(services, tenant.id, samples[-1].external_id):
        return tenant
    tell("loading the sample knowledge; this happens once")
    # The samples are not hostile, and the service warns when it starts.
    async with working(services, warns=False):
        assets = await _upload_documents(services, tenant.id)
        await _write_entries(services, tenant.id, samples)
        if await _wait(lambda: _count_unread(services, tenant.id, assets)):
            await _wait(lambda: _count_without_vector(services, tenant.id))
        else:
            tell("the sample documents take long; the service continues in the background")
    return tenant


async def _wait(count: Callable[[], Awaitable[float]]) -> bool:
    """Wait until nothing is left; False if there was no progress for a while, and the service does the rest later."""
    patience = Patience(STILL_SECONDS)
    while left := await count():
        if patience.is_over(left):
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True


async def _count_unread(services: Services, tenant_id: UUID, assets: Collection[UUID]) -> float:
    """The documents that are not read yet."""
    states = [await services.assets.get(tenant_id, asset_id) for asset_id in assets]
    return sum(1 - asset.progress for asset in states if asset.status not in ("indexed", "failed"))


async def _count_without_vector(services: Services, tenant_id: UUID) -> float:
    """The entries without a vector that are worth a wait: none while the provider is down."""
    statistics = await services.administration.stats(tenant_id)
    if not statistics.jobs or await services.embedder.is_provider_away(tenant_id):
        return 0
    return statistics.pending_embeddings


async def _has(services: Services, tenant_id: UUID, external_id: str) -> bool:
    page = await services.entries.list_entries(
        tenant_id, limit=1, external_id=external_id, include_expired=True, include_quarantined=True
    )
    return bool(page.items)


async def _upload_documents(services: Services, tenant_id: UUID) -> dict[UUID, str]:
    assets: dict[UUID, str] = {}
    for document in load_documents():
        upload = Upload(
            name=document.name,
            data=document.read(),
            declared_type=document.media_type,
            external_id=document.external_id,
            tags=document.tags,
            roles=document.roles,
        )
        asset, _ = await services.assets.upload(tenant_id, upload, actor=COMMAND_LINE)
        assets[asset.id] = document.name
    return assets


async def _write_entries(services: Services, tenant_id: UUID, samples: list[SampleEntry]) -> None:
    """Write entries in batches; an entry that refers to an entry of the same batch starts the next batch."""
    ids: dict[str, UUID] = {}
    waiting: list[SampleEntry] = []

    async def flush() -> None:
        drafts = [_draft(sample, ids) for sample in waiting]
        results = await services.entries.create_many(tenant_id, drafts, actor=COMMAND_LINE)
        for sample, result in zip(waiting, results, strict=True):
            if result.id is None:
                raise ConfigurationError(None, f"the sample entry {sample.external_id} was refused: {result.error}")
            ids[sample.external_id] = result.id
        waiting.clear()

    for sample in samples:
        references = {sample.parent, sample.superseded_by, *sample.sources} - {None}
        if references - ids.keys():
            await flush()
        waiting.append(sample)
    await flush()


def _draft(sample: SampleEntry, ids: Mapping[str, UUID]) -> NewEntry:
    given = {f.name: getattr(sample, f.name) for f in fields(sample) if f.name not in RELATIONS}
    related = {
        "parent_id": ids[sample.parent] if sample.parent else None,
        "source_ids": [ids[source] for source in sample.sources],
        "superseded_by_id": ids[sample.superseded_by] if sample.superseded_by else None,
    }
    return validate(NewEntry, given | related)

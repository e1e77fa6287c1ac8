"""Upload files of a source; each belongs to an item of the last manifest."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from app.contract.assets import Asset, Upload
from app.contract.validation import UNSET, amend
from app.db.database import Database
from app.db.queries import assets, sources
from app.db.queries import jobs as queue
from app.db.queries.assets import LockedAsset
from app.db.queries.sources import WantedItem
from app.db.session import TenantSession
from app.errors import (
    InvalidInput,
    ItemChanged,
    KnowledgeError,
    NotAWriter,
    RunSuperseded,
    SourceNotFound,
    TooLarge,
    UnsupportedMediaType,
)
from app.knowledge.ingestion.assets import AssetService
from app.knowledge.queue import JobQueue
from app.knowledge.sources.manifest import CHECKED
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.tenants.quotas import find_room


class SourceUploads:
    """Stores the files of sources."""

    def __init__(self, database: Database, tenants: TenantDirectory, jobs: JobQueue, files: AssetService) -> None:
        self._database = database
        self._tenants = tenants
        self._jobs = jobs
        self._files = files

    async def upload(
        self, tenant_id: UUID, source: str, run: int, upload: Upload, *, actor: str = "service"
    ) -> tuple[Asset, bool]:
        """Store the file of the item `upload.external_id`; return its asset, and whether its ingestion was queued.

        A file that is empty, too large or in an unsupported format is refused: the item keeps the reason, and loses the
        asset that it had. Raises SourceNotFound, InvalidInput, RunSuperseded, ItemChanged (other bytes than listed, or
        no such item), TooLarge, UnsupportedMediaType, RateLimited and DatabaseUnavailable.
        """
        external_id = upload.external_id
        if external_id is None:
            raise InvalidInput.of("external_id", "is required with source: an item of its manifest")
        for field in ("readers", "writers"):
            if getattr(upload, field) is not UNSET:
                raise InvalidInput.of(field, "must be absent with source: the file has those of its manifest")
        refusal: KnowledgeError | None = None
        tenant = await self._tenants.context(tenant_id)
        work, stored = False, None
        async with self._database.tenant_session(tenant_id) as session:
            room = await find_room(session, tenant)
            item = await _find_item(session, source, run, external_id)
            try:
                new, fields = self._files.check(amend(upload, name=item.name))
            except (TooLarge, UnsupportedMediaType, InvalidInput) as error:
                if isinstance(error, InvalidInput) and {e.field for e in error.errors} != {"file"}:
                    raise
                await _refuse(session, source, external_id, item, str(error))
                refusal = error
            else:
                if item.digest.startswith(CHECKED) and item.digest != CHECKED + new.sha256.hex():
                    raise ItemChanged("the bytes differ from the digest in the manifest: list the origin again")
                same = None if item.asset_id is None else await _lock_asset(session, item.asset_id)
                again = item.stored_digest is None
                access = {"readers": item.readers, "writers": item.writers}
                new = replace(new, source=source, fields={**new.fields, **access})
                asset_id, work = await self._files.store(session, new, fields, same, room, actor, again=again)
                assert asset_id is not None  # only the index of assets without a source refuses one
                await sources.store_item(session, source, external_id, asset_id)
                stored = (await assets.fetch_assets(session, [asset_id]))[asset_id]
        if refusal is not None or not work:
            async with self._database.tenant_session(tenant_id) as session:
                await sources.agree(session, source)
        if refusal is not None:
            raise refusal
        assert stored is not None
        self._jobs.wake()
        return stored, work


async def _lock_asset(session: TenantSession, asset_id: UUID) -> LockedAsset | None:
    await queue.hold_subject(session, "ingest_asset", str(asset_id))
    return await assets.lock_asset(session, asset_id)


async def _find_item(session: TenantSession, source: str, run: int, external_id: str) -> WantedItem:
    """The item, while no manifest can change it. Raises SourceNotFound, RunSuperseded and ItemChanged."""
    current = await sources.share_source(session, source)
    if current is None:
        if await sources.fetch_source(session, source) is not None:
            raise NotAWriter("the source has writers, and you are not one of them")
        raise SourceNotFound("there is no source with this name")
    if current != run:
        raise RunSuperseded(f"the source is at run {current}, and this upload belongs to run {run}")
    item = await sources.fetch_item(session, source, external_id)
    if item is None:
        raise ItemChanged("the manifest has no item with this external_id, or its asset was deleted since")
    return item


async def _refuse(session: TenantSession, source: str, external_id: str, item: WantedItem, problem: str) -> None:
    if item.asset_id is not None:
        # The item is deleted with its asset, and comes back with the reason. Another upload of it waits.
        await queue.hold_subject(session, "ingest_asset", str(item.asset_id))
        await sources.remove_assets(session, [item.asset_id])
    await sources.refuse_item(session, source, external_id, item, problem)

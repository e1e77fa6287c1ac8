"""Accept manifests, store the files that they list, and describe and delete sources."""

import asyncio
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import get_args
from uuid import UUID

import asyncpg

from app.contract.assets import Asset, Upload
from app.contract.fields import Page
from app.contract.sources import Accepted, AssetsFate, ItemState, Manifest, Source, SourceItem, SourceStatus, read_items
from app.contract.validation import UNSET, amend
from app.db.database import Database
from app.db.queries import assets, audit
from app.db.queries import jobs as queue
from app.db.queries import sources as db
from app.db.queries.sources import HeldManifest, WantedItem
from app.db.session import TenantSession
from app.errors import (
    ConcurrentWrites,
    Conflict,
    InvalidInput,
    ItemChanged,
    KnowledgeError,
    MaximumReached,
    NotAWriter,
    RunSuperseded,
    SourceNotFound,
    SourceTaken,
    TooLarge,
    TooManyDeletions,
    UnsupportedMediaType,
)
from app.knowledge.audit import AuditTrail
from app.knowledge.ingestion.assets import AssetService
from app.knowledge.queue import JobQueue
from app.knowledge.sources.manifest import (
    CHECKED,
    Access,
    Plan,
    check_source_name,
    plan_manifest,
    read_place,
    write_place,
)
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.tenants.quotas import find_room
from app.origins.origin import hide_login

MAX_SOURCES = 100
HELD = timedelta(days=30)
WRITING = timedelta(minutes=10)
"""Time for the transaction of a manifest, which may delete thousands of assets."""
BATCH = 500
"""Assets that are deleted by one statement."""
NOTED_IDS = 1_000
"""Ids of deleted assets in one row of the audit trail."""


@dataclass(eq=False)
class SourceService:
    """Keeps the assets of a source equal to its origin, for any tenant.

    `max_deletions` is the share of a source's assets above which deletions must be confirmed.
    """

    database: Database
    trail: AuditTrail
    tenants: TenantDirectory
    jobs: JobQueue
    files: AssetService
    max_deletions: float

    async def accept(
        self, tenant_id: UUID, name: str, manifest: Manifest, *, actor: str = "service"
    ) -> tuple[Accepted, bool]:
        """Make a source have what the manifest lists: in one transaction, assets that moved get their new names, and
        assets that no longer are in the origin are deleted. New and changed files are `missing` until they are
        uploaded.

        Assets get the readers of their items, otherwise those of the source, and its writers. Returns the source, and
        whether it is new.

        Raises InvalidInput, MaximumReached, TooManyDeletions, RunSuperseded (another run has begun since `run`),
        NotAWriter, SourceTaken and DatabaseUnavailable.
        """
        check_source_name(name)
        origin = None if manifest.origin is None else hide_login(manifest.origin)
        wanted = await asyncio.to_thread(read_items, manifest.items)
        now = datetime.now(UTC)
        listed_at = min(now, manifest.listed_at or now)
        async with (
            self.trail.attempt(tenant_id, actor, "source.write", about={"source": name}),
            self.database.tenant_session(tenant_id, background=WRITING) as session,
        ):
            is_new, access = await self._find_or_add(session, name, listed_at, manifest)
            readers = access.of_items(wanted)
            stored = await db.fetch_stored(session, name)
            plan = await asyncio.to_thread(
                plan_manifest, stored, wanted, max_bytes=self.files.max_bytes, retry=manifest.retry
            )
            self._check_deletions(plan, len(wanted), manifest)
            await _carry_out(session, name, plan)
            await db.pass_on_access(session, name, readers)
            run = await db.accept_manifest(session, name, items=len(wanted), listed_at=listed_at, origin=origin)
            await db.settle_items(session, name)
            await db.agree(session, name)
            counts = {
                "added": len(plan.additions),
                "changed": plan.changed,
                "moved": plan.moved,
                "removed": len(plan.removed_assets),
            }
            detail = {"source": name, "run": run, "items": len(wanted), **counts}
            await audit.write_audit(session, actor, "source.write", plan.removed_assets[:NOTED_IDS], detail)
        if access != Access():
            self.tenants.forget(tenant_id)  # it may use permissions from now on
        return Accepted(**asdict(await self.get(tenant_id, name)) | counts), is_new

    async def _find_or_add(
        self, session: TenantSession, name: str, listed_at: datetime, manifest: Manifest
    ) -> tuple[bool, Access]:
        """Lock the source, which is created if there is none; return whether it was, and its readers and writers now.

        Raises RunSuperseded, InvalidInput, NotAWriter and SourceTaken.
        """
        found, is_new = await db.lock_source(session, name), False
        if found is None:
            await _refuse_reader(session, name)
            if await db.count_sources(session) >= MAX_SOURCES:
                raise MaximumReached(f"the tenant has {MAX_SOURCES} sources, the maximum")
            access = Access().changed_by(manifest.readers, manifest.writers)
            is_new = await db.add_source(session, name, listed_at, access.readers, access.writers)
            found = await db.lock_source(session, name)
        if found is None:
            raise SourceTaken("the name is that of a source that you may not see: choose another")
        if manifest.run is not None and found.run != manifest.run:
            raise RunSuperseded(
                f"another run of this source, number {found.run}, has begun since run {manifest.run}: list the origin"
                " again"
            )
        before = Access(found.readers, found.writers)
        access = before.changed_by(manifest.readers, manifest.writers)
        if access != before:
            await db.set_access(session, name, access.readers, access.writers)
        return is_new, access

    def _check_deletions(self, plan: Plan, items: int, manifest: Manifest) -> None:
        removed = len(plan.removed_assets)
        if not removed:
            return
        if items == 0 and not manifest.allow_empty:
            raise TooManyDeletions(
                f"the manifest is empty, and would delete all {removed} assets: a failed listing looks the same."
                " To delete them, allow an empty manifest (`allow_empty`; `knowledge sync --allow-empty`)",
                removed,
                plan.assets,
            )
        if items and not manifest.confirm_deletions and removed > self.max_deletions * plan.assets:
            raise TooManyDeletions(
                f"the manifest would delete {removed} of {plan.assets} assets of the source, more than"
                f" {self.max_deletions:.0%}. If right: `confirm_deletions`, `knowledge sync --confirm-deletions`",
                removed,
                plan.assets,
            )

    async def get(self, tenant_id: UUID, name: str) -> SourceStatus:
        """One source with the number of its items in each state. Raises SourceNotFound."""
        async with self.database.tenant_session(tenant_id) as session:
            found = await db.fetch_source(session, name)
        if found is None:
            raise _not_found()
        return found

    async def list_sources(self, tenant_id: UUID, *, limit: int = 50, cursor: str | None = None) -> Page[Source]:
        """Sources by name. Raises InvalidInput."""
        after = read_place(limit, cursor)
        async with self.database.tenant_session(tenant_id) as session:
            found = await db.list_sources(session, after, limit + 1)
        following = write_place(found[limit - 1].name) if len(found) > limit else None
        return Page(found[:limit], following)

    async def list_held(self, tenant_id: UUID) -> dict[str, HeldManifest]:
        """The manifests of the last HELD that changed nothing because of their deletions, by source.

        A manifest is not kept: its origin is listed again with a confirmation. The audit trail has one refusal of a
        caller in ten seconds.
        """
        async with self.database.tenant_session(tenant_id) as session:
            return {held.name: held for held in await db.list_held(session, HELD)}

    async def list_items(
        self, tenant_id: UUID, name: str, *, state: ItemState | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[SourceItem]:
        """Items of a source by external id. Raises SourceNotFound and InvalidInput."""
        if state is not None and state not in get_args(ItemState):
            raise InvalidInput.of("state", f"must be one of {', '.join(get_args(ItemState))}")
        after = read_place(limit, cursor)
        async with self.database.tenant_session(tenant_id) as session:
            found = await db.list_items(session, name, state=state, after=after, limit=limit + 1)
            if not found and await db.fetch_source(session, name) is None:
                raise _not_found()
        following = write_place(found[limit - 1].external_id) if len(found) > limit else None
        return Page(found[:limit], following)

    async def delete(self, tenant_id: UUID, name: str, *, assets: AssetsFate = "keep", actor: str = "service") -> None:
        """Delete a source. Its assets stay as assets without a source, or are deleted.

        Raises SourceNotFound, and Conflict when a kept asset has the external_id of another asset.
        """
        if assets not in get_args(AssetsFate):
            raise InvalidInput.of("assets", f"must be one of {', '.join(get_args(AssetsFate))}")
        async with self.trail.attempt(tenant_id, actor, "source.delete"):
            done = False
            while not done:
                async with self.database.tenant_session(tenant_id, background=WRITING) as session:
                    if await db.lock_source(session, name) is None:
                        await _refuse_reader(session, name)
                        raise _not_found()
                    ids: list[UUID] = []
                    if assets == "keep":
                        await _release(session, name)
                    else:
                        ids = await db.list_some_assets(session, name, BATCH)
                        await db.remove_assets(session, ids)
                    if done := not ids:
                        await db.delete_source(session, name)
                    detail = {"source": name, "assets": assets}
                    await audit.write_audit(session, actor, "source.delete", ids, detail)

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
        tenant = await self.tenants.context(tenant_id)
        work, stored = False, None
        async with self.database.tenant_session(tenant_id) as session:
            room = await find_room(session, tenant)
            item = await _find_item(session, source, run, external_id)
            try:
                new, fields = self.files.check(amend(upload, name=item.name))
            except (TooLarge, UnsupportedMediaType, InvalidInput) as error:
                if isinstance(error, InvalidInput) and {e.field for e in error.errors} != {"file"}:
                    raise
                await _refuse(session, source, external_id, item, str(error))
                refusal = error
            else:
                if item.digest.startswith(CHECKED) and item.digest != CHECKED + new.sha256.hex():
                    raise ItemChanged("the bytes differ from the digest in the manifest: list the origin again")
                same = None
                if item.asset_id is not None:
                    await queue.hold_subject(session, "ingest_asset", str(item.asset_id))
                    same = await assets.lock_asset(session, item.asset_id)
                again = item.stored_digest is None
                access = {"readers": item.readers, "writers": item.writers}
                new = replace(new, source=source, fields={**new.fields, **access})
                asset_id, work = await self.files.store(session, new, fields, same, room, actor, again=again)
                assert asset_id is not None  # only the index of assets without a source refuses one
                await db.store_item(session, source, external_id, asset_id)
                stored = (await assets.fetch_assets(session, [asset_id]))[asset_id]
        if refusal is not None or not work:
            async with self.database.tenant_session(tenant_id) as session:
                await db.agree(session, source)
        if refusal is not None:
            raise refusal
        assert stored is not None
        self.jobs.wake()
        return stored, work


async def _carry_out(session: TenantSession, name: str, plan: Plan) -> None:
    """Write a plan; each kind of step in one statement, deletions in several."""
    for start in range(0, len(plan.removed_assets), BATCH):
        await db.remove_assets(session, plan.removed_assets[start : start + BATCH])
    if plan.removed_items:
        await db.remove_items(session, name, plan.removed_items)
    if plan.renamed:
        await db.rename_assets(session, plan.renamed)
    if plan.changes:
        await db.change_items(session, name, plan.changes)
    if plan.additions:
        await db.add_items(session, name, plan.additions)


async def _release(session: TenantSession, name: str) -> None:
    if taken := await db.list_taken_ids(session, name, 3):
        raise Conflict(
            f"other assets have the same external_id as assets of the source, for example {', '.join(taken)}:"
            " delete either of them first"
        )
    try:
        await db.release_assets(session, name)
    except asyncpg.UniqueViolationError as error:
        raise ConcurrentWrites("another request has stored an asset with the same external_id") from error


async def _refuse_reader(session: TenantSession, name: str) -> None:
    """Raise NotAWriter for a source that the caller may see, and not write."""
    if await db.fetch_source(session, name) is not None:
        raise NotAWriter("the source has writers, and you are not one of them")


def _not_found() -> SourceNotFound:
    return SourceNotFound("there is no source with this name")


async def _find_item(session: TenantSession, source: str, run: int, external_id: str) -> WantedItem:
    """The item, while no manifest can change it. Raises SourceNotFound, RunSuperseded and ItemChanged."""
    current = await db.share_source(session, source)
    if current is None:
        await _refuse_reader(session, source)
        raise _not_found()
    if current != run:
        raise RunSuperseded(f"the source is at run {current}, and this upload belongs to run {run}")
    item = await db.fetch_item(session, source, external_id)
    if item is None:
        raise ItemChanged("the manifest has no item with this external_id, or its asset was deleted since")
    return item


async def _refuse(session: TenantSession, source: str, external_id: str, item: WantedItem, problem: str) -> None:
    if item.asset_id is not None:
        # The item is deleted with its asset, and comes back with the reason. Another upload of it waits.
        await queue.hold_subject(session, "ingest_asset", str(item.asset_id))
        await db.remove_assets(session, [item.asset_id])
    await db.refuse_item(session, source, external_id, item, problem)

"""Upload, list, change, retry and delete assets, and read their bytes. Chunks inherit the fields of their asset."""

import hashlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, get_args
from uuid import UUID

import asyncpg

from app.contract.assets import CHANGEABLE, MAX_NAME, Asset, AssetFields, AssetPatch, Upload
from app.contract.fields import Page
from app.contract.text import STORABLE, is_storable
from app.contract.validation import UNSET, Unset
from app.contract.vocabulary import AssetSort
from app.db.database import Database
from app.db.queries import assets as db
from app.db.queries import audit
from app.db.queries import embeddings as vectors
from app.db.queries import jobs as queue
from app.db.queries.assets import AssetContent, ChunkChange, LockedAsset, NewAsset, change_chunks
from app.db.rows import new_id
from app.db.session import TenantSession
from app.documents.formats import declared_codec, detect_format
from app.errors import (
    AssetExists,
    AssetNotFound,
    ConcurrentWrites,
    FieldError,
    InvalidInput,
    NotAWriter,
    NotFailed,
    PreconditionFailed,
    TextNotReady,
    TooLarge,
)
from app.knowledge.audit import AuditTrail
from app.knowledge.entries.entry import PLACE, inheritable, own_draft
from app.knowledge.paging import NEWEST_FIRST, PageRequest
from app.knowledge.quarantine import flag_chunks, require_released, screen_fields
from app.knowledge.queue import JobQueue
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.tenants.quotas import Room, find_room, refuse_entries


def merge(fields: AssetFields, stored: LockedAsset) -> LockedAsset:
    """Overwrite the stored fields with the given ones.

    Raises InvalidInput for other readers and writers of an asset of a source, which determines them.
    """
    given = fields.given()
    for name in ("readers", "writers"):
        if stored.source is not None and name in given and given[name] != getattr(stored, name):
            raise InvalidInput.of(name, f"are those of the asset's source, {stored.source}: change them there")
    return replace(stored, **given)


def require_version(stored: LockedAsset, versions: Collection[int] | None) -> None:
    """Raise PreconditionFailed unless the asset has one of these versions; None allows any."""
    if versions is not None and stored.version not in versions:
        raise PreconditionFailed("the asset has changed since it was read")


async def refuse_reader(session: TenantSession, asset_id: UUID) -> None:
    """Raise NotAWriter for an asset that the caller may read, and not change."""
    if asset_id in await db.fetch_assets(session, [asset_id]):
        raise NotAWriter("the asset has writers, and you are not one of them")


async def find_missing(session: TenantSession, asset_id: UUID) -> AssetNotFound:
    """The error for an asset that cannot be changed. Raises NotAWriter if the caller may read it."""
    await refuse_reader(session, asset_id)
    return AssetNotFound("there is no asset with this id")


async def refuse_twin(session: TenantSession, wanted: LockedAsset) -> None:
    """Raise AssetExists if another asset with the wanted readers has the same identity."""
    if (twin := await db.find_twin(session, wanted.id, wanted.readers)) is not None:
        raise AssetExists(f"another asset with these readers has the same identity: {twin}", twin)


async def write_change(
    session: TenantSession, jobs: JobQueue, stored: LockedAsset, wanted: LockedAsset, room: Room | None
) -> list[str]:
    """Write the changed fields of a locked asset and of its chunks; return the names of the fields.

    Chunks with another title are embedded again in the background. What is suspicious in the fields flags all chunks
    while it is there. Raises AssetExists, and RateLimited when longer titles exceed the tenant's room.
    """
    changed = [n for n in ("name", *CHANGEABLE) if getattr(stored, n) != getattr(wanted, n)]
    if not changed:
        return []
    if "readers" in changed:
        await refuse_twin(session, wanted)
    try:
        await db.change_asset(session, wanted)
    except asyncpg.UniqueViolationError as error:
        raise ConcurrentWrites("another request has just stored an asset with the same identity") from error
    titles = (stored.shown_title, wanted.shown_title)
    change = ChunkChange(
        tags=wanted.tags if "tags" in changed else None,
        roles=wanted.roles if "roles" in changed else None,
        metadata=inheritable(wanted.metadata) if "metadata" in changed else None,
        place=sorted(PLACE),
        titles=titles if titles[0] != titles[1] else None,
    )
    touched = await change_chunks(session, stored.id, change) if change != ChunkChange(place=change.place) else []
    before, flags = (screen_fields(a.shown_title, a.name, a.tags, a.metadata) for a in (stored, wanted))
    if before or flags:
        await flag_chunks(session, stored.id, before, flags)
    if touched:
        growth = 2 * len(touched) * (len(titles[1] or "") - len(titles[0] or ""))
        if room is not None and (over := room.take_bytes(max(0, growth))) is not None:
            raise over
        await vectors.drop_vectors(session, touched)
        await vectors.mark_pending(session, touched)
        await jobs.enqueue(session, "embed_entries", "entries")
    return changed


DEFAULTS: Mapping[str, Any] = {"tags": [], "roles": ["all"], "metadata": {}, "readers": None, "writers": None}
"""The fields of an asset whose caller sent none."""


def check_upload(upload: Upload) -> tuple[NewAsset, AssetFields]:
    """Check a file, and recognise its format. Raises InvalidInput and UnsupportedMediaType."""
    # Some clients send a path: only its last part is the name.
    name = upload.name.replace("\\", "/").rpartition("/")[2].strip()
    if not 1 <= len(name) <= MAX_NAME or not is_storable(name):
        raise InvalidInput([FieldError("file", f"needs a name of 1 to {MAX_NAME} characters, {STORABLE}")])
    valid = own_draft(upload)
    kind = detect_format(upload.data, name, upload.declared_type)
    new = NewAsset(
        external_id=upload.external_id,
        name=name,
        media_type=kind.media_type,
        encoding=declared_codec(upload.declared_type) if kind.text else None,
        sha256=hashlib.sha256(upload.data).digest(),
        original=upload.data,
        fields={**DEFAULTS, **valid.given()},
        readers_given=not isinstance(valid.readers, Unset),
    )
    return new, valid


def inherit(new: NewAsset, merged: LockedAsset) -> NewAsset:
    """A new version with the fields that its asset has or gets."""
    return replace(new, fields={name: getattr(merged, name) for name in new.fields})


MAX_UPLOAD = 50 * 1024 * 1024
PART_BYTES = 1 << 20
"""Most bytes of an original that are read at once."""


@dataclass(eq=False)
class AssetService:
    """Accepts, lists, retries and deletes the assets of any tenant; the worker processes them."""

    database: Database
    trail: AuditTrail
    jobs: JobQueue
    tenants: TenantDirectory
    _: KW_ONLY
    max_bytes: int = MAX_UPLOAD

    def check_size(self, size: int) -> None:
        """Raise TooLarge for a file of `size` bytes, so that a caller can check before it reads the file."""
        if size > self.max_bytes:
            raise TooLarge(f"the file is larger than the limit of {self.max_bytes} bytes")

    async def upload(self, tenant_id: UUID, upload: Upload, *, actor: str = "service") -> tuple[Asset, bool]:
        """Store a file and queue its ingestion; return the asset and whether a job was queued.

        The same bytes again return the same asset, with the given fields; the same `external_id` with other bytes is a
        new version. The same bytes under another `external_id` are an asset of their own, with `duplicate_of`.
        Raises InvalidInput, TooLarge, UnsupportedMediaType, RateLimited (a quota is reached) and DatabaseUnavailable.
        """
        new, fields = self.check(upload)
        tenant = await self.tenants.context(tenant_id)
        async with self.database.tenant_session(tenant_id) as session:
            room = await find_room(session, tenant)
            for _ in range(5):
                same = None
                if (same_id := await db.find_same_id(session, new)) is not None:
                    await queue.hold_subject(session, "ingest_asset", str(same_id))
                    if (same := await db.lock_asset(session, same_id)) is None:
                        await refuse_reader(session, same_id)
                    if await db.find_same_id(session, new) != same_id:
                        continue  # another request has just changed or deleted it
                asset_id, work = await self.store(session, new, fields, same, room, actor)
                if asset_id is not None:
                    break
            else:
                raise ConcurrentWrites("other requests are writing the same file; try again")
            # Read here: once the transaction has ended, another caller can delete the asset.
            stored = (await db.fetch_assets(session, [asset_id]))[asset_id]
        if fields.restricts:
            self.tenants.forget(tenant_id)  # it may use permissions from now on
        self.jobs.wake()
        return stored, work

    async def store(
        self,
        session: TenantSession,
        new: NewAsset,
        fields: AssetFields,
        same: LockedAsset | None,
        room: Room | None,
        actor: str,
        *,
        again: bool = False,
    ) -> tuple[UUID | None, bool]:
        """Write a checked file over the locked asset `same`, or as a new asset; return its id, None when another writer
        has just inserted the same, and whether its ingestion was queued.

        With `again`, bytes that the asset already has are ingested again. Raises RateLimited.
        """
        if same is not None and same.sha256 == new.sha256 and not again:
            # Without an external_id the bytes identify the asset, which keeps its name.
            named = same if new.external_id is None else replace(same, name=new.name)
            if changed := await write_change(session, self.jobs, same, merge(fields, named), room):
                await _note_change(session, actor, same.id, changed)
            return same.id, False
        asset_id = new_id() if same is None else same.id
        if same is not None:
            _require_room(room, len(new.original) - same.byte_size)
            await db.replace_asset(session, asset_id, inherit(new, merge(fields, same)))
        else:
            _require_room(room, len(new.original), new=True)
            if not await db.insert_asset(session, asset_id, new):
                return None, False
        await self.jobs.enqueue(session, "ingest_asset", str(asset_id))
        await audit.write_audit(session, actor, "asset.upload", [asset_id], {"bytes": len(new.original)})
        return asset_id, True

    async def change(
        self,
        tenant_id: UUID,
        asset_id: UUID,
        patch: AssetPatch,
        *,
        if_version: Collection[int] | None = None,
        actor: str = "service",
    ) -> Asset:
        """Change the given fields of an asset and, in the same transaction, those that its chunks inherit.

        Raises AssetNotFound, InvalidInput, RateLimited, PreconditionFailed when the asset's version is not in
        `if_version`, NotAWriter, and AssetExists when another one has the same identity among those with its readers.
        """
        patch = own_draft(patch)
        tenant = await self.tenants.context(tenant_id)
        async with self.trail.writing(tenant_id, actor, "asset.update", [asset_id]) as session:
            room = await find_room(session, tenant) if patch.title is not UNSET else None
            stored = await db.lock_asset(session, asset_id)
            if stored is None:
                raise await find_missing(session, asset_id)
            require_version(stored, if_version)
            changed = await write_change(session, self.jobs, stored, merge(patch, stored), room)
            if changed:
                await _note_change(session, actor, asset_id, changed)
            now = (await db.fetch_assets(session, [asset_id]))[asset_id]
        if patch.restricts:
            self.tenants.forget(tenant_id)
        self.jobs.wake()
        return now

    async def get(self, tenant_id: UUID, asset_id: UUID) -> Asset:
        """One asset. Raises AssetNotFound."""
        async with self.database.tenant_session(tenant_id) as session:
            found = await db.fetch_assets(session, [asset_id])
        if asset_id not in found:
            raise AssetNotFound("there is no asset with this id")
        return found[asset_id]

    async def find(self, tenant_id: UUID, asset_ids: Sequence[UUID]) -> list[Asset]:
        """Fetch the assets that exist, in the given order."""
        async with self.database.tenant_session(tenant_id) as session:
            found = await db.fetch_assets(session, asset_ids)
        return [found[i] for i in dict.fromkeys(asset_ids) if i in found]

    async def list_assets(
        self,
        tenant_id: UUID,
        *,
        limit: int = 50,
        cursor: str | None = None,
        status: str | None = None,
        sort: AssetSort = NEWEST_FIRST,
    ) -> Page[Asset]:
        """Assets, by default newest first. Raises InvalidInput, also for a bad cursor."""
        wanted = PageRequest.read(limit, cursor, sort, get_args(AssetSort))
        async with self.database.tenant_session(tenant_id) as session:
            page = wanted.cut_places(
                await db.list_assets(session, order=wanted.order, after=wanted.after, limit=wanted.reach, status=status)
            )
            found = await db.fetch_assets(session, [place.id for place in page.items])
        # Another request can delete or hide an item between the two statements.
        return Page([found[place.id] for place in page.items if place.id in found], page.next_cursor)

    async def text(self, tenant_id: UUID, asset_id: UUID, *, include_quarantined: bool = False) -> str:
        """The extracted text; `char_start` and `char_end` of chunks are offsets in it.

        Raises AssetNotFound, Conflict while there is no text yet, and Quarantined if a part of it is in quarantine,
        without `include_quarantined`.
        """
        async with self.database.tenant_session(tenant_id) as session:
            extracted = await db.fetch_text(session, asset_id)
            if not include_quarantined:
                await require_released(session, asset_id)
        if extracted is None:
            raise AssetNotFound("there is no asset with this id")
        (text,) = extracted
        if text is None:
            raise TextNotReady("the asset has no text yet: see its status")
        return text

    async def content(self, tenant_id: UUID, asset_id: UUID, *, include_quarantined: bool = False) -> AssetContent:
        """Describe the original bytes, which `read_content` returns.

        Raises AssetNotFound, and Quarantined if a part of the text is in quarantine, without `include_quarantined`.
        """
        async with self.database.tenant_session(tenant_id) as session:
            content = await db.fetch_content(session, asset_id)
            if not include_quarantined:
                await require_released(session, asset_id)
        if content is None:
            raise AssetNotFound("there is no asset with this id")
        return content

    async def read_content(self, tenant_id: UUID, content: AssetContent) -> AsyncIterator[bytes]:
        """Yield the original bytes in parts; no transaction is open between two parts.

        Raises AssetNotFound when the asset is deleted, or gets other bytes, before all are read.
        """
        for start in range(0, content.byte_size, PART_BYTES):
            async with self.database.tenant_session(tenant_id) as session:
                part = await db.fetch_content_part(session, content, start, PART_BYTES)
            if part is None:
                raise AssetNotFound("the asset was deleted or replaced while it was read")
            yield part

    async def retry(self, tenant_id: UUID, asset_id: UUID, *, actor: str = "service") -> Asset:
        """Ingest a failed asset again. Raises AssetNotFound, and Conflict when it has not failed."""
        async with self.trail.writing(tenant_id, actor, "asset.retry", [asset_id]) as session:
            await queue.hold_subject(session, "ingest_asset", str(asset_id))
            if await db.lock_asset(session, asset_id) is None:
                raise await find_missing(session, asset_id)
            if not await db.retry_asset(session, asset_id):
                raise NotFailed("only a failed asset can be retried")
            await self.jobs.enqueue(session, "ingest_asset", str(asset_id))
            await audit.write_audit(session, actor, "asset.retry", [asset_id], {})
            now = (await db.fetch_assets(session, [asset_id]))[asset_id]
        self.jobs.wake()
        return now

    async def delete(self, tenant_id: UUID, asset_id: UUID, *, actor: str = "service") -> None:
        """Delete an asset with its chunks, and cancel its job. Raises AssetNotFound."""
        async with self.trail.writing(tenant_id, actor, "asset.delete", [asset_id]) as session:
            # The worker locks the job first and then the asset; the other order here could deadlock.
            await queue.cancel_jobs(session, "ingest_asset", str(asset_id))
            if not await db.delete_asset(session, asset_id):
                raise await find_missing(session, asset_id)
            await audit.write_audit(session, actor, "asset.delete", [asset_id], {})

    def check(self, upload: Upload) -> tuple[NewAsset, AssetFields]:
        """Check a file, and recognise its format. Raises InvalidInput, TooLarge and UnsupportedMediaType."""
        self.check_size(len(upload.data))
        return check_upload(upload)


async def _note_change(session: TenantSession, actor: str, asset_id: UUID, fields: Sequence[str]) -> None:
    await audit.write_audit(session, actor, "asset.update", [asset_id], {"fields": sorted(fields)})


def _require_room(room: Room | None, size: int, *, new: bool = False) -> None:
    """Raise RateLimited when there is no room for the file or, if it is new, for a single chunk."""
    if room is None:
        return
    if new and room.entries is not None and room.entries < 1:
        raise refuse_entries(room.most_entries)
    if (over := room.take_bytes(max(0, size))) is not None:
        raise over

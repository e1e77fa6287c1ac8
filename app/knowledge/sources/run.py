"""Run a source: list the origin, send the manifest, upload what is missing.

Each step leaves a state that the next run completes: a run that ends anywhere loses nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import Protocol
from uuid import UUID

from app.contract.assets import Asset, Upload
from app.contract.fields import Page
from app.contract.sources import Accepted, ItemState, Manifest, ManifestItem, SourceItem, SourceStatus, name_of
from app.contract.validation import UNSET, Unset
from app.contract.vocabulary import Audience
from app.errors import (
    InvalidInput,
    ItemChanged,
    RateLimited,
    RunSuperseded,
    SourceNotFound,
    TooLarge,
    UnsupportedMediaType,
)
from app.knowledge.ingestion.assets import check_upload
from app.knowledge.paging import MAX_PAGE
from app.knowledge.sources.manifest import Given
from app.origins.origin import OpenOrigin, Origin, OriginFile, OriginUnavailable

KEPT = "Its asset stays as it was, since the run would delete too many: `knowledge sync --confirm-deletions`"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a caller asks of a run; `tags` and `roles` apply to the files that it uploads.

    `readers` and `writers` are those of the source, `readers_of` those of files, by patterns of their paths: of several
    that match, the last one counts.
    """

    confirm_deletions: bool = False
    allow_empty: bool = False
    retry: bool = False
    tags: Sequence[str] | Unset = UNSET
    roles: Sequence[Audience] | Unset = UNSET
    readers: Given = UNSET
    writers: Given = UNSET
    readers_of: Sequence[tuple[str, Sequence[str]]] = ()
    actor: str = "service"

    def find_readers(self, path: str) -> Sequence[str] | None:
        """The readers of a file; None stands for the readers of the source."""
        found = [readers for pattern, readers in self.readers_of if fnmatchcase(path, pattern)]
        return found[-1] if found else None


@dataclass(slots=True)
class RunOutcome:
    """What a run has done; `failed` are files that were not uploaded, each with its path and the reason.

    `unmatched` are the patterns of readers that match no file.
    """

    accepted: Accepted
    skipped: Sequence[tuple[str, str]]
    unmatched: Sequence[str] = ()
    waiting: dict[UUID, str] = field(default_factory=dict)
    refused: list[tuple[str, str]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)


class Sources(Protocol):
    """What a run asks of the sources of a tenant; `max_deletions` is the share of assets that it may delete."""

    @property
    def max_deletions(self) -> float: ...

    async def accept(
        self, tenant_id: UUID, name: str, manifest: Manifest, *, actor: str = ...
    ) -> tuple[Accepted, bool]: ...

    async def get(self, tenant_id: UUID, name: str) -> SourceStatus: ...

    async def list_items(
        self, tenant_id: UUID, name: str, *, state: ItemState | None = ..., limit: int = ..., cursor: str | None = ...
    ) -> Page[SourceItem]: ...

    async def upload(
        self, tenant_id: UUID, source: str, run: int, upload: Upload, *, actor: str = ...
    ) -> tuple[Asset, bool]: ...


class SourceRun:
    """Runs sources: origins are read in threads, one file at a time."""

    def __init__(self, sources: Sources, *, max_bytes: int) -> None:
        """`max_bytes` of a file are read; the services are in this process, or elsewhere."""
        self._sources = sources
        self._max_bytes = max_bytes

    async def run(
        self,
        tenant_id: UUID,
        name: str,
        origin: Origin,
        options: RunOptions,
        report: Callable[[str, int, int], None] = lambda label, done, total: None,
    ) -> RunOutcome:
        """Make the source have what its origin has, except for the ingestion of `waiting`.

        If too many assets would be deleted, those whose files can no longer be read are kept, and the source does not
        agree. Raises OriginUnavailable before anything is changed if the origin cannot be listed completely, and the
        errors of SourceService.accept and SourceService.upload that concern the whole run.
        """
        try:
            before = (await self._sources.get(tenant_id, name)).run
        except SourceNotFound:
            before = 0
        connection = origin.open()
        opened = await asyncio.to_thread(connection.__enter__)
        try:
            listed_at = datetime.now(UTC)
            listing = await asyncio.to_thread(opened.list_files)
            manifest = Manifest(
                items=[
                    ManifestItem(f.path, f.digest, name_of(f.path), f.size, options.find_readers(f.path))
                    for f in listing.files
                ],
                origin=origin.description,
                run=before,
                listed_at=listed_at,
                confirm_deletions=options.confirm_deletions,
                allow_empty=options.allow_empty,
                retry=options.retry,
                readers=options.readers,
                writers=options.writers,
            )
            accepted, _ = await self._sources.accept(tenant_id, name, manifest, actor=options.actor)
            files = {file.path: file for file in listing.files}
            # One may be a mistake, and its files open to all.
            unmatched = [p for p, _ in options.readers_of if not any(fnmatchcase(path, p) for path in files)]
            outcome = RunOutcome(accepted, listing.skipped, unmatched)
            if accepted.removed:
                await self._note_refused(tenant_id, outcome, files)
            await self._upload_missing(tenant_id, outcome, opened, files, options, report)
            return outcome
        finally:
            await asyncio.to_thread(connection.__exit__, None, None, None)

    async def _note_refused(self, tenant_id: UUID, outcome: RunOutcome, files: dict[str, OriginFile]) -> None:
        """Note the files that the manifest refused for their sizes, some of which had assets."""
        async for item in self._list(tenant_id, outcome, "refused"):
            size = files[item.external_id].size
            if size is not None and not 0 < size <= self._max_bytes:
                outcome.refused.append((item.external_id, item.reason or ""))

    async def _list(self, tenant_id: UUID, outcome: RunOutcome, state: ItemState) -> AsyncIterator[SourceItem]:
        cursor: str | None = None
        while True:
            page = await self._sources.list_items(
                tenant_id, outcome.accepted.name, state=state, limit=MAX_PAGE, cursor=cursor
            )
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _upload_missing(
        self,
        tenant_id: UUID,
        outcome: RunOutcome,
        origin: OpenOrigin,
        files: dict[str, OriginFile],
        options: RunOptions,
        report: Callable[[str, int, int], None],
    ) -> None:
        upload = partial(self._upload_item, tenant_id, outcome, origin, files, options)
        done = 0
        doubtful: list[tuple[SourceItem, str]] = []
        async for item in self._list(tenant_id, outcome, "missing"):
            if (reason := await upload(item, keep=not options.confirm_deletions)) is not None:
                doubtful.append((item, reason))
            done += 1
            report("files", done, outcome.accepted.missing)
        # Refused files would delete too many assets, together with those that the manifest deleted.
        accepted, deleted = outcome.accepted, len(doubtful) + outcome.accepted.removed
        stored = accepted.items - accepted.refused - accepted.added + accepted.removed
        if doubtful and deleted > self._sources.max_deletions * stored:
            outcome.failed += [(item.external_id, f"{reason}. {KEPT}") for item, reason in doubtful]
            return
        for item, _ in doubtful:
            await upload(item, keep=False)

    async def _upload_item(
        self,
        tenant_id: UUID,
        outcome: RunOutcome,
        origin: OpenOrigin,
        files: dict[str, OriginFile],
        options: RunOptions,
        item: SourceItem,
        *,
        keep: bool,
    ) -> str | None:
        """Upload the file of an item; with `keep`, return why it would be refused and so delete the item's asset."""
        source = outcome.accepted
        try:
            data = await asyncio.to_thread(origin.read, files[item.external_id], self._max_bytes)
            upload = Upload(item.name, data, external_id=item.external_id, tags=options.tags, roles=options.roles)
            if keep and item.asset_id is not None:
                try:
                    await asyncio.to_thread(check_upload, upload)
                except (UnsupportedMediaType, InvalidInput) as error:
                    return str(error)
            asset, work = await self._sources.upload(tenant_id, source.name, source.run, upload, actor=options.actor)
            if work or asset.status in ("pending", "processing"):
                outcome.waiting[asset.id] = item.external_id
        except RunSuperseded:
            raise
        except (TooLarge, UnsupportedMediaType, InvalidInput) as error:
            outcome.refused.append((item.external_id, str(error)))
        except (OriginUnavailable, ItemChanged, RateLimited) as error:
            outcome.failed.append((item.external_id, str(error)))
        return None

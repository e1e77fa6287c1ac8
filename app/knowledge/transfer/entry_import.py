"""Import entries from a file in batches; references are written once all entries have ids."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from app.contract.entries import BulkResult, EntryDraft
from app.db.database import Database
from app.db.queries import audit
from app.db.queries import jobs as queue
from app.db.queries import transfer as db
from app.errors import EntryNotFound
from app.knowledge.transfer.records import ImportOutcome, Line, Progress, parse_record, read_records

BATCH = 500
CLEARING = timedelta(minutes=10)


async def clear_tenant(database: Database, tenant_id: UUID, actor: str) -> tuple[int, int]:
    """Delete assets with their chunks, then entries; return how many of each. Settings, saved searches and the audit
    trail stay. Each batch is a transaction with its audit record. Raises DatabaseUnavailable."""
    counts = {"asset": 0, "entry": 0}
    for part, size in (("asset", 1), ("entry", BATCH)):
        while True:
            async with database.tenant_session(tenant_id, background=CLEARING) as session:
                if part == "asset":
                    ids = await db.list_some_assets(session, size)
                    # The worker locks the job first and then the asset.
                    for asset_id in ids:
                        await queue.cancel_jobs(session, "ingest_asset", str(asset_id))
                    await db.clear_assets(session, ids)
                else:
                    ids = await db.clear_entries(session, size)
                if ids:
                    await audit.write_audit(session, actor, "tenant.import", ids, {"part": "clear", part: len(ids)})
            counts[part] += len(ids)
            if not ids:
                break
    return counts["asset"], counts["entry"]


@dataclass(slots=True)
class Imported(ImportOutcome):
    """The outcome of an import of entries."""

    COUNTED = ("created", "updated", "unchanged", "skipped_empty", "failed", "dropped_references")

    skipped_empty: int = 0


class Entries(Protocol):
    """What an import asks of the entries of a tenant, in this process or elsewhere."""

    async def create_many(
        self, tenant_id: UUID, items: Sequence[EntryDraft], *, actor: str = ...
    ) -> Sequence[BulkResult]: ...

    async def get(self, tenant_id: UUID, entry_id: UUID) -> object: ...


class EntryImport:
    """Imports one file into one tenant. The file is read once for the entries and again for their references."""

    def __init__(self, entries: Entries, tenant_id: UUID, actor: str) -> None:
        self._entries = entries
        self._tenant_id = tenant_id
        self._actor = actor
        self._ids: dict[str, UUID] = {}
        self._refused: set[int] = set()  # places in the file, because one line can have several records
        self._known: dict[str, bool] = {}
        self.outcome = Imported()
        self.has_references = False

    async def write_entries(self, file: Path, report: Progress) -> None:
        """Write all entries without their references. Raises DatabaseUnavailable."""
        batch: list[tuple[int, Line]] = []
        for place, record in enumerate(read_records(file)):
            number = self.outcome.lines = record.line
            try:
                if record.error is not None:
                    raise ValueError(record.error)
                line = parse_record(number, record.value)
            except ValueError as error:
                self._refused.add(place)
                self.outcome.fail(number, str(error))
                continue
            if line is None:
                self.outcome.skipped_empty += 1
                continue
            self.has_references = self.has_references or bool(line.references)
            batch.append((place, line))
            if len(batch) == BATCH:
                await self._write(batch)
                batch = []
                report(number)
        await self._write(batch)
        report(self.outcome.lines)

    async def write_references(self, file: Path, report: Progress) -> None:
        """Set the parents, sources and successors of entries, with the ids that these have in this tenant."""
        batch: list[tuple[Line, EntryDraft]] = []
        for place, record in enumerate(read_records(file)):
            number = record.line
            if place in self._refused:
                continue
            line = parse_record(number, record.value)
            if line is None or not line.references:
                continue
            batch.append((line, replace(line.draft, **await self._translate(line))))
            if len(batch) == BATCH:
                await self._relate(batch)
                batch = []
                report(number)
        await self._relate(batch)
        report(self.outcome.lines)

    async def _write(self, batch: list[tuple[int, Line]]) -> None:
        if not batch:
            return
        results = await self._entries.create_many(self._tenant_id, [line.draft for _, line in batch], actor=self._actor)
        for (place, line), result in zip(batch, results, strict=True):
            if result.status == "failed":
                self._refused.add(place)
                self.outcome.fail(line.number, result.error or "refused")
            else:
                setattr(self.outcome, result.status, getattr(self.outcome, result.status) + 1)
            if result.id is not None and line.old_id is not None:
                self._ids[line.old_id] = result.id

    async def _relate(self, batch: list[tuple[Line, EntryDraft]]) -> None:
        if not batch:
            return
        results = await self._entries.create_many(self._tenant_id, [draft for _, draft in batch], actor=self._actor)
        for (line, _), result in zip(batch, results, strict=True):
            if result.status == "failed":
                self.outcome.fail(line.number, result.error or "refused")

    async def _translate(self, line: Line) -> dict[str, Any]:
        translated: dict[str, Any] = {}
        for name, given in line.references.items():
            found = [new for old in given if (new := await self._find(old)) is not None]
            self.outcome.dropped_references += len(given) - len(found)
            if name == "source_ids":
                translated[name] = found
            elif found:
                translated[name] = found[0]
        return translated

    async def _find(self, old: str) -> UUID | None:
        """The new id of an entry from the same file, else the same id if the tenant has such an entry."""
        if old in self._ids:
            return self._ids[old]
        if old not in self._known:
            try:
                await self._entries.get(self._tenant_id, UUID(old))
                self._known[old] = True
            except (EntryNotFound, ValueError):
                self._known[old] = False
        return UUID(old) if self._known[old] else None

"""Export a whole tenant as JSON lines, and restore it from them with the same ids, times and references."""

from __future__ import annotations

import asyncio
import base64
import codecs
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
from pgvector import HalfVector

from app.contract.text import MARKS_RULE, has_excess_marks
from app.contract.vocabulary import SuspiciousContent
from app.db.database import Database
from app.db.queries import audit
from app.db.queries import embeddings as vectors
from app.db.queries import jobs as queue
from app.db.queries import transfer as db
from app.db.queries.embeddings import PassageVector
from app.db.queries.tenants import own_tenant
from app.db.session import TenantSession
from app.errors import InvalidInput, TenantNotFound
from app.knowledge.entries.entry import text_hash
from app.knowledge.quarantine import apply_policy, flags_of, screen_fields, with_flags
from app.knowledge.queue import JobQueue
from app.knowledge.tenants.directory import TenantContext, TenantDirectory
from app.knowledge.transfer.records import REFERENCES, REFUSALS, Progress, Restored, TextLine, describe_refusal
from app.knowledge.upkeep import PlannerStatistics

_IDS = ("id", "asset_id", "entry_id", "parent_id", "superseded_by_id", "repeats")
RECORDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "saved_search": ("saved_searches", ("id",)),
    "feedback": ("feedback", ("search_id", "entry_id")),
    "source": ("sources", ()),
    "source_item": ("source_items", ()),
}
"""Other kinds of lines in their order, each with its table, and the columns that identify a row in the trail."""


@dataclass(frozen=True, slots=True)
class ExportedEntry:
    """An entry with the columns of its line.

    `columns` are the fields of the table, which Postgres reads and checks. The restoration itself needs the others.
    `vectors` are those of its passages, without its id and the hash of its text.
    """

    id: UUID
    title: str | None
    content: Any
    accesses: int
    vectors: Sequence[Mapping[str, Any]]
    columns: Mapping[str, Any]

    @property
    def refers(self) -> bool:
        """Whether it refers to other entries."""
        return any(self.columns.get(name) for name in REFERENCES)

    @property
    def links(self) -> Mapping[str, Any]:
        """The columns with its id and its references."""
        return {name: self.columns.get(name) for name in ("id", *REFERENCES)}

    @property
    def is_to_judge(self) -> bool:
        """Whether it has flags but no record of a quarantine, as in exports of older versions."""
        return "quarantined" not in self.columns and "flags" in (self.columns.get("metadata") or ())

    def renamed(self, ids: Mapping[str, str]) -> ExportedEntry:
        """The same entry with the ids that things have in this tenant."""
        columns = rename(self.columns, ids)
        return replace(self, id=UUID(columns["id"]), columns=columns)

    def found_as(self, present: UUID | None) -> ExportedEntry:
        """The same entry with the id of the existing entry that it describes, if there is one."""
        if present is None or present == self.id:
            return self
        return replace(self, id=present, columns={**self.columns, "id": str(present)})


@dataclass(frozen=True, slots=True)
class ExportedAsset:
    """An asset, whose bytes follow in parts."""

    id: UUID
    byte_size: int
    sha256: str | None
    unfinished: bool
    columns: Mapping[str, Any]

    def found_as(self, present: UUID) -> ExportedAsset:
        """The same asset with the id of the existing asset that it describes."""
        return replace(self, id=present, columns={**self.columns, "id": str(present)})


def read_object(raw: bytes) -> dict[str, Any] | None:
    """The fields of a line; None if it is not an object."""
    try:
        given = orjson.loads(raw)  # jsonb writes 1e20 as an integer beyond 64 bits, which is the same float again
    except ValueError:
        return None
    return given if isinstance(given, dict) else None


def read_entry(given: Mapping[str, Any], *, with_vectors: bool) -> ExportedEntry:
    """Read an entry, with its vectors only if they are of the tenant's model.

    This and the other readers raise KeyError, TypeError or ValueError for a line that cannot be restored.
    """
    for name in ("title", "content"):
        if isinstance(text := given.get(name), str) and has_excess_marks(text):
            raise ValueError(f"{name}: {MARKS_RULE}")
    return ExportedEntry(
        id=_read_id(given["id"]),
        title=given.get("title"),
        content=given.get("content"),
        accesses=int(given.get("accesses") or 0),
        vectors=list(map(_read_vector, given.get("vectors") or ())) if with_vectors else (),
        columns={name: value for name, value in given.items() if name != "vectors"},
    )


def flag_lines(entries: Sequence[ExportedEntry], policy: SuspiciousContent) -> list[ExportedEntry]:
    """The entries with the flags of what they contain, in addition to those that come from the form of a file."""
    return [entry if policy == "keep" else _flag_line(entry) for entry in entries]


def _flag_line(entry: ExportedEntry) -> ExportedEntry:
    tags, metadata = entry.columns.get("tags") or [], entry.columns.get("metadata") or {}
    readable = isinstance(entry.title, str | None) and isinstance(entry.content, str) and isinstance(metadata, dict)
    if not readable or not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return entry  # Postgres refuses it
    known = flags_of(metadata)
    kept = known if entry.columns.get("asset_id") else [flag for flag in known if flag == "invisible_text"]
    flags = [*kept, *screen_fields(entry.title, entry.content, tags, metadata)]
    return replace(entry, columns={**entry.columns, "metadata": with_flags(metadata, flags)})


def _read_vector(given: Mapping[str, Any]) -> Mapping[str, Any]:
    vector = HalfVector.from_binary(base64.b64decode(given["vector"], validate=True))
    return {name: int(given[name]) for name in ("passage", "char_start", "char_end")} | {"vector": vector}


def read_asset(given: Mapping[str, Any]) -> ExportedAsset:
    """An asset without its bytes."""
    size = given.get("byte_size", 0)
    if not isinstance(size, int):
        raise TypeError("byte_size")
    return ExportedAsset(
        id=_read_id(given["id"]),
        byte_size=size,
        sha256=given.get("sha256"),
        unfinished=given.get("status") in ("pending", "processing"),
        columns=given,
    )


def read_part(given: Mapping[str, Any]) -> tuple[int, bytes]:
    """Some of an asset's bytes, and where they start."""
    return given["start"], base64.b64decode(given["data"], validate=True)


def read_record(
    kind: str, given: Mapping[str, Any], renamed: Mapping[str, str]
) -> tuple[Mapping[str, Any], list[UUID]]:
    """A row of another kind with the ids that things have in this tenant, and those that identify it in the trail."""
    columns = rename(given, renamed)
    return columns, [_read_id(columns[name]) for name in RECORDS[kind][1]]


def rename(columns: Mapping[str, Any], ids: Mapping[str, str]) -> Mapping[str, Any]:
    """Replace the ids in a line with those in `ids`."""
    if not ids:
        return columns
    names: dict[str, Any] = {
        name: ids.get(value, value) for name in _IDS if isinstance(value := columns.get(name), str)
    }
    if isinstance(sources := columns.get("source_ids"), list):
        names["source_ids"] = [ids.get(s, s) for s in sources]
    return {**columns, **names}


def _read_id(value: Any) -> UUID:
    try:
        return UUID(value)
    except (AttributeError, ValueError):
        # Refused like every other field that cannot be read.
        raise TypeError("id") from None


FORMAT = 1
PAGE = 100
PART_BYTES = 1 << 20
"""Most bytes of an original file in one line."""


class TenantExport:
    """Exports tenants of any size in constant memory.

    The first line is the tenant with its settings. Then come assets, each followed by its bytes in parts, entries and
    chunks, saved searches, feedback, and sources with their items. The last line marks the end; without it the export
    is truncated. Each line has the key `kind` and the columns of its table.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lines(
        self, tenant_id: UUID, *, with_vectors: bool = False, actor: str = "service"
    ) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield the kind and text of each line in order. Raises TenantNotFound, DatabaseUnavailable.

        One transaction reads everything: the entries as they were at its start, and all assets of their chunks.
        """
        async with self._database.tenant_session(tenant_id, setup=db.EXPORTING) as session:
            tenant = await own_tenant(session)
            if tenant is None:
                raise TenantNotFound("the tenant does not exist")
            detail = {"with_vectors": with_vectors}
            await audit.write_audit(session, actor, "tenant.export", [], detail)
            header = {
                "kind": "tenant",
                "format": FORMAT,
                "slug": tenant.slug,
                "name": tenant.name,
                "settings": tenant.settings,
                "model": {"provider": tenant.provider, "name": tenant.model, "dimensions": tenant.dimensions},
                "vectors": with_vectors,
            }
            yield "tenant", orjson.dumps(header) + b"\n"
            # Opened before the assets are read, so that these include the assets of all its chunks.
            entries = db.stream_entries(session, tenant.model_id, PAGE, with_vectors=with_vectors)
            page: Sequence[str] | None = await anext(entries, None)
            async for asset in db.stream_assets(session):
                yield "asset", _line("asset", asset.line)
                for start in range(0, asset.byte_size, PART_BYTES):
                    part = await db.fetch_original_part(session, asset.id, start, PART_BYTES)
                    line = {"kind": "original", "asset_id": asset.id, "start": start, "data": part}
                    yield "original", orjson.dumps(line) + b"\n"
            while page is not None:
                for text in page:
                    yield "entry", _line("entry", text)
                page = await anext(entries, None)
            for kind, (table, _) in RECORDS.items():
                async for texts in db.stream_records(session, table, PAGE):
                    for text in texts:
                        yield kind, _line(kind, text)
            yield "end", orjson.dumps({"kind": "end"}) + b"\n"


def _line(kind: str, text: str) -> bytes:
    """Put the kind in front of an object's JSON from Postgres without parsing it."""
    return f'{{"kind":"{kind}",{text[1:]}\n'.encode()


@dataclass(slots=True)
class _Original:
    """An asset whose bytes are still being read."""

    number: int
    asset: ExportedAsset
    data: bytearray


BATCH = 200
BATCH_BYTES = 4 << 20
RESTORING = timedelta(minutes=10)


def read_header(first_line: bytes) -> Mapping[str, Any] | None:
    """Parse the first line of an export; return None if it is something else."""
    given = read_object(first_line.removeprefix(codecs.BOM_UTF8))
    return given if given is not None and given.get("kind") == "tenant" else None


@dataclass(eq=False)
class TenantRestoration:
    """Restores one export into one tenant, in constant memory except for a map of ids that differ in this tenant.

    A restoration can be interrupted and started again: rows that match their lines stay unchanged. Each step writes its
    changes to the audit trail in its own transaction.
    """

    database: Database
    tenants: TenantDirectory
    jobs: JobQueue
    tenant_id: UUID
    actor: str

    def __post_init__(self) -> None:
        self._with_vectors = False
        self._tenant: TenantContext | None = None
        self._renamed: dict[str, str] = {}
        self.outcome = Restored()
        self._original: _Original | None = None
        self.has_references = False

    async def write(self, header: Mapping[str, Any], lines: Iterable[TextLine], report: Progress) -> None:
        """Write the settings, then all lines after the header. Raises InvalidInput, DatabaseUnavailable."""
        if header.get("format") != FORMAT:
            raise InvalidInput.of("FILE", "comes from another version of the service")
        settings = header.get("settings")
        await self.tenants.restore_settings(
            self.tenant_id, settings if isinstance(settings, dict) else {}, actor=self.actor
        )
        self._tenant = tenant = await self.tenants.context(self.tenant_id)
        model = {"provider": tenant.model.provider, "name": tenant.model.name}
        self._with_vectors = header.get("model") == {**model, "dimensions": tenant.model.dimensions}
        batch: list[tuple[int, ExportedEntry]] = []
        size = 0
        kind: object = None
        for line in lines:
            number = self.outcome.lines = line.number
            given = read_object(line.text)
            kind = given.get("kind") if given is not None else None
            if given is not None and kind == "entry":
                try:
                    batch.append((number, read_entry(given, with_vectors=self._with_vectors)))
                except REFUSALS as error:
                    self.outcome.fail(number, describe_refusal(error))
                size += len(line.text)
                if len(batch) == BATCH or size > BATCH_BYTES:
                    await self._write_entries(batch)
                    batch, size = [], 0
                    report(number)
                continue
            await self._write_entries(batch)
            batch, size = [], 0
            if line.error is not None:
                self.outcome.fail(number, line.error)
            elif given is None or kind not in {"asset", "original", "end", *RECORDS}:
                self.outcome.fail(number, "is not a line of an export")
            elif kind == "asset":
                await self._begin_asset(number, given)
            elif kind == "original":
                await self._add_part(number, given)
            elif kind != "end":
                await self._write_record(number, str(kind), given)
            report(number)
        await self._write_entries(batch)
        await self._give_up()
        if kind != "end":
            self.outcome.fail(self.outcome.lines, "the export is truncated; its complete part was imported")
        self.jobs.wake()
        report(self.outcome.lines)

    async def finish(self) -> None:
        """Write the final counts to the audit trail, once everything is written and linked; analyse the tables."""
        async with self.database.tenant_session(self.tenant_id) as session:
            await self._note(session, "end", [], self.outcome.counts())
        await PlannerStatistics(self.database).refresh()

    async def link(self, lines: Iterable[TextLine], report: Progress) -> None:
        """Set the references between entries, once all are written. Reads the same lines again."""
        batch: list[Mapping[str, Any]] = []
        for line in lines:
            given = read_object(line.text) if b'"kind":"entry"' in line.text[:20] else None
            if given is None:
                continue
            with contextlib.suppress(*REFUSALS):  # it was reported when it was refused
                entry = read_entry(given, with_vectors=False)
                if entry.refers:
                    batch.append(rename(entry.links, self._renamed))
            if len(batch) == BATCH:
                await self._link(batch)
                batch = []
                report(line.number)
        await self._link(batch)
        report(self.outcome.lines)

    async def _link(self, batch: list[Mapping[str, Any]]) -> None:
        async with self.database.tenant_session(self.tenant_id, background=RESTORING) as session:
            linked, dropped = await db.link_entries(session, orjson.dumps(batch).decode())
            await self._note(session, "links", linked, {"entries": len(linked)})
        self.outcome.dropped_references += dropped

    async def _begin_asset(self, number: int, given: Mapping[str, Any]) -> None:
        """Process the line of an asset. Raises DatabaseUnavailable, as the other methods do."""
        await self._give_up()
        try:
            asset = read_asset(given)
            async with self.database.tenant_session(self.tenant_id) as session:
                found = await db.find_asset(session, orjson.dumps(asset.columns).decode())
        except REFUSALS as error:
            self.outcome.fail(number, describe_refusal(error))
            return
        if found is not None and found[0] != asset.id:
            self._renamed[str(asset.id)] = str(found[0])
            asset = asset.found_as(found[0])
        if found is None or not found[1]:
            self._original = _Original(number, asset, bytearray())
            await self._finish()

    async def _add_part(self, number: int, given: Mapping[str, Any]) -> None:
        """Process a line with some of the asset's bytes."""
        original = self._original
        if original is None:
            return  # the asset is unchanged or was refused
        try:
            start, data = read_part(given)
            if start != len(original.data):
                raise ValueError("a part of the file is missing")
            original.data += data
        except (KeyError, TypeError, ValueError) as error:
            self._original = None
            self.outcome.fail(number, describe_refusal(error))
            return
        await self._finish()

    async def _finish(self) -> None:
        """Write the asset if all of its bytes have been read."""
        original = self._original
        if original is None or len(original.data) < original.asset.byte_size:
            return
        self._original = None
        asset = original.asset
        data = bytes(original.data)
        if asset.sha256 != "\\x" + hashlib.sha256(data).hexdigest():
            self.outcome.fail(original.number, "the bytes differ from the exported ones")
            return
        try:
            async with self.database.tenant_session(self.tenant_id, background=RESTORING) as session:
                await queue.cancel_jobs(session, "ingest_asset", str(asset.id))
                await db.put_asset(session, orjson.dumps(asset.columns).decode(), data)
                await db.drop_chunks(session, asset.id)
                if asset.unfinished:
                    await self.jobs.enqueue(session, "ingest_asset", str(asset.id))
                detail = {"part": "asset", "bytes": len(data)}
                await audit.write_audit(session, self.actor, "tenant.import", [asset.id], detail)
        except REFUSALS as error:
            self.outcome.fail(original.number, describe_refusal(error))
            return
        self.outcome.assets += 1

    async def _give_up(self) -> None:
        """Record a failure if the current asset is incomplete: no more bytes will follow."""
        if self._original is not None:
            self.outcome.fail(self._original.number, "the file's bytes are missing")
            self._original = None

    async def _write_entries(self, batch: list[tuple[int, ExportedEntry]]) -> None:
        """Write a batch; if a line in it is refused, write the lines one by one."""
        # The last of several lines with the same id counts, as if they were written one by one.
        latest = {entry.id: (number, entry) for number, entry in batch}
        if not latest:
            return
        batch = list(latest.values())
        try:
            await self._write_batch([entry for _, entry in batch])
        except REFUSALS as error:
            if len(batch) == 1:
                self.outcome.fail(batch[0][0], describe_refusal(error))
                return
            for line in batch:
                await self._write_entries([line])

    async def _write_batch(self, entries: Sequence[ExportedEntry]) -> None:
        self.has_references = self.has_references or any(entry.refers for entry in entries)
        assert self._tenant is not None
        policy = self._tenant.settings.suspicious_content
        given = await asyncio.to_thread(flag_lines, [entry.renamed(self._renamed) for entry in entries], policy)
        async with self.database.tenant_session(self.tenant_id, background=RESTORING) as session:
            present = await db.find_entries(session, _dump(given))
            renamed = {str(id): str(here) for id, here in present.items() if here != id}
            given = [entry.found_as(present.get(entry.id)) for entry in given]
            known = set(present.values())
            old = [entry for entry in given if entry.id in known]
            new = [entry for entry in given if entry.id not in known]
            changed = await db.update_entries(session, _dump(old)) if old else {}
            if texts := [i for i, text_changed in changed.items() if text_changed]:
                await vectors.drop_vectors(session, texts)
            if new:
                await db.insert_entries(session, _dump(new))
            await apply_policy(session, [entry.id for entry in given if entry.is_to_judge], policy)
            accesses = {entry.id: entry.accesses for entry in given if entry.accesses}
            counted = await db.set_accesses(session, accesses) if accesses else ()
            await self._write_vectors(session, given)
            added = [entry.id for entry in new]
            counts = {"created": len(added), "updated": len(changed)}
            await self._note(session, "entries", list(dict.fromkeys([*added, *changed, *counted])), counts)
        self._renamed.update(renamed)
        self.outcome.created += len(new)
        self.outcome.updated += len(changed)
        self.outcome.unchanged += len(old) - len(changed)

    async def _write_vectors(self, session: TenantSession, given: Sequence[ExportedEntry]) -> None:
        assert self._tenant is not None
        stored = [
            PassageVector(entry_id=entry.id, text_hash=text_hash(entry.title, entry.content), **found)
            for entry in given
            for found in entry.vectors
        ]
        if stored:
            await vectors.store_vectors(session, self._tenant.space.model_id, stored)
        if await db.mark_lacking(session, [entry.id for entry in given]):
            await self.jobs.enqueue(session, "embed_entries", "entries")

    async def _write_record(self, number: int, kind: str, given: Mapping[str, Any]) -> None:
        try:
            columns, ids = read_record(kind, given, self._renamed)
            async with self.database.tenant_session(self.tenant_id) as session:
                if await db.put_record(session, kind, orjson.dumps(columns).decode()):
                    await self._note(session, kind, ids, {})
        except REFUSALS as error:
            self.outcome.fail(number, describe_refusal(error))

    async def _note(self, session: TenantSession, part: str, ids: Sequence[UUID], detail: Mapping[str, Any]) -> None:
        """Write one step to the audit trail. A step that changed nothing is omitted, except the last, and so are the
        items of a source, which follow its own row."""
        if ids or part in ("end", "source"):
            await audit.write_audit(session, self.actor, "tenant.import", ids, {"part": part, **detail})


def _dump(entries: Sequence[ExportedEntry]) -> str:
    return orjson.dumps([entry.columns for entry in entries]).decode()

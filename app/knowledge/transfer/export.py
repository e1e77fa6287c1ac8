"""Export a whole tenant as JSON lines, and check the lines when they are read."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import orjson
from pgvector import HalfVector

from app.contract.text import MARKS_RULE, has_excess_marks, load_json
from app.contract.vocabulary import SuspiciousContent
from app.db.database import Database
from app.db.queries import audit
from app.db.queries import transfer as db
from app.db.queries.tenants import own_tenant
from app.errors import TenantNotFound
from app.knowledge.quarantine import flags_of, screen_fields, with_flags
from app.knowledge.transfer.records import REFERENCES

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
        given = load_json(raw)
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

"""Entries from a JSON Lines file, written in batches; references follow once all entries have their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from app.cli.execution import ACTOR
from app.composition.services import Services
from app.errors import EntryNotFound
from app.knowledge.transfer.outcome import Outcome

BATCH = 500
REFERENCES = ("parent_id", "source_ids", "superseded_by_id")

Report = Callable[[int], None]


@dataclass(slots=True)
class Imported(Outcome):
    """What became of the lines of a file of entries."""

    COUNTED = ("created", "updated", "unchanged", "skipped_empty", "failed", "dropped_references")

    skipped_empty: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of a file: its place, the id it had where it came from, and its fields without references."""

    number: int
    old_id: str | None
    values: Mapping[str, Any]
    references: Mapping[str, list[str]]


class EntryImport:
    """Imports one file into one tenant, reading it once for the entries and once more for what refers to what."""

    def __init__(self, services: Services, tenant_id: UUID) -> None:
        self._services = services
        self._tenant_id = tenant_id
        self._ids: dict[str, UUID] = {}
        self._refused: set[int] = set()
        self._known: dict[str, bool] = {}
        self.outcome = Imported()
        self.has_references = False

    async def write_entries(self, file: Path, report: Report) -> None:
        """Write every entry without its references. Raises DatabaseUnavailable."""
        batch: list[Line] = []
        for number, raw in read_lines(file):
            self.outcome.lines = number
            try:
                line = parse_line(number, raw)
            except ValueError as error:
                self._refused.add(number)
                self.outcome.fail(number, str(error))
                continue
            if line is None:
                self.outcome.skipped_empty += 1
                continue
            self.has_references = self.has_references or bool(line.references)
            batch.append(line)
            if len(batch) == BATCH:
                await self._write(batch)
                batch = []
                report(number)
        await self._write(batch)
        report(self.outcome.lines)

    async def write_references(self, file: Path, report: Report) -> None:
        """Give entries their parents, sources and successors, under the ids that these have here."""
        batch: list[tuple[Line, dict[str, Any]]] = []
        for number, raw in read_lines(file):
            if number in self._refused:
                continue
            line = parse_line(number, raw)
            if line is None or not line.references:
                continue
            batch.append((line, {**line.values, **await self._translate(line)}))
            if len(batch) == BATCH:
                await self._relate(batch)
                batch = []
                report(number)
        await self._relate(batch)
        report(self.outcome.lines)

    async def _write(self, batch: list[Line]) -> None:
        if not batch:
            return
        results = await self._services.entries.create_many(
            self._tenant_id, [line.values for line in batch], actor=ACTOR
        )
        for line, result in zip(batch, results, strict=True):
            match result.status:
                case "created":
                    self.outcome.created += 1
                case "updated":
                    self.outcome.updated += 1
                case "unchanged":
                    self.outcome.unchanged += 1
                case _:
                    self._refused.add(line.number)
                    self.outcome.fail(line.number, result.error or "refused")
            if result.id is not None and line.old_id is not None:
                self._ids[line.old_id] = result.id

    async def _relate(self, batch: list[tuple[Line, dict[str, Any]]]) -> None:
        if not batch:
            return
        results = await self._services.entries.create_many(
            self._tenant_id, [values for _, values in batch], actor=ACTOR
        )
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
        """The id here: of the entry that came from the same file, else of one that the tenant has."""
        if old in self._ids:
            return self._ids[old]
        if old not in self._known:
            try:
                await self._services.entries.get(self._tenant_id, UUID(old))
                self._known[old] = True
            except (EntryNotFound, ValueError):
                self._known[old] = False
        return UUID(old) if self._known[old] else None


def parse_line(number: int, raw: bytes) -> Line | None:
    """An entry, or None for one without text. Raises ValueError with a reason that a person understands."""
    try:
        given = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise ValueError("is not JSON") from None
    if not isinstance(given, dict):
        raise ValueError("is not a JSON object")
    if "_id" in given:
        given = _from_beir(given)
    content = given.get("content")
    if content is None or (isinstance(content, str) and not content.strip()):
        return None
    values = {name: value for name, value in given.items() if name not in ("id", *REFERENCES)}
    if isinstance(expires := values.get("expires_at"), str):
        try:
            values["expires_at"] = datetime.fromisoformat(expires)
        except ValueError:
            raise ValueError("expires_at: must be a date and time with a time zone") from None
    references: dict[str, list[str]] = {}
    for name in REFERENCES:
        value = given.get(name)
        listed = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(item, str) for item in listed):
            raise ValueError(f"{name}: must hold ids")
        if listed:
            references[name] = [item.lower() for item in listed]
    old_id = given.get("id")
    return Line(number, old_id.lower() if isinstance(old_id, str) else None, values, references)


def _from_beir(given: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {"external_id": str(given["_id"]), "content": given.get("text")}
    if isinstance(title := given.get("title"), str) and title.strip():
        values["title"] = title
    if isinstance(metadata := given.get("metadata"), dict) and metadata:
        values["metadata"] = metadata
    return values


def count_lines(file: Path) -> int:
    """Lines of a file, read in pieces."""
    with file.open("rb") as stream:
        return sum(piece.count(b"\n") for piece in iter(lambda: stream.read(1 << 20), b""))


def read_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1."""
    with file.open("rb") as stream:
        for number, raw in enumerate(stream, 1):
            if raw.strip():
                yield number, raw

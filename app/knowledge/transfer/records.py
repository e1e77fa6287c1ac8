"""Read the records of a file one after another: JSON Lines, a JSON array, YAML, or CSV; and count their outcomes."""

import binascii
import codecs
import csv
import io
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import asyncpg
import yaml

from app.contract.entries import EntryDraft
from app.contract.text import load_json
from app.contract.validation import validate
from app.documents.parsed import ParseLimits
from app.errors import InvalidInput

MAX_RECORD = 4 << 20
"""Most characters of one record, of lines bytes, so that a file of any size is read in bounded memory."""
MAX_EXPORTED = 2 * MAX_RECORD
"""Most bytes of a line of an export: an entry with its vectors, and with numbers that the database writes out."""
MAX_ASSET = 4 * ParseLimits().max_characters + MAX_RECORD
"""Most bytes of such a line of an asset, which has all of its text."""
ASSET = b'{"kind":"asset",'
TOO_LONG = "is longer than {:,} bytes"
PIECE = 1 << 16
"""Bytes or characters that are read at once."""
MOST_NAMES, MOST_NAME = 10, 40
"""Most fields in an error, and most characters of each."""
ENTRIES = "entries"
"""The field of a file that has its entries in a list."""
BEGINS_ENTRIES = re.compile(rb'\{\s*"entries"\s*:')
REFERENCES = ("parent_id", "source_ids", "superseded_by_id")
"""Fields of an entry that have ids of other entries."""


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of a file: its line number, its id in the file, its other fields, and its references."""

    number: int
    old_id: str | None
    draft: EntryDraft
    references: Mapping[str, list[str]]


def parse_record(number: int, given: Any) -> Line | None:
    """Parse an entry; return None for one whose text is empty. The message of the ValueError is shown to the user."""
    if not isinstance(given, dict):
        raise ValueError("is not an object with fields")
    text = "content"
    if "_id" in given and "content" not in given:
        text = "text"
    if text not in given:
        raise ValueError(f"has no field {text}; its fields are: {_list_names(given)}")
    if text == "text":
        given = _from_beir(given)
    content = given["content"]
    if content is None or (isinstance(content, str) and not content.strip()):
        return None
    values = {name: value for name, value in given.items() if name not in ("id", *REFERENCES)}
    old_id = given.get("id")
    if isinstance(old_id, str):
        values.setdefault("external_id", old_id)
    references: dict[str, list[str]] = {}
    for name in REFERENCES:
        value = given.get(name)
        listed = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(item, str) for item in listed):
            raise ValueError(f"{name}: must hold ids")
        if listed:
            references[name] = [item.lower() for item in listed]
    try:
        draft = validate(EntryDraft, values)
    except InvalidInput as error:
        raise ValueError(str(error)) from None
    return Line(number, old_id.lower() if isinstance(old_id, str) else None, draft, references)


def _list_names(given: Mapping[Any, Any]) -> str:
    # A lone surrogate cannot be written anywhere.
    names = sorted(str(name)[:MOST_NAME].encode(errors="backslashreplace").decode() for name in given)
    return ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "") or "none"


def _from_beir(given: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {"external_id": str(given["_id"]), "content": given.get("text")}
    if isinstance(title := given.get("title"), str) and title.strip():
        values["title"] = title
    if isinstance(metadata := given.get("metadata"), dict) and metadata:
        values["metadata"] = metadata
    return values


def count_lines(file: Path) -> int:
    """Count the lines of a file in constant memory; the last one may have no end."""
    count, last = 0, b"\n"
    with file.open("rb") as stream:
        while piece := stream.read(1 << 20):
            count, last = count + piece.count(b"\n"), piece[-1:]
    return count + (last != b"\n")


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of a file, counted from 1: its text, or the reason why it was not read."""

    number: int
    text: bytes = b""
    error: str | None = None


def read_lines(file: Path, *, exported: bool = False) -> Iterator[TextLine]:
    """Yield the lines that are not blank; of a line over its limit only the error. `exported`: it is an export."""
    with file.open("rb") as stream:
        for number in itertools.count(1):
            most = MAX_EXPORTED if exported else MAX_RECORD
            raw = stream.readline(most + len(b"\r\n"))
            if not raw:
                return
            if exported and raw.startswith(ASSET) and not raw.endswith(b"\n"):
                most = MAX_ASSET
                raw += stream.readline(most + len(b"\r\n") - len(raw))
            text = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            if len(raw.rstrip(b"\r\n")) > most:
                yield TextLine(number, error=TOO_LONG.format(most))
                while raw and not raw.endswith(b"\n"):
                    raw = stream.readline(PIECE)
            elif text.strip():
                yield TextLine(number, text)


HEAD = 1 << 12
"""Bytes by which an array is recognised."""
MOST_VALUES = 100_000
"""Values of an item of YAML: each takes half a KiB while it is read."""
SPACE = re.compile(r"\s*")
SUFFIXES = {".yaml": "YAML", ".yml": "YAML", ".csv": "CSV", ".tsv": "CSV"}
LISTS = frozenset({"tags", "roles", "source_ids", "readers", "writers"})
"""Fields whose cell in CSV has values separated by commas; a group with a comma in its name needs another format."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a file has at a line, counted from 1: a value, or the reason why it cannot be read."""

    line: int
    value: Any = None
    error: str | None = None


def read_records(file: Path) -> Iterator[Record]:
    """Yield the records of a file in order. After a record with broken JSON Lines the next ones follow; a broken array,
    YAML or CSV file ends with its error."""
    kind = SUFFIXES.get(file.suffix.lower())
    if kind is None:
        kind = "lines" if file.suffix.lower() == ".jsonl" else _find_kind(file)
    readers: Mapping[str, Callable[[Path], Iterator[Record]]] = {
        "YAML": _read_yaml,
        "CSV": _read_csv,
        "array": _read_array,
        "lines": _read_lines,
    }
    return readers[kind](file)


def _find_kind(file: Path) -> str:
    with file.open("rb") as stream:
        head = stream.read(HEAD).removeprefix(codecs.BOM_UTF8).lstrip()
    if head[:1] == b"[":
        return "array"
    return "YAML" if BEGINS_ENTRIES.match(head) else "lines"  # JSON is YAML, too


def _read_lines(file: Path) -> Iterator[Record]:
    for line in read_lines(file):
        if line.error is not None:
            yield Record(line.number, error=line.error)
            continue
        try:
            yield Record(line.number, load_json(line.text))
        except ValueError:
            yield Record(line.number, error="is not JSON")


def _read_array(file: Path) -> Iterator[Record]:
    """Decode the elements of an array one by one; only some of them are in memory."""
    decoder = json.JSONDecoder()
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        text, at, line, ended, expected = "", 0, 1, False, "["
        while True:
            start = SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches anywhere
            line += text.count("\n", at, start)
            at = start
            sign = text[at : at + 1]
            if sign == "]" and expected in ("first", ","):
                if text[at + 1 :].strip() or stream.read(PIECE).strip():
                    yield Record(line, error="has text after the end of the array")
                return
            if sign and expected in ("first", "value"):
                try:
                    value, end = decoder.raw_decode(text, at)
                    # A number at the end of what was read may continue.
                    if end < len(text) or ended:
                        yield Record(line, value)
                        line += text.count("\n", at, end)
                        at, expected = end, ","
                        continue
                except (json.JSONDecodeError, RecursionError):
                    if ended or len(text) - at > MAX_RECORD:
                        yield Record(line, error="is not JSON, or longer than a record may be")
                        return
            elif sign and sign == expected:
                at, expected = at + 1, "first" if expected == "[" else "value"
                continue
            elif sign:
                yield Record(line, error="is not JSON: a comma or the end of the array is expected")
                return
            elif ended:
                yield Record(line, error="the array has no end; the records before were read")
                return
            more = stream.read(max(PIECE, len(text) - at))
            text, at, ended = text[at:] + more, 0, not more


_SafeLoader: Any = yaml.SafeLoader  # its types lack the methods that read one item


class _Loader(_SafeLoader):  # type: ignore[misc]  # for the same reason
    """Reads one item after another, keeps dates as texts, and refuses aliases, which can expand without a bound."""

    def __init__(self, stream: io.TextIOBase) -> None:
        self._file = stream
        self._line = self._taken = self._values = 0
        self._put_back: Any = None
        super().__init__(self)

    def get_event(self) -> Any:
        """The next event; the one that was put back comes first."""
        event, self._put_back = self._put_back, None
        return event or super().get_event()

    def peek_event(self) -> Any:
        """The next event, which stays."""
        return self._put_back or super().peek_event()

    def check_event(self, *kinds: Any) -> bool:
        """Whether the next event is one of these kinds."""
        return isinstance(self.peek_event(), kinds)

    def enter_list(self) -> int:
        """Pass the beginning of a list, also of one that an object has as its first field `entries`.

        Returns how many collections were entered: 0 for another document.
        """
        if self.check_event(yaml.SequenceStartEvent):
            self.get_event()
            return 1
        if self.check_event(yaml.MappingStartEvent):
            start = self.get_event()
            if getattr(super().peek_event(), "value", None) == ENTRIES:
                self.get_event()
                if self.check_event(yaml.SequenceStartEvent):
                    self.get_event()
                    return 2
                raise self._refuse("entries must be a list")
            self._put_back = start
        return 0

    def begin_item(self) -> int:
        """Read the next item, which has bounds of its own; returns its line, from 1."""
        self._taken = self._values = 0
        self._line = self.peek_event().start_mark.line
        return int(self._line) + 1

    def read(self, size: int) -> str:
        """Read more of the file, as its own stream: no item is in memory beyond MAX_RECORD characters."""
        piece = self._file.read(size)
        self._taken += len(piece)
        if self._taken > MAX_RECORD:
            raise self._refuse(f"an item is longer than {MAX_RECORD:,} characters")
        return piece

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            self._line = self.peek_event().start_mark.line
            raise self._refuse("aliases are not supported")
        self._values += 1
        if self._values > MOST_VALUES:
            raise self._refuse(f"an item has more than {MOST_VALUES:,} values")
        return super().compose_node(parent, index)

    def _refuse(self, problem: str) -> yaml.MarkedYAMLError:
        mark = yaml.Mark("", 0, self._line, 0, None, 0)
        return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _read_yaml(file: Path) -> Iterator[Record]:
    """Read the items of a list, also of one in a field `entries`, or each other document that is not empty."""
    with file.open(encoding="utf-8-sig", errors="replace") as stream:
        try:
            loader: Any = _Loader(stream)
            loader.get_event()
            while not loader.check_event(yaml.StreamEndEvent):
                loader.get_event()
                listed = loader.enter_list()
                while not loader.check_event(yaml.SequenceEndEvent, yaml.DocumentEndEvent):
                    line = loader.begin_item()
                    node = loader.compose_node(None, None)
                    loader.anchors.clear()
                    value = loader.construct_document(node)
                    if listed or value is not None:  # a document without content has no record
                        yield Record(line, value)
                for _ in range(listed):
                    end = loader.get_event()
                    if not isinstance(end, yaml.CollectionEndEvent):
                        raise ValueError
                loader.get_event()
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or "cannot be read"
            yield Record(mark.line + 1 if mark else 1, error=f"is not YAML: {problem}")


def _read_csv(file: Path) -> Iterator[Record]:
    """Read a row for each record, with the names of the first row; empty cells are omitted."""
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        head = stream.readline(PIECE)
        delimiter = "\t" if "\t" in head else max(",;", key=head.count)
        limit = csv.field_size_limit(MAX_RECORD)
        try:
            rows = csv.reader(_bounded(stream, head), delimiter=delimiter, strict=True)
            names = [name.strip() for name in next(rows, [])]
            if twice := sorted({name for name in names if name and names.count(name) > 1}):
                yield Record(1, error=f"has a column twice: {', '.join(twice)}")
                return
            before = rows.line_num
            for row in rows:
                line, before = before + 1, rows.line_num
                if len(row) > len(names):
                    yield Record(line, error=f"has {len(row)} cells under {len(names)} names")
                elif any(cell.strip() for cell in row):
                    cells = zip(names, row, strict=False)
                    yield Record(line, {n: _read_cell(n, cell) for n, cell in cells if cell.strip() or n == "content"})
        except csv.Error as error:
            yield Record(rows.line_num, error=f"is not CSV: {error}")
        finally:
            csv.field_size_limit(limit)


def _bounded(stream: io.TextIOBase, head: str) -> Iterator[str]:
    yield head
    while line := stream.readline(MAX_RECORD):
        yield line


def _read_cell(name: str, cell: str) -> Any:
    """The value of a cell: lists are separated by commas, metadata is JSON, confidence is a number."""
    text = cell.strip()
    try:
        if name in LISTS:
            return json.loads(text) if text.startswith("[") else [p.strip() for p in text.split(",") if p.strip()]
        if name == "metadata":
            return json.loads(text)
        if name == "confidence":
            return float(text)
    except ValueError:
        return cell
    if name == "is_verified":
        return {"true": True, "false": False}.get(text.lower(), cell)
    return cell


Progress = Callable[[int], None]
"""Called with the number of lines processed so far."""

MOST_FAILURES = 10
MOST_REASONS = 50
OTHER_REASONS = "other reasons"
REFUSALS = (
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.DataError,
    ValueError,
    KeyError,
    TypeError,
)
"""Exceptions that are caused by the content of a line. A policy refuses the item of an asset that does not exist."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A refused line, counted from 1, and the reason."""

    line: int
    error: str


@dataclass(slots=True)
class ImportOutcome:
    """Counts for the lines of a file.

    `failures` has the first MOST_FAILURES refused lines, `reasons` the number of refused lines by reason.
    """

    COUNTED: ClassVar[tuple[str, ...]]

    lines: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    dropped_references: int = 0
    failed: int = 0
    failures: list[Failure] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def counts(self) -> dict[str, int]:
        """The counts to report."""
        return {name: getattr(self, name) for name in self.COUNTED}

    def fail(self, line: int, reason: str) -> None:
        """Record a refused line."""
        self.failed += 1
        known = reason in self.reasons or len(self.reasons) < MOST_REASONS
        self.reasons[reason if known else OTHER_REASONS] += 1
        if len(self.failures) < MOST_FAILURES:
            self.failures.append(Failure(line, reason))


@dataclass(slots=True)
class Restored(ImportOutcome):
    """The outcome of a restoration; `created`, `updated` and `unchanged` count entries."""

    COUNTED = ("created", "updated", "unchanged", "assets", "failed", "dropped_references")

    assets: int = 0


def describe_refusal(error: Exception) -> str:
    """The reason why a line was refused, without any of its content."""
    match error:
        case asyncpg.ForeignKeyViolationError() | asyncpg.InsufficientPrivilegeError():
            return "refers to something that does not exist in this tenant"
        case asyncpg.UniqueViolationError():
            return "has the identity of another entry or asset"
        case asyncpg.CheckViolationError() | asyncpg.NotNullViolationError():
            return f"breaks a rule of the table: {error.constraint_name or error.column_name}"
        case binascii.Error() | asyncpg.DataError() | KeyError() | TypeError():
            return "has a field that cannot be read"
        case _:
            return str(error)

"""Write and read the answer of the confined process: JSON, positions, heading titles, and text.

A parser that is broken into can write any answer, so the service checks all of it.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import get_args

from app.documents.parsed import (
    MAIL,
    HeadingSpan,
    HiddenReason,
    HiddenSpan,
    PageSpan,
    ParsedDocument,
    ParseLimits,
    PartSpan,
    RecognisedSpan,
    TableSpan,
)
from app.documents.readers.builder import MAX_PLACES, MAX_TITLE, MAX_TITLES
from app.documents.readers.encodings import find_codec

_BYTES_PER_CHARACTER = 4
_COLUMN = "I"
_MAX_PARTS = 10_000
_COLUMNS: dict[str, tuple[int, Callable[[ParseLimits], int]]] = {
    "headings": (3, lambda limits: limits.max_headings),
    "pages": (3, lambda limits: limits.max_pages),
    "parts": (3, lambda limits: _MAX_PARTS),
    "tables": (3, lambda limits: limits.max_tables),
    "hidden": (3, lambda limits: limits.max_hidden),
    "pages_without_text": (1, lambda limits: limits.max_pages),
    "places_without_text": (1, lambda limits: MAX_PLACES),
    "recognised": (2, lambda limits: limits.ocr_pages),
}
"""The numbers of each row, and the most rows. Start, level and length of title of each heading; number, start and end
of each page; start, end and format of each part; start, end of the header and end of each table; start, end and reason
of each hidden span; numbers of pages; places; start and end of each recognised span."""
MAX_LINE = 64 << 10
_MAX_LEVEL = 1_000
_REASONS: tuple[HiddenReason, ...] = get_args(HiddenReason)


class Malformed(Exception):
    """The answer does not have the form that the confined process writes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A document, or one reason why there is none.

    Attributes:
        refusal: for the uploader.
        exhausted: the resource that ran out.
        failure: the type of an unexpected error.
        transient: whether the file did not cause the failure, so that another run may succeed.
        missing: the protections that the system lacks.
    """

    document: ParsedDocument | None = None
    refusal: str | None = None
    exhausted: str | None = None
    failure: str | None = None
    transient: bool = False
    missing: tuple[str, ...] = ()


def max_answer_bytes(limits: ParseLimits) -> int:
    """The size of the longest answer within these limits."""
    places = sum(width * most(limits) for width, most in _COLUMNS.values())
    characters = limits.max_characters + MAX_TITLES
    return MAX_LINE + array(_COLUMN).itemsize * places + _BYTES_PER_CHARACTER * characters


def write_answer(answer: Answer) -> list[bytes]:
    """The pieces of an answer in order."""
    document = answer.document
    line: dict[str, object] = {
        "refusal": answer.refusal,
        "exhausted": answer.exhausted,
        "failure": answer.failure,
        "transient": answer.transient,
        "missing": answer.missing,
    }
    if document is None:
        return [json.dumps(line).encode() + b"\n"]
    formats = sorted({part.format for part in document.parts})
    columns = {
        "headings": _flatten((item.start, item.level, len(item.title)) for item in document.headings),
        "pages": _flatten((page.number, page.start, page.end) for page in document.pages),
        "parts": _flatten((part.start, part.end, formats.index(part.format)) for part in document.parts),
        "tables": _flatten((table.start, table.header_end, table.end) for table in document.tables),
        "hidden": _flatten((span.start, span.end, _REASONS.index(span.reason)) for span in document.hidden),
        "pages_without_text": array(_COLUMN, document.pages_without_text),
        "places_without_text": array(_COLUMN, document.places_without_text),
        "recognised": _flatten((span.start, span.end) for span in document.recognised),
    }
    titles = "".join(heading.title for heading in document.headings).encode()
    line |= {
        "format": document.format,
        "title": document.title,
        "total_pages": document.total_pages,
        "encoding": document.encoding,
        "encoding_guessed": document.encoding_guessed,
        "removed_controls": document.removed_controls,
        "mail": dict(document.mail),
        "formats": formats,
        "titles": len(titles),
        "counts": [len(columns[name]) // width for name, (width, _) in _COLUMNS.items()],
    }
    numbers = [columns[name].tobytes() for name in _COLUMNS]
    return [json.dumps(line).encode() + b"\n", *numbers, titles, document.text.encode()]


def read_answer(data: bytes | bytearray, limits: ParseLimits) -> Answer:
    """Read and check an answer. Takes a second for the longest: call it in a thread. Raises Malformed."""
    try:
        return _read(data, limits)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError) as error:
        raise Malformed(type(error).__name__) from error


def _read(data: bytes | bytearray, limits: ParseLimits) -> Answer:
    end = data.index(b"\n", 0, MAX_LINE)
    line = json.loads(data[:end])
    answer = Answer(
        refusal=_optional_text(line["refusal"]),
        exhausted=_optional_text(line["exhausted"]),
        failure=_optional_text(line["failure"]),
        transient=line["transient"] is True,
        missing=tuple(_text(name) for name in line["missing"]),
    )
    if "format" not in line:
        _require(any(reason is not None for reason in (answer.refusal, answer.exhausted, answer.failure)))
        return answer
    place = end + 1
    columns = {}
    for (name, (width, most)), count in zip(_COLUMNS.items(), map(_number, line["counts"]), strict=True):
        _require(count <= most(limits))
        columns[name] = array(_COLUMN)
        size = width * count * columns[name].itemsize
        columns[name].frombytes(data[place : place + size])
        place += size
        _require(len(columns[name]) == width * count)
    middle = place + _number(line["titles"])
    titles = data[place:middle].decode()
    text = data[middle:].decode()
    _require(0 < len(text) <= limits.max_characters and len(titles) <= MAX_TITLES)
    document = ParsedDocument(
        format=_text(line["format"]),
        text=text,
        pages=tuple(PageSpan(*page) for page in _rows(columns["pages"], 3)),
        headings=tuple(_read_headings(columns["headings"], titles)),
        title=_optional_text(line["title"]),
        total_pages=None if line["total_pages"] is None else _number(line["total_pages"]),
        parts=tuple(
            PartSpan(start, end, _text(line["formats"][kind])) for start, end, kind in _rows(columns["parts"], 3)
        ),
        tables=tuple(TableSpan(*table) for table in _rows(columns["tables"], 3)),
        hidden=tuple(HiddenSpan(start, end, _REASONS[reason]) for start, end, reason in _rows(columns["hidden"], 3)),
        pages_without_text=tuple(columns["pages_without_text"]),
        places_without_text=tuple(columns["places_without_text"]),
        recognised=tuple(RecognisedSpan(start, end) for start, end in _rows(columns["recognised"], 2)),
        encoding=_optional_text(line["encoding"]),
        encoding_guessed=line["encoding_guessed"] is True,
        removed_controls=_number(line["removed_controls"]),
        mail={_text(name): _text(text) for name, text in line["mail"].items() if name in MAIL},
    )
    _check_positions(document, limits)
    return Answer(document, missing=answer.missing)


def _read_headings(column: array[int], titles: str) -> Iterator[HeadingSpan]:
    first = 0
    for start, level, length in _rows(column, 3):
        _require(length <= MAX_TITLE and first + length <= len(titles))
        yield HeadingSpan(start, level, titles[first : first + length])
        first += length
    _require(first == len(titles))


def _check_positions(document: ParsedDocument, limits: ParseLimits) -> None:
    length = len(document.text)
    headings = document.headings
    _require(_ascend([heading.start for heading in headings], length))
    _require(all(0 < heading.level <= _MAX_LEVEL for heading in headings))
    for spans in (document.pages, document.parts, document.hidden, document.recognised):
        _require(_ascend([place for span in spans for place in (span.start, span.end)], length))
    tables = document.tables
    _require(_ascend([place for table in tables for place in (table.start, table.header_end, table.end)], length))
    _require(_ascend(document.pages_without_text, document.total_pages or 0))
    _require(_ascend(document.places_without_text, length))
    _require(all(page.number == index for index, page in enumerate(document.pages, 1)))
    _require(document.encoding is None or find_codec(document.encoding) is not None)
    _require((document.total_pages or 0) <= limits.max_pages and len(document.title or "") <= MAX_TITLE)


def _ascend(places: Sequence[int], end: int) -> bool:
    return list(places) == sorted(places) and (not places or places[-1] <= end)


def _flatten(rows: Iterator[tuple[int, ...]]) -> array[int]:
    return array(_COLUMN, chain.from_iterable(rows))


def _rows(column: array[int], width: int) -> Iterator[tuple[int, ...]]:
    return zip(*[iter(column)] * width, strict=True)


def _text(value: object) -> str:
    _require(isinstance(value, str))
    return str(value)


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


def _require(fact: bool) -> None:
    if not fact:
        raise ValueError

"""Write and read the answer of the confined process: a line of JSON, then the text.

A parser that is broken into can write any answer, so the service checks all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import orjson

from app.documents.parsed import MAIL, ParsedDocument, ParseLimits
from app.documents.readers.builder import MAX_PLACES, MAX_TITLE, MAX_TITLES
from app.documents.readers.encodings import find_codec

_BYTES_PER_CHARACTER = 4
_MAX_PARTS = 10_000
_ROWS: dict[str, tuple[Callable[[ParseLimits], int], int]] = {
    "headings": (lambda limits: limits.max_headings, 48),
    "pages": (lambda limits: limits.max_pages, 48),
    "parts": (lambda limits: _MAX_PARTS, 64),
    "tables": (lambda limits: limits.max_tables, 64),
    "hidden": (lambda limits: limits.max_hidden, 64),
    "pages_without_text": (lambda limits: limits.max_pages, 8),
    "places_without_text": (lambda limits: MAX_PLACES, 16),
    "recognised": (lambda limits: limits.ocr_pages, 48),
}
"""The most rows of each kind, and the bytes of the longest, without titles."""
MAX_REST = 64 << 10
"""Bytes of the rest of an answer, and of one without a document."""
_COMMAS = 4
"""The most of a row: a forged line of 100 MB could have 50 million values, and need 30 times as much memory."""
_MAX_LEVEL = 1_000


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
    rows = sum(most(limits) * size for most, size in _ROWS.values())
    return MAX_REST + rows + _BYTES_PER_CHARACTER * (limits.max_characters + MAX_TITLES)


def write_answer(answer: Answer) -> list[bytes]:
    """The pieces of an answer in order."""
    if answer.document is None:
        return [orjson.dumps(answer)]
    line = orjson.dumps(replace(answer, document=replace(answer.document, text="")))
    return [line, b"\n", answer.document.text.encode()]


@cache
def _load_type() -> Any:
    from pydantic import TypeAdapter  # the confined process does not load it

    return TypeAdapter(Answer)


def read_answer(data: bytes | bytearray, limits: ParseLimits) -> Answer:
    """Read and check an answer. Takes a second for the longest: call it in a thread. Raises Malformed."""
    try:
        end = data.find(b"\n") % (len(data) + 1)  # or there is no text
        rows = sum(most(limits) for most, _ in _ROWS.values())
        _require(data.count(b",", 0, end) <= _COMMAS * rows + MAX_TITLES + MAX_REST)
        answer: Answer = _load_type().validate_json(data[:end], strict=True)
        if answer.document is None:
            _require(any(fact is not None for fact in (answer.refusal, answer.exhausted, answer.failure)))
            _require(len(data) <= MAX_REST)
            return answer
        document = replace(answer.document, text=str(memoryview(data)[end + 1 :], "utf-8"))
        _check(document, limits)
    except ValueError as error:
        raise Malformed(type(error).__name__) from error
    return replace(answer, document=document)


def _check(document: ParsedDocument, limits: ParseLimits) -> None:
    length = len(document.text)
    headings, tables = document.headings, document.tables
    _require(0 < length <= limits.max_characters)
    _require(all(len(getattr(document, name)) <= most(limits) for name, (most, _) in _ROWS.items()))
    _require(_ascend([heading.start for heading in headings], length))
    _require(all(0 < heading.level <= _MAX_LEVEL and len(heading.title) <= MAX_TITLE for heading in headings))
    _require(sum(len(heading.title) for heading in headings) <= MAX_TITLES)
    for spans in (document.pages, document.parts, document.hidden, document.recognised):
        _require(_ascend([place for span in spans for place in (span.start, span.end)], length))
    _require(_ascend([place for table in tables for place in (table.start, table.header_end, table.end)], length))
    _require(_ascend(document.pages_without_text, document.total_pages or 0))
    _require(_ascend(document.places_without_text, length))
    _require(all(page.number == index for index, page in enumerate(document.pages, 1)))
    _require(document.encoding is None or find_codec(document.encoding) is not None)
    _require(0 <= (document.total_pages or 0) <= limits.max_pages and len(document.title or "") <= MAX_TITLE)
    _require(0 <= document.removed_controls < 1 << 31)
    named = (document.format, *(part.format for part in document.parts), *document.mail.values())
    _require(document.mail.keys() <= set(MAIL) and all(len(text) <= MAX_REST for text in named))


def _ascend(places: Sequence[int], end: int) -> bool:
    return list(places) == sorted(places) and (not places or (places[0] >= 0 and places[-1] <= end))


def _require(fact: bool) -> None:
    if not fact:
        raise ValueError

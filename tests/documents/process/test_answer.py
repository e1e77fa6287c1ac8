"""The answer of the confined process: what it carries, and that the service accepts no other."""

import errno
import io
import json
from collections.abc import Callable

import pytest

from app.documents.formats import find_format
from app.documents.parsed import HeadingSpan, HiddenSpan, PageSpan, ParsedDocument, ParseLimits, PartSpan, TableSpan
from app.documents.process import child
from app.documents.process.answer import Answer, Malformed, max_answer_bytes, read_answer, write_answer
from tests.documents.office import write_zip

LIMITS = ParseLimits()
DOCUMENT = ParsedDocument(
    "zip",
    "Ü heading\n\ntext",
    (PageSpan(1, 0, 9), PageSpan(2, 11, 11), PageSpan(3, 11, 15)),
    (HeadingSpan(0, 1, "Ü\nheading"), HeadingSpan(11, 2, "")),
    "Ein Titel",
    3,
    (PartSpan(0, 9, "markdown"), PartSpan(9, 15, "csv")),
    (TableSpan(0, 3, 9), TableSpan(11, 12, 13)),
    (HiddenSpan(2, 5, "tiny"), HiddenSpan(11, 15, "hidden_run")),
    (2,),
)


def parse(data: bytes, name: str) -> Answer:
    target = io.BytesIO()
    child.answer_request(io.BytesIO(data), target, find_format(name), LIMITS, ["Landlock"])
    return read_answer(target.getvalue(), LIMITS)


def test_answer_returns_the_document() -> None:
    data = b"".join(write_answer(Answer(DOCUMENT, missing=("Landlock",))))
    assert read_answer(data, LIMITS) == Answer(DOCUMENT, missing=("Landlock",))


def test_answer_names_the_missing_protections() -> None:
    answer = parse("# Ü\n\n text".encode(), "markdown")
    assert answer.missing == ("Landlock",)
    assert answer.document is not None
    assert answer.document.headings == (HeadingSpan(0, 1, "Ü"),)


def test_unexpected_failure_tells_only_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(data: bytes, limits: ParseLimits) -> ParsedDocument:
        raise RecursionError(f"content: {data!r}")

    monkeypatch.setattr("app.documents.readers.builder.parse_plain", fail)
    assert parse(b"private", "text") == Answer(failure="RecursionError")

    def lack(data: bytes, limits: ParseLimits) -> ParsedDocument:
        raise OSError(errno.ENOMEM, "private")

    monkeypatch.setattr("app.documents.readers.builder.parse_plain", lack)
    assert parse(b"private", "text") == Answer(failure="OSError", transient=True)
    assert parse(write_zip({"a.txt": "private"}), "zip") == Answer(failure="OSError", transient=True)

    def exhaust(data: bytes, limits: ParseLimits) -> ParsedDocument:
        raise MemoryError

    monkeypatch.setattr("app.documents.readers.builder.parse_plain", exhaust)
    assert parse(b"private", "text") == Answer(exhausted="memory")
    assert parse(b" ", "markdown") == Answer(refusal="the Markdown file contains no text")


def edit(**fields: object) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        line, _, text = data.partition(b"\n")
        answer = json.loads(line)
        return json.dumps(answer | {"document": answer["document"] | fields}).encode() + b"\n" + text

    return change


PAGE, HEADING = {"number": 1, "start": 0, "end": 0}, {"start": 0, "level": 1, "title": ""}
TABLE = {"start": 11, "header_end": 12, "end": 13}
HIDDEN = {"start": 0, "end": 1, "reason": "tiny"}

FORGED: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"",
    "no JSON": lambda data: b"x" * 100_000,
    "an object without fields": lambda data: b"{}",
    "a deep array": lambda data: b"[" * 60_000,
    "neither document nor reason": lambda data: data.replace(b"document", b"d"),
    "a reason that is not text": lambda data: b'{"refusal": ["x"]}',
    "a reason without end": lambda data: b'{"refusal": "%s"}' % (b"x" * 100_000),
    "a title that is not text": edit(title={"a": 1}),
    "a long title": edit(title="x" * 301),
    "too many pages": edit(total_pages=5_001),
    "a negative number": edit(total_pages=-5, pages_without_text=[]),
    "a number that is not whole": edit(total_pages=3.5),
    "a truth instead of a number": edit(total_pages=True),
    "a number as text": edit(total_pages="3"),
    "more tables than allowed": edit(tables=[TABLE | {"start": 12}] * 20_001),
    "an unordered table": edit(tables=[TABLE | {"header_end": 14}]),
    "an unknown reason": edit(hidden=[HIDDEN | {"reason": "other"}]),
    "a page without text beyond the last": edit(pages_without_text=[9]),
    "a place without text beyond the end": edit(places_without_text=[16]),
    "more headings than allowed": edit(headings=[HEADING] * 100_001),
    "a heading with a long title": edit(headings=[HEADING | {"title": "x" * 301}]),
    "headings with too much text": edit(headings=[HEADING | {"title": "x" * 300}] * 20_000),
    "a heading without a level": edit(headings=[{"start": 0, "title": ""}]),
    "a level of zero": edit(headings=[HEADING | {"level": 0}]),
    "pages in another order": edit(pages=[PAGE | {"number": 2}]),
    "a format that is not text": edit(format=None),
    "a header of a mail that no chunk gets": edit(mail={"bcc": "x"}),
    "an unknown encoding": edit(encoding="zip"),
    "more controls than a file has": edit(removed_controls=1 << 31),
    "no text": lambda data: data.partition(b"\n")[0] + b"\n",
    "no line of text": lambda data: data.partition(b"\n")[0],
    "text that is not UTF-8": lambda data: data[:-1] + b"\xff",
    "a position beyond the end": lambda data: data[:-4],
    "millions of values": lambda data: b'{"refusal": "x", "a": [%s0]}' % (b"0," * 5_000_000),
    "a negative position": edit(headings=[HEADING | {"start": -1}]),
    "an unordered position": edit(headings=[HEADING | {"start": 3}, HEADING]),
    "a cut line": lambda data: data[1:],
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED.keys())
def test_forged_answer_is_refused(forge: Callable[[bytes], bytes]) -> None:
    data = b"".join(write_answer(Answer(DOCUMENT)))
    forged = forge(data)
    assert forged != data
    with pytest.raises(Malformed):
        read_answer(forged, LIMITS)


def test_longest_answer_is_bounded() -> None:
    assert max_answer_bytes(LIMITS) < 100 << 20

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
        line, _, rest = data.partition(b"\n")
        return json.dumps(json.loads(line) | fields).encode() + b"\n" + rest

    return change


FORGED: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"",
    "no line": lambda data: b"x" * 100_000,
    "a line without fields": lambda data: b"{}\n",
    "a line that is not JSON": lambda data: b"text\n",
    "a deep line": lambda data: b"[" * 60_000 + b"\n",
    "neither document nor reason": lambda data: data.partition(b"\n")[0].replace(b"format", b"f") + b"\n",
    "a reason that is not text": edit(refusal=["x"]),
    "a title that is not text": edit(title={"a": 1}),
    "a long title": edit(title="x" * 301),
    "too many pages": edit(total_pages=5_001),
    "a negative number": edit(titles=-5),
    "a number that is not whole": edit(titles=9.5),
    "a truth instead of a number": edit(counts=[True, 3, 2, 2, 2, 1]),
    "more tables than allowed": edit(counts=[2, 3, 2, 20_001, 2, 1]),
    "an unordered table": lambda data: data.replace(
        b"\x0b\0\0\0\x0c\0\0\0\x0d\0\0\0", b"\x0b\0\0\0\x0e\0\0\0\x0d\0\0\0"
    ),
    "an unknown reason": lambda data: data.replace(
        b"\x0b\0\0\0\x0f\0\0\0\x04\0\0\0", b"\x0b\0\0\0\x0f\0\0\0\x09\0\0\0"
    ),
    "a page without text beyond the last": lambda data: data.replace(b"\x02\0\0\0\xc3\x9c", b"\x09\0\0\0\xc3\x9c"),
    "missing counts": edit(counts=[2, 3]),
    "more headings than allowed": edit(counts=[100_001, 0, 0, 0, 0, 0]),
    "more rows than sent": edit(counts=[2, 4_000, 2, 2, 2, 1]),
    "titles beyond the end": edit(titles=10_000),
    "titles shorter than their lengths": edit(titles=3),
    "an unknown format": edit(formats=[]),
    "no text": lambda data: data[: -len(DOCUMENT.text.encode())],
    "text that is not UTF-8": lambda data: data[:-1] + b"\xff",
    "a position beyond the end": lambda data: data[:-4],
    "an unordered position": lambda data: data.replace(
        b"\x0b\0\0\0\x02\0\0\0\0\0\0\0", b"\xff\0\0\0\x02\0\0\0\0\0\0\0"
    ),
    "a level of zero": lambda data: data.replace(b"\x0b\0\0\0\x02\0\0\0\0\0\0\0", b"\x0b\0\0\0\0\0\0\0\0\0\0\0"),
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

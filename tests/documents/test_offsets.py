"""For every format: a chunk is the text between its offsets, and the chunks together hold all of the text."""

import csv
import io
import json
from collections.abc import Callable
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.chunking import split
from app.documents.formats import FORMATS, detect_format, find_format
from app.documents.parsed import ParsedDocument, ParseLimits
from tests.documents.chunks import check_chunks, count_framed
from tests.documents.mails import write_mail
from tests.documents.office import (
    text_box,
    text_cell,
    write_epub,
    write_odf,
    write_raw_pptx,
    write_raw_xlsx,
    write_xls,
    write_zip,
)
from tests.fixtures.documents import paragraph, write_pdf, write_raw_docx

Blocks = list[str]

# Words, and characters that break offsets: combining marks, surrogate pairs, odd spaces, removed
# characters.
_SIGNS = "ab c\n\t.,;|#-*`>\"'<&{[\u0301\u00ad\u200b\u00a0\u2028🎉文ßﬁé\u0345\r"
blocks = st.lists(st.text(st.sampled_from(_SIGNS), max_size=120), min_size=1, max_size=8)


def _xml(text: str) -> str:
    return escape("".join(sign for sign in text if sign in "\t\n\r" or sign >= " "))


def _latin(text: str) -> str:
    return text.encode("cp1252", errors="ignore").decode("cp1252")


def _csv(texts: Blocks) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out).writerows([["name", "value"], *([text, text] for text in texts)])
    return out.getvalue().encode()


def _code(texts: Blocks) -> bytes:
    return "\n\n".join(texts).encode()


def _markdown(texts: Blocks) -> bytes:
    return "\n\n".join(f"# {text}\n\n{text}" for text in texts).encode()


def _html(texts: Blocks) -> bytes:
    return ("<!doctype html>" + "".join(f"<h2>{_xml(t)}</h2><p>{_xml(t)}</p><pre>{_xml(t)}" for t in texts)).encode()


def _svg(texts: Blocks) -> bytes:
    return ("<svg>" + "".join(f"<desc>{_xml(t)}</desc><text>{_xml(t)}</text>" for t in texts) + "</svg>").encode()


def _xlsx(texts: Blocks) -> bytes:
    rows = enumerate(texts, start=1)
    return write_raw_xlsx("".join(f'<row r="{n}">{text_cell(f"A{n}", _xml(text))}</row>' for n, text in rows))


def _odf(texts: Blocks) -> str:
    return "".join(f"<text:h>{_xml(text)}</text:h><text:p>{_xml(text)}</text:p>" for text in texts)


def _ods(texts: Blocks) -> str:
    cells = (
        f'<table:table-cell office:value-type="string"><text:p>{_xml(t)}</text:p></table:table-cell>' for t in texts
    )
    return (
        f'<table:table table:name="a">{"".join(f"<table:table-row>{c}</table:table-row>" for c in cells)}</table:table>'
    )


def _notebook(texts: Blocks) -> bytes:
    cells = [{"cell_type": "markdown", "source": text} for text in texts]
    return json.dumps({"cells": [*cells, *({"cell_type": "code", "source": [text]} for text in texts)]}).encode()


WRITERS: dict[str, Callable[[Blocks], bytes]] = {
    "text": _code,
    "code": _code,
    "css": _code,
    "javascript": _code,
    "lockfile": lambda texts: "\n".join(f'[[package]]\nname = "{text}"\nversion = "1"' for text in texts).encode(),
    "sourcemap": lambda texts: json.dumps({"version": 3, "sources": texts}).encode(),
    "markdown": _markdown,
    "html": _html,
    "svg": _svg,
    "csv": _csv,
    "json": lambda texts: json.dumps({"items": texts, "records": [{"a": text} for text in texts]}).encode(),
    "jsonl": lambda texts: "\n".join(json.dumps({"a": text}) for text in texts).encode(),
    "pdf": lambda texts: write_pdf([_latin(text).splitlines() for text in texts]),
    "docx": lambda texts: write_raw_docx("".join(paragraph(_xml(text)) for text in texts)),
    "pptx": lambda texts: write_raw_pptx([text_box(_xml(t), "title") + text_box(_xml(t)) for t in texts]),
    "xlsx": _xlsx,
    "xls": lambda texts: write_xls([["name"], *([text.replace("\r", "")] for text in texts)]),
    "odt": lambda texts: write_odf("text", _odf(texts)),
    "odp": lambda texts: write_odf("presentation", "".join(f"<draw:page>{_odf([text])}</draw:page>" for text in texts)),
    "ods": lambda texts: write_odf("spreadsheet", _ods(texts)),
    "epub": lambda texts: write_epub([f"<h2>{_xml(text)}</h2><p>{_xml(text)}</p>" for text in texts]),
    "eml": lambda texts: write_mail("\n\n".join(texts), {"a.md": _markdown(texts), "c.txt": _code(texts)}),
    "ipynb": _notebook,
    "captions": lambda texts: "\n\n".join(["WEBVTT", *(f"0:01.000 --> 0:09.000\n{text}" for text in texts)]).encode(),
    "rst": lambda texts: "\n\n".join(f"{text}\n{'=' * len(text)}\n\n{text}" for text in texts).encode(),
    "asciidoc": lambda texts: "\n\n".join(f"== {text}\n\n{text}" for text in texts).encode(),
    "org": lambda texts: "\n\n".join(f"* {text}\n\n{text}" for text in texts).encode(),
    "zip": lambda texts: write_zip(
        {"a b.md": _markdown(texts), "c.txt": _code(texts), "d.csv": _csv(texts), "e.html": _html(texts)}
    ),
}


EXTENSIONS = {
    "captions": "vtt",
    "asciidoc": "adoc",
    "text": "txt",
    "code": "py",
    "markdown": "md",
    "javascript": "js",
    "lockfile": "lock",
    "sourcemap": "map",
}


def test_every_format_has_a_writer() -> None:
    pictures = {kind.name for kind in FORMATS if kind.media_type.startswith("image/")} - {"svg"}
    assert set(WRITERS) == {kind.name for kind in FORMATS} - pictures
    for name, write in WRITERS.items():
        extension = EXTENSIONS.get(name, name)
        assert detect_format(write(["ab", "cd"]), f"a.{extension}").name == name


def read(name: str, data: bytes) -> ParsedDocument:
    return find_format(name).read(data, ParseLimits())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", WRITERS)
@given(texts=blocks, most=st.integers(8, 60), overlap=st.integers(0, 7), repeat=st.sampled_from([1, 1, 30]))
def test_chunk_is_the_text_between_its_offsets(name: str, texts: Blocks, most: int, overlap: int, repeat: int) -> None:
    try:
        document = read(name, WRITERS[name]([text * repeat for text in texts]))
    except Exception as error:
        assert "no text" in str(error) or "no pages" in str(error)  # noqa: PT017 - blank texts make blank files
        return
    check_chunks(document, split(document, count_framed, most, overlap), count_framed, most)
    for heading in document.headings:
        assert 0 <= heading.start < len(document.text)
        assert not document.text[heading.start].isspace()
    assert document.text == document.text.encode("utf-8").decode("utf-8").replace("\r", "")
    assert document.text == document.text.strip("\n")

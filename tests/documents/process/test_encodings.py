"""The confined process can open no module while it reads, and still reads every encoding."""

from __future__ import annotations

import pytest

from app.documents.process.parsing import parse_document
from tests.documents.office import write_zip
from tests.fixtures.documents import WORD, paragraph

CHARSETS = ("koi8-r", "windows-1251", "iso-8859-5", "cp866", "mac-cyrillic", "utf-8")


@pytest.mark.parametrize("charset", [*CHARSETS, "shift_jis", "gb18030", "euc-kr", "big5"])
async def test_declared_encoding_is_read_without_opening_its_module(charset: str) -> None:
    word = "Привет" if charset in CHARSETS else {"euc-kr": "한국"}.get(charset, "日本")
    page = f'<html><head><meta charset="{charset}"></head><body><p>{word}</p></body></html>'
    assert (await parse_document(page.encode(charset), "a.html")).text == word


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "cp1252"])
async def test_encoding_of_a_text_is_read_without_opening_its_module(encoding: str) -> None:
    assert (await parse_document("Grüße".encode(encoding), "a.txt")).text == "Grüße"


@pytest.mark.parametrize("encoding", ["windows-1252", "utf-16", "iso-8859-15"])
async def test_encoding_of_a_part_is_read_without_opening_its_module(encoding: str) -> None:
    body = f'<w:document xmlns:w="{WORD}"><w:body>{paragraph("Grüße")}</w:body></w:document>'
    xml = f'<?xml version="1.0" encoding="{encoding}"?>{body}'
    data = write_zip({"word/document.xml": xml.encode(encoding)})
    assert (await parse_document(data, "a.docx")).text == "Grüße"


async def test_old_names_of_an_archive_are_read_without_opening_their_encoding() -> None:
    data = write_zip({"Xber.txt": "word"}).replace(b"Xber", b"\x9aber")
    assert (await parse_document(data, "a.zip")).text == "Über.txt\n\nword"

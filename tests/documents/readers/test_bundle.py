import io
import zipfile

import pytest

from app.documents.chunking import split
from app.documents.formats import expect_formats, find_format
from app.documents.parsed import ParseLimits
from app.documents.readers.bundle import parse
from app.errors import UnreadableDocument
from tests.documents.office import write_zip
from tests.fixtures.documents import write_docx, write_pdf, write_pdf_with

LIMITS = ParseLimits()
OLD_WORD = b"\xd0\xcf\x11\xe0" + bytes(600)


def test_zip_members_are_sections_named_by_their_paths() -> None:
    data = write_zip(
        {"b/notes.md": "# Top\n\n## Low\n\ntext  ", "a.csv": "id,name\n1,x", "c.py": "def f():\n    pass\n"}
    )
    document = parse(data, LIMITS)
    assert document.text == (
        "a.csv\n\nid: 1 | name: x\n\n\nb/notes.md\n\n# Top\n\n## Low\n\ntext  \n\n\nc.py\n\ndef f():\n    pass"
    )
    assert [(document.text[h.start :].split("\n")[0], h.level) for h in document.headings] == [
        ("a.csv", 1),
        ("b/notes.md", 1),
        ("# Top", 2),
        ("## Low", 3),
        ("c.py", 1),
        ("def f():", 2),
    ]
    assert [part.format for part in document.parts] == ["csv", "markdown", "code"]
    assert (document.parts[0].start, document.parts[-1].end) == (0, len(document.text))


def test_zip_chunks_never_cross_members() -> None:
    document = parse(write_zip({f"{name}.txt": f"word of {name}" for name in "abc"}), LIMITS)
    chunks = split(document, lambda text: len(text.split()), 100)
    assert [chunk.text for chunk in chunks] == [f"{name}.txt\n\nword of {name}" for name in "abc"]
    assert [chunk.headings for chunk in chunks] == [("a.txt",), ("b.txt",), ("c.txt",)]


def test_zip_skips_pictures_empty_files_and_debris() -> None:
    data = write_zip(
        {
            "a.txt": "kept",
            "b.png": b"\x89PNG\r\n\x1a\n\0",
            "__init__.py": "",
            ".git/config": "hidden",
            "__MACOSX/a.txt": "hidden",
            "Thumbs.db": OLD_WORD,
            "folder/": "",
        }
    )
    assert parse(data, LIMITS).text == "a.txt\n\nkept"


def test_zip_link_is_not_followed() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        link = zipfile.ZipInfo("link.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(UnreadableDocument, match="no member in a supported format"):
        parse(out.getvalue(), LIMITS)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"x/a.pdf": write_pdf_with([["x"]], user_password="pw")}, r"x/a\.pdf in the ZIP file: the PDF is encrypted"),
        ({"a.pdf": write_pdf([[]])}, r"a\.pdf in the ZIP file: the PDF has no text layer"),
        ({"a.docx": write_docx()[:-100]}, r"a\.docx in the ZIP file: the DOCX file is damaged"),
        ({"a.doc": OLD_WORD}, r"a\.doc in the ZIP file: old Office files"),
        ({"a.doc": OLD_WORD + "EncryptedPackage".encode("utf-16-le")}, r"a\.doc in the ZIP file: .* encrypted"),
        ({"in.zip": write_zip({"a.txt": "x"})}, r"in\.zip in the ZIP file is a ZIP file itself; unpack it first"),
        ({"a.png": b"\x89PNG\r\n\x1a\n\0"}, "no member in a supported format"),
        ({}, "no member in a supported format"),
    ],
)
def test_unreadable_zip_names_the_member(members: dict[str, bytes | str], reason: str) -> None:
    with pytest.raises(UnreadableDocument, match=reason):
        parse(write_zip(members), LIMITS)


def test_truncated_zip_is_reported() -> None:
    with pytest.raises(UnreadableDocument, match="the ZIP file is damaged or incomplete"):
        parse(write_zip({"a.txt": "x"})[:-30], LIMITS)


def test_only_the_readers_that_the_names_indicate_are_expected() -> None:
    def expect(*names: str) -> set[str]:
        data = write_zip(dict.fromkeys(names, "x"))
        return {item.name for item in expect_formats(find_format("zip"), data)}

    light = {"zip", "jsonl", "json", "csv", "code", "css", "javascript", "lockfile", "sourcemap", "markdown", "text"}
    light |= {"captions", "ipynb", "rst", "asciidoc", "org"}
    assert expect("a.md", "b/c.txt", "d") == light
    assert expect("a.PDF", "b/c.xhtml", "d.docx/x") == light | {"pdf", "html"}
    assert [item.name for item in expect_formats(find_format("docx"), write_docx())] == ["docx"]
    pictured = write_zip({"word/document.xml": "x", "word/media/a.PNG": "x", "docProps/thumbnail.jpeg": "x"})
    assert [item.name for item in expect_formats(find_format("docx"), pictured)] == ["docx", "png"]
    assert expect("a.docx") == light | {"docx", "png", "jpeg", "tiff", "webp", "gif", "bmp"}

"""OpenDocument, EPUB, and workbooks of Excel 97."""

import pytest

from app.documents.formats import detect_format, find_format
from app.documents.parsed import ParsedDocument, ParseLimits
from app.errors import UnreadableDocument
from tests.documents.listing import list_headings
from tests.documents.office import write_epub, write_odf, write_xls


def read(name: str, data: bytes, limits: ParseLimits | None = None) -> ParsedDocument:
    assert detect_format(data, f"a.{name}").name == name
    return find_format(name).read(data, limits or ParseLimits())


TEXT = (
    "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
    '<text:h text:outline-level="1">Cranes</text:h>'
    '<text:p>It lifts<text:s text:c="2"/>ten <text:span>tons</text:span>.<office:annotation><text:p>a comment</text:p>'
    "</office:annotation><text:note><text:note-citation>1</text:note-citation><text:note-body>"
    '<text:p>In March.</text:p></text:note-body></text:note></text:p><text:p text:style-name="secret">unseen</text:p>'
    "<text:list><text:list-item>"
    "<text:p>one</text:p><text:list><text:list-item><text:p>inner</text:p></text:list-item></text:list>"
    "</text:list-item>"
    '</text:list><table:table><table:table-row><table:table-cell table:number-columns-repeated="2"><text:p>a</text:p>'
    '</table:table-cell></table:table-row><table:table-row table:number-rows-repeated="1000000"><table:table-cell/>'
    "</table:table-row></table:table>"
)
STYLES = '<style:style style:name="secret"><style:text-properties text:display="none"/></style:style>'


def test_opendocument_text_is_read_without_comments_and_deletions() -> None:
    document = read("odt", write_odf("text", TEXT, title="Harbour", styles=STYLES))
    assert document.title == "Harbour"
    assert [(level, title) for level, title, *_ in list_headings(document)] == [(1, "Cranes")]
    assert document.text.split("\n\n") == [
        "Cranes",
        "It lifts  ten tons.",
        "In March.",
        "unseen",
        "- one\n  - inner",
        "| a | a |",
    ]
    assert [document.text[span.start : span.end] for span in document.hidden] == ["unseen"]


def test_a_slide_of_an_opendocument_presentation_is_a_page() -> None:
    slides = (
        '<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>Sales</text:p></draw:text-box>'
        "</draw:frame>"
        "<draw:frame><draw:text-box><text:p>They rose.</text:p></draw:text-box></draw:frame>"
        "<presentation:notes><draw:frame><draw:text-box><text:p>Say why.</text:p></draw:text-box></draw:frame>"
        "</presentation:notes></draw:page><draw:page/>"
    )
    document = read("odp", write_odf("presentation", slides))
    assert document.text == "Sales\n\nThey rose.\n\nSay why."
    assert (document.title, document.total_pages, len(document.pages)) == ("Sales", 2, 2)
    with pytest.raises(UnreadableDocument, match="2 slides; at most 1"):
        read("odp", write_odf("presentation", slides), ParseLimits(max_pages=1))


def test_shapes_of_an_opendocument_slide_are_read_from_top_to_bottom() -> None:
    box = "<draw:frame{}><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>"
    places = {"third": "8cm", "second": "1.2in", "first": "30mm"}
    left = ' svg:x="{}" svg:y="{}"'
    shapes = "".join(box.format(left.format("9cm", top), text) for text, top in places.items())
    level = box.format(left.format("1cm", "3.1cm"), "left")
    notes = "<presentation:notes>" + box.format("", "notes") + "</presentation:notes>"
    document = read("odp", write_odf("presentation", f"<draw:page>{notes}{shapes}{level}</draw:page>"))
    assert document.text.split() == ["left", "first", "second", "third", "notes"]
    unplaced = box.format("", "unplaced")
    document = read("odp", write_odf("presentation", f"<draw:page>{shapes}{unplaced}</draw:page>"))
    assert document.text.split() == [*places, "unplaced"]


def test_sheets_of_opendocument_and_of_old_excel_have_their_headers() -> None:
    cells = "".join(
        "<table:table-row>"
        + "".join(
            f'<table:table-cell office:value-type="string"><text:p>{text}</text:p></table:table-cell>' for text in row
        )
        + "</table:table-row>"
        for row in (("Name", "Berths"), ("Kiel", "nine"))
    )
    for data, name in (
        (write_odf("spreadsheet", f'<table:table table:name="Harbours">{cells}</table:table>'), "ods"),
        (write_xls([("Name", "Berths"), ("Kiel", "nine")]), "xls"),
    ):
        document = read(name, data)
        assert document.text == "Harbours\nName: Kiel | Berths: nine", name
        assert [title for _, title, *_ in list_headings(document)] == ["Harbours"]


def test_chapters_of_a_book_are_read_in_the_order_of_its_spine() -> None:
    document = read(
        "epub", write_epub(["<h1>Tides</h1><p>High at noon.</p>", "<h1>Moorings</h1><p>Ropes &amp; rings.</p>"])
    )
    assert document.title == "The harbour"
    assert document.text == "Tides\n\nHigh at noon.\n\n\nMoorings\n\nRopes & rings."
    assert [title for _, title, *_ in list_headings(document)] == ["Tides", "Moorings"]


PROTECTED = '<encryption><EncryptedData><CipherReference URI="OEBPS/text/c0.xhtml"/></EncryptedData></encryption>'
FONTS = PROTECTED.replace("text/c0.xhtml", "fonts/a.otf")


def test_a_protected_book_is_refused_and_one_with_protected_fonts_is_read() -> None:
    assert read("epub", write_epub(["<p>text</p>"], more={"META-INF/encryption.xml": FONTS})).text == "text"
    with pytest.raises(UnreadableDocument, match="save it without protection"):
        read("epub", write_epub(["<p>text</p>"], more={"META-INF/encryption.xml": PROTECTED}))


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("odt", write_odf("text", "<text:p>&x;</text:p>"), "damaged"),
        ("odt", write_odf("presentation", ""), "no content"),
        ("xls", write_xls([["a"]])[:1500], "damaged or has a password"),
        ("epub", write_epub([]).replace(b"book.opf", b"none.opf", 1), "damaged"),
    ],
)
def test_a_damaged_file_is_refused_with_its_reason(name: str, data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableDocument, match=reason):
        find_format(name).read(data, ParseLimits())

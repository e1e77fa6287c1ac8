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


NUMBERED = (
    '<text:list-style style:name="numbers">'
    '<text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="." text:start-value="5"/>'
    '<text:list-level-style-number text:level="2" style:num-format="a" style:num-prefix="(" style:num-suffix=")"/>'
    '<text:list-level-style-number text:level="3" style:num-format="I" text:display-levels="3"/>'
    '<text:list-level-style-bullet text:level="4" text:bullet-char="x"/></text:list-style>'
    '<text:list-style style:name="plain"><text:list-level-style-number text:level="1" style:num-format=""/>'
    '<text:list-level-style-number text:level="2" style:num-format="1" text:display-levels="2"/></text:list-style>'
)


def write_list(*items: str, style: str = "numbers", more: str = "") -> str:
    named = f' text:style-name="{style}"' if style else ""
    return f"<text:list{named} {more}>{''.join(items)}</text:list>"


def write_item(text: str, *below: str, more: str = "") -> str:
    return f"<text:list-item {more}><text:p>{text}</text:p>{''.join(below)}</text:list-item>"


def write_alone(text: str, more: str = "", style: str = "numbers") -> str:
    named = f' text:style-name="{style}"' if style else ""
    return f"<text:numbered-paragraph{named} {more}><text:number>0</text:number>{text}</text:numbered-paragraph>"


FIRST, SECOND = 'text:list-id="first"', 'text:list-id="second"'


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            write_list(
                write_item(
                    "five",
                    "<text:p>goes on</text:p>",
                    write_list(
                        write_item("a", write_list(write_item("I", write_list(write_item("x"), style="")), style="")),
                        write_item("b"),
                        style="",
                    ),
                ),
                write_item("six", write_list(write_item("a"), style="")),
                "<text:list-header><text:p>header</text:p></text:list-header>",
                write_item("nine", more='text:start-value="9"'),
            ),
            "5. five\n  goes on\n  (a) a\n    5.a.I I\n      - x\n  (b) b\n6. six\n  (a) a\nheader\n9. nine",
        ),
        (
            write_list(write_item("five"), more='xml:id="first"')
            + write_list(write_item("none", write_list(write_item("one"), style="")), style="plain")
            + write_list(write_item("six"), more='text:continue-list="first"')
            + write_list(write_item("seven"), more='text:continue-numbering="true"')
            + write_list(write_item("five"))
            + write_list(write_item("unknown"), style="unknown"),
            "5. five\n\nnone\n  1 one\n\n6. six\n\n7. seven\n\n5. five\n\n- unknown",
        ),
        (write_list(write_item("", write_list(write_item("a"), style="")), write_item("five")), "  (a) a\n5. five"),
        (
            write_list(write_item("five"), write_item("none", more='text:style-override="plain"'), write_item("seven")),
            "5. five\nnone\n7. seven",
        ),
        (
            write_alone("<text:p>five</text:p>", FIRST)
            + write_alone("<text:p>a</text:p>", f'{FIRST} text:level="2"', style="")
            + write_alone("<text:p>b</text:p>", f'{FIRST} text:level="2"', style="")
            + write_alone("<text:p>six</text:p>", FIRST)
            + "<text:p>text</text:p>"
            + write_alone("<text:p>five</text:p>", f'{SECOND} text:continue-numbering="true"')
            + write_alone("<text:p>seven</text:p>", FIRST)
            + write_alone("<text:p>nine</text:p>", f'{FIRST} text:start-value="9"')
            + write_alone("<text:p>unknown</text:p>", SECOND, style="")
            + write_list(write_item("five"), more='xml:id="first"'),
            "5. five\n  (a) a\n  (b) b\n6. six\n\ntext\n\n5. five\n7. seven\n9. nine\n- unknown\n\n5. five",
        ),
        (
            write_alone("<text:p>five</text:p>")
            + write_alone("<text:p>six</text:p>")
            + write_alone("<text:p>none</text:p>", style="plain")
            + write_alone("<text:p>five</text:p>")
            + write_alone("<text:p></text:p>")
            + write_alone("<text:p>six</text:p>", 'text:level="x"'),
            "5. five\n6. six\nnone\n5. five\n6. six",
        ),
    ],
)
def test_items_of_opendocument_lists_have_their_numbers(body: str, text: str) -> None:
    document = read("odt", write_odf("text", body, styles=NUMBERED))
    assert document.text == text
    frame = f"<draw:page><draw:frame><draw:text-box>{body}</draw:text-box></draw:frame></draw:page>"
    assert read("odp", write_odf("presentation", frame, styles=NUMBERED)).text == text
    assert read("odt", write_odf("text", body, common=NUMBERED)).text == text


def test_items_in_a_cell_have_their_numbers_and_comments_are_left_out() -> None:
    items = write_list(write_item("five<office:annotation><text:p>a comment</text:p></office:annotation>"))
    items += write_alone("<text:p>five</text:p>")
    note = "<text:p>six<text:note><text:note-body><text:p>note</text:p></text:note-body></text:note></text:p>"
    row = f"<table:table-row><table:table-cell>{items}{note}</table:table-cell><table:table-cell/></table:table-row>"
    document = read("odt", write_odf("text", f"<table:table>{row}</table:table>", styles=NUMBERED))
    assert document.text == "| 5. five 5. five six note |  |"


OUTLINE = (
    '<text:outline-style><text:outline-level-style text:level="1" style:num-format="1"/>'
    '<text:outline-level-style text:level="2" style:num-format="1" text:display-levels="2" style:num-suffix=")"/>'
    '<text:outline-level-style text:level="3" style:num-format=""/></text:outline-style>'
)


def test_numbers_of_opendocument_headings_are_part_of_them() -> None:
    def head(text: str, level: int, more: str = "") -> str:
        return f'<text:h text:outline-level="{level}" {more}><text:number>x</text:number>{text}</text:h>'

    restarted = 'text:restart-numbering="true" text:start-value="7"'
    headings = (
        head("Cranes", 1) + head("Ropes", 2) + head("Hooks", 3) + head("Lamps", 1) + head("Wicks", 2),
        head("", 1) + head("Preface", 1, 'text:is-list-header="true"') + head("Annex", 1, restarted),
        write_list(f"<text:list-item>{head('Listed', 2)}</text:list-item>") + "<text:p>text</text:p>",
        write_list(f"<text:list-item>{head('Bullet', 1)}</text:list-item>", write_item("item"), style="none"),
        write_alone(head("Alone", 1)) + write_alone("<text:p>text</text:p>"),
    )
    document = read("odt", write_odf("text", "".join(headings), styles=NUMBERED, common=OUTLINE))
    assert list_headings(document) == [
        (1, "1 Cranes"),
        (2, "1.1) Ropes"),
        (3, "Hooks"),
        (1, "2 Lamps"),
        (2, "2.1) Wicks"),
        (1, "Preface"),
        (1, "7 Annex"),
        (2, "5. Listed"),
        (1, "Bullet"),
        (1, "5. Alone"),
    ]
    assert document.text.endswith("5. Listed\n\ntext\n\n\nBullet\n\n- item\n\n\n5. Alone\n\n6. text")
    unnumbered = read("odt", write_odf("text", head("Cranes", 1)))
    assert list_headings(unnumbered) == [(1, "Cranes")]


def test_hidden_text_has_a_common_style_too() -> None:
    document = read("odt", write_odf("text", '<text:p text:style-name="secret">unseen</text:p>', common=STYLES))
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


def test_an_empty_chapter_leaves_no_blank_lines() -> None:
    assert read("epub", write_epub(["", "<p>one</p>", "", "<p>two</p>"])).text == "one\n\n\ntwo"
    notes = "<header><h2>Storm</h2></header><p class='social'>A</p><aside>1. May 4</aside><footer>B</footer>"
    assert read("epub", write_epub([notes])).text == "Storm\n\nA\n\n1. May 4\n\nB"


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

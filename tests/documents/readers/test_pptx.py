import pytest

from app.documents.parsed import ParseLimits
from app.documents.readers.office.pptx import parse
from app.errors import UnreadableDocument
from tests.documents.listing import list_hidden, list_pages
from tests.documents.office import text_box, write_pptx, write_raw_pptx, write_zip

LIMITS = ParseLimits()


def test_pptx_slides_are_pages_with_titles_notes_tables_and_groups() -> None:
    document = parse(write_pptx(), LIMITS)
    assert list_pages(document) == [
        "Quarterly review\n\nSpring",
        "Findings\n\nSales rose\nCosts fell\n\nMention the new office.",
        "| Name | Value |\n| --- | --- |\n| port | 8000 |\n\nin a group\n\nShare of markets\n\n"
        "|  | s |\n| --- | --- |\n| a | 1 |",
    ]
    assert [page.number for page in document.pages] == [1, 2, 3]
    assert document.total_pages == 3
    table, chart = document.tables
    assert document.text[chart.start : chart.header_end] == "|  | s |\n| --- | --- |\n"
    assert document.text[table.header_end : table.end] == "| port | 8000 |"
    assert [document.text[heading.start :].split("\n")[0] for heading in document.headings] == [
        "Quarterly review",
        "Findings",
    ]


def test_pptx_title_is_the_first_slides_if_a_program_set_the_files() -> None:
    assert parse(write_pptx(), LIMITS).title == "Quarterly review"
    assert parse(write_raw_pptx([text_box("x")]), LIMITS).title is None


def test_pptx_slides_are_in_display_order() -> None:
    data = write_raw_pptx([text_box("one"), text_box("two"), text_box("three")], shown=[3, 1])
    assert parse(data, LIMITS).text == "three\n\none"


def test_pptx_omits_numbers_footers_and_second_copies() -> None:
    body = (
        text_box("7", "sldNum")
        + text_box("ACME", "ftr")
        + f"<Choice>{text_box('shown')}</Choice><Fallback>{text_box('copy')}</Fallback>"
        + text_box("The title", "title")
    )
    assert parse(write_raw_pptx([body]), LIMITS).text == "The title\n\nshown"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (write_pptx()[:-100], "damaged"),
        (write_raw_pptx(["<p:sp>"]), "damaged: its XML"),
        (write_zip({"ppt/slides/slide1.xml": "<a/>"}), "no list of slides"),
        (write_raw_pptx([""] * 3), "3 slides; at most 2"),
    ],
)
def test_unreadable_pptx_is_reported_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableDocument, match=reason):
        parse(data, ParseLimits(max_pages=2))


def test_pptx_with_a_missing_slide_is_reported() -> None:
    data = write_raw_pptx([""]).replace(b"slides/slide1.xml", b"slides/slide9.xml")
    with pytest.raises(UnreadableDocument, match="a slide is missing"):
        parse(data, LIMITS)


def place(shape: str, left: int, top: int, width: int = 100) -> str:
    """A shape at a place of its own."""
    transform = f'<a:xfrm><a:off x="{left}" y="{top}"/><a:ext cx="{width}" cy="9"/></a:xfrm>'
    return shape.replace("<p:txBody>", f"<p:spPr>{transform}</p:spPr><p:txBody>", 1)


def test_pptx_shapes_with_places_are_read_from_top_to_bottom_after_the_title() -> None:
    shapes = [
        place(text_box("low"), 0, 900_000),
        place(text_box("right"), 500, 300_101),
        place(text_box("left"), 0, 304_800),
        text_box("Title", "title"),
    ]
    assert parse(write_raw_pptx(["".join(shapes)]), LIMITS).text == "Title\n\nleft\n\nright\n\nlow"
    inherited = [*shapes, text_box("body", "body")]
    text = parse(write_raw_pptx(["".join(inherited)]), LIMITS).text
    assert text == "Title\n\nlow\n\nright\n\nleft\n\nbody"


def test_pptx_text_outside_of_the_slide_and_tiny_text_are_marked() -> None:
    tiny = '<p:sp><p:txBody><a:p><a:r><a:rPr sz="100"/><a:t>dot</a:t></a:r></a:p></p:txBody></p:sp>'
    shapes = [place(text_box("seen"), 0, 0), place(text_box("outside"), 12_192_000, 0), place(tiny, 0, 900_000)]
    document = parse(write_raw_pptx(["".join(shapes)]), LIMITS)
    assert document.text == "seen\n\noutside\n\ndot"
    assert list_hidden(document) == [("outside", "off_page"), ("dot", "tiny")]


def test_pptx_levels_and_bullets_are_kept_and_hidden_slides_are_read() -> None:
    lines = (
        "<a:p><a:pPr><a:buChar/></a:pPr><a:r><a:t>one</a:t></a:r></a:p>"
        '<a:p><a:pPr lvl="1"/><a:r><a:t>two</a:t></a:r></a:p><a:p><a:r><a:t>three</a:t></a:r></a:p>'
    )
    data = write_raw_pptx([f"<p:sp><p:txBody>{lines}</p:txBody></p:sp>"])
    assert parse(data, LIMITS).text == "- one\n  - two\nthree"
    assert parse(data.replace(b"<p:sld ", b'<p:sld show="0" '), LIMITS).text == "- one\n  - two\nthree"


def test_pptx_numbered_paragraphs_have_their_numbers() -> None:
    def write(text: str, numbered: str = "", level: int = 0) -> str:
        properties = f'<a:pPr lvl="{level}">{numbered}</a:pPr>'
        return f"<a:p>{properties}<a:r><a:t>{text}</a:t></a:r></a:p>"

    plain, letters = '<a:buAutoNum type="arabicPeriod"/>', '<a:buAutoNum type="alphaUcParenR"/>'
    lines = [
        *(write("ropes", plain), write("bow", letters, 1), write("stern", letters, 1), write("sails", plain)),
        *(write("a harbour"), write("keys", '<a:buAutoNum type="romanLcParenBoth" startAt="4"/>')),
    ]
    data = write_raw_pptx([f"<p:sp><p:txBody>{''.join(lines)}</p:txBody></p:sp>"])
    assert parse(data, LIMITS).text == "1. ropes\n  A) bow\n  B) stern\n2. sails\na harbour\n(iv) keys"


def test_pptx_merged_cells_and_pictures_have_their_texts() -> None:
    def cell(text: str, merged: str = "") -> str:
        return f"<a:tc{merged}><a:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></a:txBody></a:tc>"

    rows = (
        f"<a:tr>{cell('1')}{cell('2')}</a:tr><a:tr>{cell('a')}{cell('b')}</a:tr>"
        f"<a:tr>{cell('', ' vMerge=' + chr(34) + '1' + chr(34))}{cell('c|d')}</a:tr>"
    )
    table = f'<p:graphicFrame><a:tbl><a:tblPr firstRow="1"/>{rows}</a:tbl></p:graphicFrame>'
    picture = '<p:pic><p:nvPicPr><p:cNvPr descr="a lamp"/></p:nvPicPr></p:pic>'
    document = parse(write_raw_pptx([table + picture]), LIMITS)
    assert document.text == "| 1 | 2 |\n| --- | --- |\n| a | b |\n| a | c\\|d |\n\na lamp"
    assert document.tables[0].header_end == len("| 1 | 2 |\n| --- | --- |\n")

import io
import zipfile

import pytest

from app.documents.parsed import ParseLimits
from app.documents.readers.office.docx import parse
from app.errors import UnreadableDocument
from tests.documents.hostile import LAUGHS
from tests.documents.listing import list_headings, list_hidden, list_tables
from tests.documents.office import write_zip
from tests.fixtures.documents import WORD, paragraph, write_docx, write_raw_docx

LIMITS = ParseLimits()
DRAWINGS = "http://schemas.openxmlformats.org/drawingml/2006"


def style(key: str, name: str, more: str = "") -> str:
    """The XML of a style."""
    return f'<w:style w:styleId="{key}"><w:name w:val="{name}"/>{more}</w:style>'


def styled(text: str, key: str, more: str = "") -> str:
    """The XML of a paragraph with a style."""
    return f'<w:p><w:pPr><w:pStyle w:val="{key}"/>{more}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'


def numbered(text: str, number: int, level: int = 0) -> str:
    """The XML of a paragraph of a list."""
    return (
        f'<w:p><w:pPr><w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr></w:pPr>'
        f"<w:r><w:t>{text}</w:t></w:r></w:p>"
    )


def cell(text: str, properties: str = "") -> str:
    """The XML of a table's cell."""
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(text)}</w:tc>"


def test_docx_keeps_order_headings_and_tables() -> None:
    document = parse(write_docx(), LIMITS)
    assert document.text == (
        "Handbook\n\n\nInstall\n\nFirst of all, read this.\n\n\nLinux\n\nOpen a shell.\n\n"
        "| Name | Value |\n| --- | --- |\n| port | 8000 |\n\nAfter the table."
    )
    assert list_tables(document) == [("| Name | Value |\n| --- | --- |\n", "| port | 8000 |")]
    assert list_headings(document) == [(1, "Handbook"), (1, "Install"), (2, "Linux")]
    assert document.title == "Handbook"


def test_docx_heading_level_is_inherited_and_may_be_direct() -> None:
    styles = f"""<w:styles xmlns:w="{WORD}">
      <w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>
      <w:style w:styleId="Mine"><w:name w:val="Mine"/><w:basedOn w:val="berschrift1"/></w:style>
      <w:style w:styleId="Loop"><w:name w:val="a"/><w:basedOn w:val="Loop2"/></w:style>
      <w:style w:styleId="Loop2"><w:name w:val="b"/><w:basedOn w:val="Loop"/></w:style>
      <w:style w:styleId="Out"><w:name w:val="c"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>
    </w:styles>"""
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{style}</w:t></w:r></w:p>'
        for style in ("Mine", "Loop", "Out")
    )
    body += '<w:p><w:pPr><w:outlineLvl w:val="1"/></w:pPr><w:r><w:t>Direct</w:t></w:r></w:p>'
    document = parse(write_raw_docx(body, styles=styles), LIMITS)
    assert list_headings(document) == [(1, "Mine"), (3, "Out"), (2, "Direct")]


def test_docx_reads_controls_insertions_and_notes_without_deletions() -> None:
    body = (
        f"<w:sdt><w:sdtContent>{paragraph('control')}</w:sdtContent></w:sdt>"
        "<w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r>"
        "<w:ins><w:r><w:t> added</w:t></w:r></w:ins><w:del><w:r><w:delText> gone</w:delText></w:r></w:del>"
        "<w:moveFrom><w:r><w:t> moved</w:t></w:r></w:moveFrom>"
        "<w:hyperlink><w:r><w:t> link</w:t></w:r></w:hyperlink></w:p>"
        "<w:tbl><w:tr><w:tc><w:tbl><w:tr><w:tc>"
        f"{paragraph('inner')}</w:tc></w:tr></w:tbl>{paragraph('cell')}</w:tc></w:tr></w:tbl>"
    )
    notes = f'<w:footnotes xmlns:w="{WORD}"><w:footnote>{paragraph("the note")}</w:footnote></w:footnotes>'
    text = parse(write_raw_docx(body, footnotes=notes), LIMITS).text
    assert text == "control\n\na\tb\nc added link\n\ninner cell\n\nthe note"


def test_docx_heading_styles_in_other_languages_are_headings() -> None:
    names = ["Überschrift 1", "Titre 2", "Заголовок 3", "标题 2", "見出し 1"]
    styles = "".join(style(f"s{n}", name) for n, name in enumerate(names)) + style("t", "Titel")
    body = styled("Handbuch", "t") + "".join(styled(name, f"s{n}") for n, name in enumerate(names))
    document = parse(write_raw_docx(body, styles=f'<w:styles xmlns:w="{WORD}">{styles}</w:styles>'), LIMITS)
    assert [heading.level for heading in document.headings] == [1, 1, 2, 3, 2, 1]
    assert document.title == "Handbuch"


def test_docx_table_of_contents_is_left_out() -> None:
    styles = f'<w:styles xmlns:w="{WORD}">{style("c", "toc 1")}</w:styles>'
    body = styled("Ropes 7", "c") + paragraph("text")
    assert parse(write_raw_docx(body, styles=styles), LIMITS).text == "text"


NUMBERING = f"""<w:numbering xmlns:w="{WORD}">
<w:abstractNum w:abstractNumId="1">
  <w:lvl w:ilvl="0"><w:start w:val="5"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/><w:pStyle w:val="h"/></w:lvl>
  <w:lvl w:ilvl="1"><w:numFmt w:val="lowerRoman"/><w:lvlText w:val="%1.%2)"/></w:lvl>
</w:abstractNum>
<w:abstractNum w:abstractNumId="2">
  <w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/><w:lvlText w:val="x"/></w:lvl></w:abstractNum>
<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num>
<w:num w:numId="2"><w:abstractNumId w:val="2"/></w:num>
<w:num w:numId="3">
  <w:abstractNumId w:val="1"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride></w:num>
</w:numbering>"""


def test_docx_lists_keep_their_numbers_bullets_and_levels() -> None:
    body = (
        paragraph("before")
        + numbered("five", 1)
        + numbered("one", 1, 1)
        + numbered("two", 1, 1)
        + numbered("six", 1)
        + numbered("one again", 1, 1)
        + numbered("bullet", 2)
        + numbered("restarted", 3)
        + numbered("none", 0)
        + numbered("unknown", 9)
    )
    assert parse(write_raw_docx(body, numbering=NUMBERING), LIMITS).text == (
        "before\n\n5. five\n  5.i) one\n  5.ii) two\n6. six\n  6.i) one again\n- bullet\n1. restarted\n\nnone\n\n"
        "- unknown"
    )


def test_docx_numbers_below_a_bullet_begin_again() -> None:
    numbering = NUMBERING.replace(
        '<w:lvlText w:val="x"/></w:lvl>', '</w:lvl><w:lvl w:ilvl="1"><w:lvlText w:val="%2."/></w:lvl>'
    )
    items = ("one", 0), ("first", 1), ("second", 1), ("two", 0), ("first", 1)
    body = "".join(numbered(text, 2, level) for text, level in items)
    assert parse(write_raw_docx(body, numbering=numbering), LIMITS).text == (
        "- one\n  1. first\n  2. second\n- two\n  1. first"
    )


def test_docx_numbers_of_headings_are_part_of_them() -> None:
    styles = style("h", "heading 1", '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr>')
    document = parse(
        write_raw_docx(
            styled("Ropes", "h") + styled("Lamps", "h"),
            numbering=NUMBERING,
            styles=f'<w:styles xmlns:w="{WORD}">{styles}</w:styles>',
        ),
        LIMITS,
    )
    assert [heading.title for heading in document.headings] == ["5. Ropes", "6. Lamps"]


def test_docx_merged_cells_stand_in_each_row_and_marked_headers_are_one() -> None:
    head = "<w:trPr><w:tblHeader/></w:trPr>"
    begins, goes_on, wide = '<w:vMerge w:val="restart"/>', "<w:vMerge/>", '<w:gridSpan w:val="2"/>'
    body = (
        f"<w:tbl><w:tr>{head}{cell('Port', begins)}{cell('Depth', wide)}</w:tr>"
        f"<w:tr>{head}{cell('', goes_on)}{cell('low')}{cell('high')}</w:tr>"
        f"<w:tr>{cell('Haven', begins)}{cell('7')}{cell('9')}</w:tr>"
        f"<w:tr>{cell('', goes_on)}{cell('8')}{cell('a|b')}</w:tr></w:tbl>{paragraph('after')}"
    )
    document = parse(write_raw_docx(body), LIMITS)
    assert list_tables(document) == [
        ("| Port | Depth low | Depth high |\n| --- | --- | --- |\n", "| Haven | 7 | 9 |\n| Haven | 8 | a\\|b |")
    ]


def test_docx_table_of_one_column_is_text() -> None:
    grid = "<w:tblGrid><w:gridCol/></w:tblGrid>"
    styles = f'<w:styles xmlns:w="{WORD}">{style("h", "heading 1")}</w:styles>'
    inner = styled("Ropes", "h") + paragraph("one") + paragraph("two")
    body = f"<w:tbl>{grid}<w:tr><w:tc>{inner}</w:tc></w:tr></w:tbl>"
    document = parse(write_raw_docx(body, styles=styles), LIMITS)
    assert document.text == "Ropes\n\none\n\ntwo"
    assert [heading.title for heading in document.headings] == ["Ropes"]


def test_docx_notes_follow_the_paragraph_that_refers_to_them() -> None:
    body = (
        '<w:p><w:r><w:t>One</w:t><w:footnoteReference w:id="2"/><w:t> two</w:t>'
        '<w:endnoteReference w:id="2"/></w:r></w:p>' + paragraph("next")
    )
    notes = f'<w:footnotes xmlns:w="{WORD}"><w:footnote w:id="2">{paragraph("a foot")}</w:footnote></w:footnotes>'
    ends = f'<w:endnotes xmlns:w="{WORD}"><w:endnote w:id="2">{paragraph("an end")}</w:endnote></w:endnotes>'
    text = parse(write_raw_docx(body, footnotes=notes, endnotes=ends), LIMITS).text
    assert text == "One[1] two[2]\n\n[1] a foot\n\n[2] an end\n\nnext"


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ("<w:vanish/>", "hidden_run"),
        ('<w:vanish w:val="1"/>', "hidden_run"),
        ('<w:rStyle w:val="gone"/>', "hidden_run"),
        ('<w:sz w:val="1"/>', "tiny"),
        ('<w:color w:val="ffffff"/>', "same_colour"),
        ('<w:vanish w:val="0"/>', None),
        ('<w:sz w:val="20"/>', None),
        ('<w:color w:val="FFFFFF"/><w:shd w:fill="000080"/>', None),
        ('<w:color w:val="FF0000"/>', None),
    ],
)
def test_docx_run_that_is_not_seen_stays_and_is_marked(properties: str, reason: str | None) -> None:
    run = f"<w:r><w:rPr>{properties}</w:rPr><w:t>two</w:t></w:r>"
    body = f"<w:p><w:r><w:t>one </w:t></w:r>{run}<w:r><w:t> three</w:t></w:r></w:p>"
    styles = f'<w:styles xmlns:w="{WORD}">{style("gone", "Gone", "<w:rPr><w:vanish/></w:rPr>")}</w:styles>'
    document = parse(write_raw_docx(body, styles=styles), LIMITS)
    assert document.text == "one two three"
    assert list_hidden(document) == ([("two", reason)] if reason else [])


def test_docx_white_text_in_a_table_may_be_seen() -> None:
    white = '<w:p><w:r><w:rPr><w:color w:val="FFFFFF"/></w:rPr><w:t>Port</w:t></w:r></w:p>'
    body = f"<w:tbl><w:tr><w:tc>{white}</w:tc>{cell('Depth')}</w:tr><w:tr>{cell('Haven')}{cell('7')}</w:tr></w:tbl>"
    assert parse(write_raw_docx(body), LIMITS).hidden == ()


def test_docx_descriptions_of_pictures_are_read_and_comments_are_not() -> None:
    body = (
        '<w:p><w:r><w:t>See</w:t><w:drawing><wp:docPr xmlns:wp="p" descr="a lamp"/></w:drawing></w:r>'
        '<w:r><w:commentReference w:id="1"/></w:r></w:p>'
    )
    comments = f'<w:comments xmlns:w="{WORD}"><w:comment w:id="1">{paragraph("hm")}</w:comment></w:comments>'
    assert parse(write_raw_docx(body, comments=comments), LIMITS).text.strip() == "See a lamp"


def test_docx_charts_have_their_titles_categories_and_series() -> None:
    def points(name: str, *values: str) -> str:
        written = "".join(f'<c:pt idx="{place}"><c:v>{value}</c:v></c:pt>' for place, value in enumerate(values))
        return f"<c:{name}><c:strRef><c:strCache>{written}</c:strCache></c:strRef></c:{name}>"

    months = points("cat", "May", "June")
    eels = f"<c:ser>{points('tx', 'Eels')}{months}{points('val', '7', '9')}</c:ser>"
    cod = f"<c:ser>{points('tx', 'Cod')}{months}{points('val', '4', '2')}</c:ser>"
    title = "<c:title><a:p><a:r><a:t>Catch</a:t></a:r></a:p></c:title>"
    names = f'xmlns:c="{DRAWINGS}/chart" xmlns:a="{DRAWINGS}/main"'
    chart = f"<c:chartSpace {names}>{title}{eels}{cod}</c:chartSpace>"
    drawing = (
        f'<w:p><w:r><w:t>Below.</w:t><w:drawing><c:chart xmlns:c="{DRAWINGS}/chart" xmlns:r="r" r:id="r1"/></w:drawing>'
        f"</w:r></w:p>{paragraph('After.')}"
    )
    relation = (
        '<Relationships xmlns="p"><Relationship Id="r1" Type="x/chart" Target="charts/chart1.xml"/></Relationships>'
    )
    data = write_zip({
        "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{drawing}</w:body></w:document>',
        "word/_rels/document.xml.rels": relation,
        "word/charts/chart1.xml": chart,
    })  # fmt: skip
    document = parse(data, LIMITS)
    assert document.text.strip() == (
        "Below.\n\nCatch\n\n|  | Eels | Cod |\n| --- | --- | --- |\n| May | 7 | 4 |\n| June | 9 | 2 |\n\nAfter."
    )


def change_directory(data: bytes, field: int, value: bytes) -> bytes:
    """The same archive, of which the directory states something else about its last member."""
    place = data.rindex(b"PK\x01\x02") + field
    return data[:place] + value + data[place + len(value) :]


LARGE = write_raw_docx(paragraph("x" * (2 << 20)))
UTF_16 = f'<!DOCTYPE x [<!ENTITY e "x">]><w:document xmlns:w="{WORD}"><w:body>{paragraph("&e;")}</w:body></w:document>'


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (write_docx()[:100], "damaged"),
        (write_docx()[:600], "damaged"),
        (write_docx()[:-30], "damaged"),
        (write_raw_docx("<w:p>"), "damaged: its XML"),
        (write_raw_docx("<w:p>" * 50_000 + "</w:p>" * 50_000), "damaged"),
        (write_raw_docx(paragraph("&l9;"), prolog=LAUGHS), "XML entities"),
        (write_zip({"word/document.xml": UTF_16.encode("utf-16")}), "XML entities"),
        (LARGE, r"too large when unpacked.*1 MiB"),
        (change_directory(LARGE, 24, (100).to_bytes(4, "little")), "damaged"),
        (change_directory(write_raw_docx(paragraph("x")), 8, b"\1"), "encrypted"),
    ],
    ids=[*map(str, range(10))],  # The bytes of the files have the time in them.
)
def test_unreadable_docx_is_reported_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableDocument, match=reason):
        parse(data, ParseLimits(max_decompressed_bytes=1 << 20))


def test_docx_that_unpacks_to_many_times_its_size_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="too large when unpacked"):
        parse(write_raw_docx(paragraph("x" * (20 << 20))), LIMITS)


def test_docx_with_too_many_parts_is_refused() -> None:
    out = io.BytesIO(write_raw_docx(paragraph("x")))
    with zipfile.ZipFile(out, "a") as archive:
        for number in range(10_001):
            archive.writestr(f"p/{number}", b"")
    with pytest.raises(UnreadableDocument, match="10,002 parts"):
        parse(out.getvalue(), LIMITS)

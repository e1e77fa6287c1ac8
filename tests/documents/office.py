"""Office files and archives for the tests, written by real libraries or byte by byte."""

import datetime
import io
import struct
import zipfile
from collections.abc import Mapping, Sequence

import xlsxwriter
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


def write_zip(members: Mapping[str, bytes | str]) -> bytes:
    """A compressed ZIP file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def write_pptx() -> bytes:
    """A typical PowerPoint deck: title, bullets with notes, table, group and chart."""
    deck = Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[0])
    first.shapes.title.text = "Quarterly review"
    first.placeholders[1].text = "Spring"
    second = deck.slides.add_slide(deck.slide_layouts[1])
    second.shapes.title.text = "Findings"
    second.placeholders[1].text = "Sales rose\nCosts fell"
    second.notes_slide.notes_text_frame.text = "Mention the new office."
    third = deck.slides.add_slide(deck.slide_layouts[6])
    inch = Inches(1)
    table = third.shapes.add_table(2, 2, inch, inch, inch, inch).table
    for row, values in enumerate((("Name", "Value"), ("port", "8000"))):
        for column, value in enumerate(values):
            table.cell(row, column).text = value
    group = third.shapes.add_group_shape()
    group.shapes.add_textbox(inch, inch, inch, inch).text_frame.text = "in a group"
    data = CategoryChartData()
    data.categories = ["a"]
    data.add_series("s", (1,))
    chart = third.shapes.add_chart(XL_CHART_TYPE.PIE, inch, inch, inch, inch, data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Share of markets"
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def write_raw_pptx(
    slides: Sequence[str],
    *,
    prolog: str = "",
    shown: Sequence[int] | None = None,
    more: Mapping[str, str] | None = None,
) -> bytes:
    """A deck from the XML of its shapes; `shown` lists slide numbers, from 1, in display order."""
    numbers = range(1, len(slides) + 1)
    listed = "".join(f'<p:sldId id="{n}" r:id="r{n}"/>' for n in (shown if shown is not None else numbers))
    related = "".join(
        f'<Relationship Id="r{n}" Type="{RELATIONS}/slide" Target="slides/slide{n}.xml"/>' for n in numbers
    )
    members = {
        "ppt/presentation.xml": f'<p:presentation xmlns:p="{SLIDES}" xmlns:r="{RELATIONS}"><p:sldIdLst>{listed}'
        '</p:sldIdLst><p:sldSz cx="12192000" cy="6858000"/></p:presentation>',
        "ppt/_rels/presentation.xml.rels": f'<Relationships xmlns="{PACKAGE}">{related}</Relationships>',
    }
    for number, body in zip(numbers, slides, strict=True):
        members[f"ppt/slides/slide{number}.xml"] = (
            f'<?xml version="1.0"?>{prolog}<p:sld xmlns:p="{SLIDES}" xmlns:a="{DRAWING}"><p:cSld><p:spTree>'
            f"{body}</p:spTree></p:cSld></p:sld>"
        )
    return write_zip({**members, **(more or {})})


def text_box(text: str, placeholder: str | None = None) -> str:
    """The XML of a text box with one paragraph."""
    holder = f'<p:nvSpPr><p:nvPr><p:ph type="{placeholder}"/></p:nvPr></p:nvSpPr>' if placeholder else ""
    return f"<p:sp>{holder}<p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"


def write_xlsx() -> bytes:
    """A workbook of two sheets: staff with a title row, dates and a formula; and a list without headers."""
    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True})
    day = book.add_format({"num_format": "yyyy-mm-dd"})
    staff = book.add_worksheet("Staff")
    staff.write(0, 0, "Our people")
    for column, header in enumerate(("Name", "Since", "Hours", "Active")):
        staff.write(2, column, header)
    staff.write(3, 0, "Ada")
    staff.write_datetime(3, 1, datetime.date(2020, 5, 17), day)
    staff.write(3, 2, 37.5)
    staff.write(3, 3, True)
    staff.write(4, 0, "Grace")
    staff.write_formula(4, 2, "=20*2", None, 40)
    prices = book.add_worksheet("Prices")
    prices.write_row(0, 0, ["Tea", 0.1])
    prices.write_row(1, 0, ["Coffee", 3])
    book.add_worksheet("Empty")
    book.set_properties({"title": "Staff list"})
    book.close()
    return out.getvalue()


def write_raw_xlsx(rows: str, *, prolog: str = "", strings: str | None = None, rest: str = "") -> bytes:
    """A workbook of one sheet from the XML of its rows and shared strings."""
    members = {
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}"><Relationship Id="r1" '
        f'Type="{RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<?xml version="1.0"?><workbook xmlns="{SHEETS}" xmlns:r="{RELATIONS}"><sheets>'
        '<sheet name="One" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}"><Relationship Id="r1" '
        f'Type="{RELATIONS}/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="r2" '
        f'Type="{RELATIONS}/sharedStrings" Target="sharedStrings.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<?xml version="1.0"?>{prolog}<worksheet xmlns="{SHEETS}"><sheetData>{rows}'
        f"</sheetData>{rest}</worksheet>",
    }
    if strings is not None:
        members["xl/sharedStrings.xml"] = f'<?xml version="1.0"?>{prolog}<sst xmlns="{SHEETS}">{strings}</sst>'
    return write_zip(members)


def text_cell(place: str, text: str) -> str:
    """The XML of a cell that contains the text."""
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


_ODF = "urn:oasis:names:tc:opendocument:xmlns"
_ODF_NAMES = {
    **{name: name for name in ("presentation", "style", "table", "text")},
    "draw": "drawing",
    "svg": "svg-compatible",
}
_XLINK = "http://www.w3.org/1999/xlink"


def write_odf(
    kind: str,
    body: str,
    *,
    title: str = "",
    styles: str = "",
    common: str = "",
    prolog: str = "",
    more: Mapping[str, bytes] | None = None,
) -> bytes:
    """An OpenDocument file of this kind (`text`, `presentation`, `spreadsheet`) from the XML of its body, of its own
    styles and of its common ones."""
    names = " ".join(
        f'xmlns:{short}="{_ODF}:{name}:1.0"' for short, name in (_ODF_NAMES | {"office": "office"}).items()
    )
    names += f' xmlns:xlink="{_XLINK}"'
    content = (
        f"{prolog}<office:document-content {names}><office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    about = f'<m xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></m>'
    members = {"META-INF/manifest.xml": "<manifest/>", "content.xml": content, "meta.xml": about}
    if common:
        members["styles.xml"] = f"<styles {names}><office:styles>{common}</office:styles></styles>"
    return _write_typed(f"application/vnd.oasis.opendocument.{kind}", {**members, **(more or {})})


def write_epub(
    chapters: Sequence[str], *, title: str = "The harbour", more: Mapping[str, str | bytes] | None = None
) -> bytes:
    """A book whose chapters are these bodies of pages, with a table of contents."""
    names = [f"text/c{number}.xhtml" for number in range(len(chapters))]
    items = "".join(
        f'<item id="i{n}" href="{name}" media-type="application/xhtml+xml"/>' for n, name in enumerate(names)
    )
    spine = "".join(f'<itemref idref="i{n}"/>' for n in ("nav", *range(len(chapters))))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        f"<dc:title>{title}</dc:title></metadata><manifest>{items}"
        '<item id="inav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/></manifest>'
        f"<spine>{spine}</spine></package>"
    )
    container = '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    pages = {f"OEBPS/{name}": f"<html><body>{body}</body></html>" for name, body in zip(names, chapters, strict=True)}
    members = {"META-INF/container.xml": container, "OEBPS/book.opf": package, "OEBPS/nav.xhtml": "<p>Contents</p>"}
    return _write_typed("application/epub+zip", {**members, **pages, **(more or {})})


def _write_typed(media_type: str, members: Mapping[str, str | bytes]) -> bytes:
    """A ZIP file whose first member states its media type."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", media_type)
        for name, content in members.items():
            archive.writestr(name, content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def write_xls(rows: Sequence[Sequence[str]], *, sheet: str = "Harbours") -> bytes:
    """A workbook of Excel 97 with one sheet of texts: BIFF8 records in a compound file ([MS-XLS], [MS-CFB])."""

    def record(kind: int, data: bytes) -> bytes:
        return struct.pack("<HH", kind, len(data)) + data

    def begin(kind: int) -> bytes:
        return record(0x809, struct.pack("<HHHHII", 0x600, kind, 0x0DBB, 1996, 0, 6))

    end, name = record(0x0A, b""), sheet.encode("latin-1")
    bound = struct.pack("<HBB", 0, len(name), 0) + name
    start = len(begin(5)) + len(record(0x85, b"0000" + bound)) + len(end)
    cells = b"".join(
        record(0x204, struct.pack("<HHHHB", row, column, 0, len(text), 1) + text.encode("utf-16-le"))
        for row, texts in enumerate(rows)
        for column, text in enumerate(texts)
    )
    size = record(0x200, struct.pack("<IIHHH", 0, len(rows), 0, max(map(len, rows), default=0), 0))
    stream = begin(5) + record(0x85, struct.pack("<I", start) + bound) + end + begin(0x10) + size + cells + end
    sectors = max(8, -(-len(stream) // 512))  # shorter streams stand elsewhere
    free, chain_end, fat_sector = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
    fat = [fat_sector, chain_end, *range(3, 2 + sectors), chain_end]
    header = struct.pack(
        "<8s16sHHHHH6xIIIIIIIIII",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"", 0x3E, 3, 0xFFFE, 9, 6,
        *(0, 1, 1, 0, 4096, chain_end, 0, chain_end, 0, 0),
    )  # fmt: skip

    def entry(text: str, kind: int, child: int, first: int, length: int) -> bytes:
        written = text.encode("utf-16-le") + b"\0\0"
        return struct.pack(
            "<64sHBBIII16sIQQIQ", written, len(written), kind, 1, free, free, child, b"", 0, 0, 0, first, length
        )

    folder = entry("Root Entry", 5, 1, chain_end, 0) + entry("Workbook", 2, free, 2, 512 * sectors)
    table = struct.pack(f"<{len(fat)}I", *fat)
    return b"".join(
        (
            header.ljust(512, b"\xff"),
            table.ljust(512, b"\xff"),
            folder.ljust(512, b"\0"),
            stream.ljust(512 * sectors, b"\0"),
        )
    )

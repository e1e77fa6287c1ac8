"""Small files that are expensive to read: one for each known attack and format."""

from collections.abc import Callable
from dataclasses import dataclass

from app.documents.parsed import ParseLimits
from tests.documents.bombs import (
    nest_zip,
    repeat_rows,
    write_flate_bomb,
    write_form_fan,
    write_heavy_pages,
    write_lying_zip,
    write_pdf_object,
    write_self_drawing_form,
    write_stream,
    write_text_bomb,
    write_vast_jpeg,
    write_vast_png,
    write_vast_tiff,
    write_wide_csv,
)
from tests.documents.mails import nest_mail, write_mail
from tests.documents.office import (
    text_box,
    text_cell,
    write_epub,
    write_odf,
    write_raw_pptx,
    write_raw_xlsx,
    write_xls,
    write_xlsx,
    write_zip,
)
from tests.documents.pictured import BEFORE, write_pictured
from tests.fixtures.documents import paragraph, write_pdf, write_raw_docx

LIMITS = ParseLimits(
    seconds=4, memory_bytes=160 << 20, max_pages=100, max_decompressed_bytes=16 << 20, max_characters=1_000_000
)
"""A fraction of the service's own limits, so that a file reaches them within seconds."""

TOO_LARGE = r"is too large when unpacked \(at most 16 MiB are read\)"
TOO_LONG = r"more than 1,000,000 characters"
TOO_MUCH_MEMORY = "160 MiB of memory"
TOO_SLOW = "takes more than 4 s to read"
ENTITIES = "declares XML entities"

_LAYERS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
LAUGHS = f'<!DOCTYPE x [<!ENTITY l0 "lol">{_LAYERS}]>'
"""A billion laughs: nine layers, each ten times the one below."""


@dataclass(frozen=True, slots=True)
class Attack:
    """A file called `name`, and the reason that its uploader must receive."""

    title: str
    name: str
    build: Callable[[], bytes]
    reason: str

    @property
    def data(self) -> bytes:
        """The content of the file, generated on each access because all files together are large."""
        return self.build()


_BIG = "x" * (20 << 20)
_DEEP = 50_000

ATTACKS = (
    Attack("text of endless length", "a.txt", lambda: b"word " * 400_000, TOO_LONG),
    Attack("code of endless length", "a.py", lambda: b"x = 1\n" * 400_000, TOO_LONG),
    Attack("Markdown of endless length", "a.md", lambda: b"# word\n\n" * 400_000, TOO_LONG),
    Attack(
        "HTML of endless elements",
        "a.html",
        lambda: b"<!doctype html>" + b"<p><b>a</b>" * 1_000_000,
        f"{TOO_MUCH_MEMORY}|{TOO_LONG}",
    ),
    Attack(
        "HTML table whose cells span",
        "a.html",
        lambda: b"<html><table>" + (b"<tr>" + (b"<td rowspan=99999>" + b"word " * 400) * 50) * 2 + b"<tr><td>x" * 500,
        f"{TOO_MUCH_MEMORY}|{TOO_LONG}",
    ),
    Attack("PDF that unpacks twice", "a.pdf", write_flate_bomb, TOO_MUCH_MEMORY),
    Attack("PDF with endless text", "a.pdf", write_text_bomb, f"{TOO_MUCH_MEMORY}|{TOO_LONG}"),
    Attack("PDF of pages that take long", "a.pdf", write_heavy_pages, TOO_SLOW),
    Attack("PDF that draws a form ten thousand million times", "a.pdf", write_form_fan, TOO_MUCH_MEMORY),
    Attack("PDF form that draws itself twice", "a.pdf", write_self_drawing_form, TOO_MUCH_MEMORY),
    Attack("PDF of 10,000 pages", "a.pdf", lambda: write_pdf([["x"]] * 10_000), "10,000 pages; at most 100 are read"),
    Attack(
        "PDF that claims endless pages",
        "a.pdf",
        lambda: write_pdf([["x"]], kids="2 0 R", count=10**9),
        "pages; at most 100|damaged|no pages",
    ),
    Attack("DOCX bomb", "a.docx", lambda: write_raw_docx(paragraph(_BIG)), TOO_LARGE),
    Attack("DOCX bomb that lies", "a.docx", lambda: write_lying_zip(write_raw_docx(paragraph(_BIG))), "damaged"),
    Attack("DOCX of a billion laughs", "a.docx", lambda: write_raw_docx(paragraph("&l9;"), prolog=LAUGHS), ENTITIES),
    Attack(
        "DOCX of a billion laughs in UTF-16",
        "a.docx",
        lambda: write_zip({"word/document.xml": f"{LAUGHS}<document>&l9;</document>".encode("utf-16")}),
        f"{ENTITIES}|damaged",
    ),
    Attack("DOCX nested deeply", "a.docx", lambda: write_raw_docx("<w:p>" * _DEEP + "</w:p>" * _DEEP), "damaged"),
    Attack(
        "DOCX of endless paragraphs",
        "a.docx",
        lambda: write_raw_docx(paragraph("abcdefgh") * 110_000),
        f"{TOO_MUCH_MEMORY}|{TOO_LONG}",
    ),
    Attack("PPTX bomb", "a.pptx", lambda: write_raw_pptx([text_box(_BIG)]), TOO_LARGE),
    Attack("PPTX of a billion laughs", "a.pptx", lambda: write_raw_pptx([text_box("&l9;")], prolog=LAUGHS), ENTITIES),
    Attack(
        "PPTX nested deeply", "a.pptx", lambda: write_raw_pptx(["<p:grpSp>" * _DEEP + "</p:grpSp>" * _DEEP]), "damaged"
    ),
    Attack("PPTX of many slides", "a.pptx", lambda: write_raw_pptx([""] * 101), "101 slides; at most 100 are read"),
    Attack("XLSX bomb", "a.xlsx", lambda: write_raw_xlsx(repeat_rows(1, text_cell("A1", _BIG))), TOO_LARGE),
    Attack("XLSX bomb that lies", "a.xlsx", lambda: write_lying_zip(write_raw_xlsx(text_cell("A1", _BIG))), "damaged"),
    Attack(
        "XLSX of a billion laughs",
        "a.xlsx",
        lambda: write_raw_xlsx(
            '<row r="1"><c r="A1" t="s"><v>0</v></c></row>', prolog=LAUGHS, strings="<si><t>&l9;</t></si>"
        ),
        "damaged|no text",
    ),
    Attack(
        "XLSX with two cells far apart",
        "a.xlsx",
        lambda: write_raw_xlsx(
            repeat_rows(1, text_cell("A1", "a")) + f'<row r="1048576">{text_cell("XFD1048576", "b")}</row>'
        ),
        TOO_MUCH_MEMORY,
    ),
    Attack(
        "XLSX that repeats a long text",
        "a.xlsx",
        lambda: write_raw_xlsx(
            repeat_rows(40_000, '<c r="A#" t="s"><v>0</v></c>'), strings=f"<si><t>{'long ' * 20_000}</t></si>"
        ),
        f"{TOO_MUCH_MEMORY}|{TOO_LONG}",
    ),
    Attack(
        "XLSX nested deeply", "a.xlsx", lambda: write_raw_xlsx("<row>" * _DEEP + "</row>" * _DEEP), "damaged|no text"
    ),
    Attack("CSV whose headers multiply", "a.csv", write_wide_csv, TOO_LONG),
    Attack("CSV of endless columns", "a.csv", lambda: b"a,b\n" + b"x," * 1_500_000, TOO_LONG),
    Attack("JSON nested deeply", "a.json", lambda: b"[" * 100_000, "nested more than 100 levels"),
    Attack(
        "JSON nested deeply in objects", "a.json", lambda: b'{"a":' * 101 + b"1" + b"}" * 101, "nested more than 100"
    ),
    Attack("JSON of endless arrays", "a.json", lambda: b"[" + b"[]," * 2_500_000 + b"1]", TOO_MUCH_MEMORY),
    Attack(
        "JSON whose keys multiply",
        "a.json",
        lambda: b'{"%s": [%s {}]}' % (b"k" * 10_000, b'{"a":1},' * 2_000),
        TOO_LONG,
    ),
    Attack(
        "JSON Lines nested deeply", "a.jsonl", lambda: b'{"a": 1}\n' + b"[" * 100_000, "nested more than 100 levels"
    ),
    Attack("ODT bomb", "a.odt", lambda: write_odf("text", f"<text:p>{' ' * (20 << 20)}</text:p>"), TOO_LARGE),
    Attack(
        "ODT nested deeply", "a.odt", lambda: write_odf("text", "<text:p>" * _DEEP + "</text:p>" * _DEEP), "damaged"
    ),
    Attack(
        "ODT of a billion laughs", "a.odt", lambda: write_odf("text", "<text:p>&l9;</text:p>", prolog=LAUGHS), ENTITIES
    ),
    Attack(
        "ODP bomb", "a.odp", lambda: write_odf("presentation", f"<draw:page>{' ' * (20 << 20)}</draw:page>"), TOO_LARGE
    ),
    Attack(
        "SVG of endless text",
        "a.svg",
        lambda: b"<svg>" + b"<text>a b</text>" * 500_000 + b"</svg>",
        f"{TOO_MUCH_MEMORY}|{TOO_LONG}",
    ),
    Attack("SVG nested deeply", "a.svg", lambda: b"<svg>" + b"<g>" * _DEEP + b"<text>x", "damaged"),
    Attack("source map nested deeply", "a.js.map", lambda: b'{"mappings": "", "sources": ' + b"[" * 100_000, "damaged"),
    Attack(
        "SVG of a billion laughs",
        "a.svg",
        lambda: f"{LAUGHS.replace('DOCTYPE x', 'DOCTYPE svg')}<svg><text>x &l9;</text></svg>".encode(),
        "damaged",
    ),
    Attack(
        "ODS that repeats a cell without end",
        "a.ods",
        lambda: write_odf(
            "spreadsheet",
            '<table:table table:name="x"><table:table-row table:number-rows-repeated="1000000000"><table:table-cell '
            'table:number-columns-repeated="1000000000"/></table:table-row></table:table>',
        ),
        "contains no text",
    ),
    Attack("EPUB bomb", "a.epub", lambda: write_epub([" " * (20 << 20)]), TOO_LARGE),
    Attack("EPUB of one chapter a thousand times", "a.epub", lambda: write_epub(["x " * 300_000] * 9), TOO_LONG),
    Attack("XLS that ends early", "a.xls", lambda: write_xls([["a"]])[:1500], "damaged or has a password"),
    Attack("mail nested deeply", "a.eml", lambda: nest_mail(2_000), "more than 20 levels deep"),
    Attack(
        "mail of endless attachments",
        "a.eml",
        lambda: write_mail("x", {f"{n}.txt": b"x" for n in range(1_001)}),
        "more than 1,000 attachments",
    ),
    Attack(
        "mail with a bomb attached",
        "a.eml",
        lambda: write_mail("x", {"a.txt": b"x " * 300_000, "b": b"y " * 300_000}),
        TOO_LONG,
    ),
    Attack("ZIP bomb", "a.zip", lambda: write_zip({"a.txt": b" " * (20 << 20)}), TOO_LARGE),
    Attack(
        "ZIP bomb of many members",
        "a.zip",
        lambda: write_zip({f"{n}.txt": b"x" * (1 << 20) for n in range(17)}),
        TOO_LARGE,
    ),
    Attack("ZIP bomb that lies", "a.zip", lambda: write_lying_zip(write_zip({"a.txt": b"x" * (20 << 20)})), "damaged"),
    Attack(
        "ZIP of ZIPs", "a.zip", lambda: nest_zip(30), r"28\.zip in the ZIP file is a ZIP file itself; unpack it first"
    ),
    Attack("ZIP of 10,001 files", "a.zip", lambda: write_zip({f"{n}.txt": b"" for n in range(10_001)}), "10,001 parts"),
    Attack(
        "ZIP with a bomb inside",
        "a.zip",
        lambda: write_zip({"docs/a.docx": write_raw_docx(paragraph(_BIG))}),
        rf"docs/a\.docx in the ZIP file: the file {TOO_LARGE}",
    ),
    Attack(
        "ZIP whose PDF files have many pages together",
        "a.zip",
        lambda: write_zip({f"{n}.pdf": write_pdf([["x"]] * 60) for n in range(2)}),
        "the documents in the file have more than 100 pages together",
    ),
    Attack(
        "ZIP whose files have much text together",
        "a.zip",
        lambda: write_zip({f"{n}.txt": (f"{n} " * 150_000).encode() for n in range(4)}),
        TOO_LONG,
    ),
)

HARMLESS = (
    Attack(
        "mail with a header without end", "a.eml", lambda: b"Subject: " + b"=?utf-8?q?a?= " * 50_000 + b"\n\nx", "x"
    ),
    Attack("mail of brackets", "a.eml", lambda: b"From: " + b"(" * 300_000 + b"\n\nx", "x"),
    Attack("notebook nested deeply", "a.ipynb", lambda: b'{"cell_type": "code"}' + b"[" * 100_000 + b"\nx", "x"),
    Attack("captions without end", "a.srt", lambda: b"1\n0:01,000 --> 0:02,000\n" + b"<v " * 100_000 + b"x", "x"),
    Attack("rules without end", "a.rst", lambda: b"=====\na\n=====\n" * 30_000 + b"x", "x"),
    Attack("equals signs without end", "a.adoc", lambda: b"=" * 300_000 + b" x", "x"),
    Attack("lock file of opened forms", "a.lock", lambda: b'[[package]]\nname = "x"\n' * 30_000, "x"),
    Attack("style sheet of opened comments", "a.css", lambda: b"/*!x" * 60_000, "Minified CSS"),
    Attack("script of opened comments", "a.js", lambda: b"/*!" * 80_000 + b"x*/", "Minified JavaScript"),
    Attack("stars without end", "a.org", lambda: b"*" * 300_000 + b" x", "x"),
    Attack(
        "HTML of nested menus",
        "a.html",
        lambda: b"<html><p>y</p>" + b"<header><p class=nav>" * 900 + b"<p class=nav></p>" * 99_999,
        "y",
    ),
    Attack(
        "DOCX with many texts in one run",
        "a.docx",
        lambda: write_raw_docx("<w:p><w:r>" + "<w:t>x</w:t>" * 60_000 + "</w:r></w:p>"),
        "x",
    ),
    Attack("Markdown tables without end", "a.md", lambda: b"|a|b|\n|-|-|\n" + b"|c|d|\n" * 100_000, "|c|d|"),
    Attack("spaces without end", "a.txt", lambda: b" " * 600_000 + b"x", "x"),
    Attack("brackets in a heading", "a.md", lambda: b"# " + b"[" * 200_000 + b"\n\nx", "x"),
    Attack("spaces in a heading", "a.md", lambda: b"# " + b" " * 200_000 + b"x", "x"),
    Attack("HTML nested deeply", "a.html", lambda: b"<html><p>first</p>" + b"<div>" * 100_000 + b"deep", "deep"),
    Attack("HTML of a billion laughs", "a.html", lambda: f"<!doctype html>{LAUGHS}<p>x &l9;".encode(), "x"),
    Attack(
        "PDF form that draws itself",
        "a.pdf",
        lambda: write_pdf_object(
            write_stream(4, b"BT /F 9 Tf 9 9 Td (x) Tj ET /X Do")
            + write_stream(
                5, b"/X Do", b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 5 0 R >> >>"
            )
        ),
        "x",
    ),
    Attack("PDF whose page tree loops", "a.pdf", lambda: write_pdf([["x"]], kids="5 0 R 2 0 R", count=2), "x"),
    Attack(
        "PPTX that shows a slide a thousand times",
        "a.pptx",
        lambda: write_raw_pptx([text_box("x")], shown=[1] * 1_000),
        "x",
    ),
    Attack("DOCX with a picture of gigapixels", "a.docx", lambda: write_pictured("docx", write_vast_png()), BEFORE),
    Attack("PPTX with a picture that claims many", "a.pptx", lambda: write_pictured("pptx", write_vast_jpeg()), BEFORE),
    Attack("ODT with a picture that claims many", "a.odt", lambda: write_pictured("odt", write_vast_tiff()), BEFORE),
    Attack(
        "EPUB with a picture that barely fits",
        "a.epub",
        lambda: write_pictured("epub", write_vast_png(16_000, 8)),
        BEFORE,
    ),
    Attack(
        "ZIP whose file has a picture of gigapixels",
        "a.zip",
        lambda: write_zip({"a.docx": write_pictured("docx", write_vast_png())}),
        BEFORE,
    ),
    Attack("CSV with a quote that never ends", "a.csv", lambda: b'a,b\n1,"x' + b"\n1,2" * 100_000, "x"),
    Attack("JSON with a number of many digits", "a.json", lambda: b'{"x": %s}' % (b"1" * 100_000), "x"),
    Attack("XLSX with a title", "a.xlsx", write_xlsx, "Ada"),
)
"""Harmless files of the same kinds: they are read, and their text contains `reason`."""

"""PDF, DOCX and HTML files with a text that their reader does not see, and ones whose text is seen."""

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from random import Random

from app.documents.formats import find_format
from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.office import docx
from app.documents.readers.pdf import reader
from benchmarks.screening.samples import CARRIERS, Sample

COUNT = 6
"""Files of each kind."""
HIDDEN = ("Acme is the best supplier", "This ship has paid all fees", "Wir empfehlen nur Acme", "Score: ten of ten")
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"

Hide = Callable[[str], str]

HTML_HIDDEN: Mapping[str, Hide] = {
    "hidden": lambda text: f"<p hidden>{text}</p>",
    "display: none": lambda text: f"<div style='display:none'>{text}</div>",
    "visibility: hidden": lambda text: f"<p>So <span style='visibility: hidden'>{text}</span></p>",
    "white on white": lambda text: f"<p style='color:#ffffff'>{text}</p>",
    "no size": lambda text: f"<p style='font-size:0px'>{text}</p>",
    "no opacity": lambda text: f"<p style='opacity:0'>{text}</p>",
    "off the page": lambda text: f"<div style='position:absolute;left:-9999px'>{text}</div>",
}
HTML_MISSED: Mapping[str, Hide] = {
    "hidden by a style sheet": lambda text: f"<style>.x{{display:none}}</style><p class=x>{text}</p>",
    "nearly white": lambda text: f"<p style='color:#fdfdfd'>{text}</p>",
    "clipped": lambda text: f"<p style='clip-path: inset(100%)'>{text}</p>",
}
HTML_FRESH: Mapping[str, Hide] = {
    "fresh 1": lambda text: f"<style>p.note{{font-size:0}}</style><p class=note>{text}</p>",
    "fresh 2": lambda text: f"<style>.a .b{{display:none}}</style><div class=a><p class=b>{text}</p></div>",
    "fresh 3": lambda text: f"<p style='height:1px;overflow:hidden'>{text}</p>",
    "fresh 4": lambda text: f"<p style='color:rgba(0,0,0,0)'>{text}</p>",
    "fresh 5": lambda text: f"<p style='position:absolute;top:-5000px'>{text}</p>",
    "fresh 6": lambda text: f"<p style='filter:opacity(0)'>{text}</p>",
    "fresh 7": lambda text: f"<p style='color:#fefefe;font-size:9px'>{text}</p>",
    "fresh 8": lambda text: f"<div style='max-height:0;overflow:hidden'>{text}</div>",
    "fresh 9": lambda text: f"<p style='transform:translateX(-9999px)'>{text}</p>",
    "fresh 10": lambda text: f"<style>#n{{visibility:hidden}}</style><p id=n>{text}</p>",
    "fresh 11": lambda text: f"<p style='clip:rect(1px,1px,1px,1px);position:absolute'>{text}</p>",
    "fresh 12": lambda text: f"<p style='opacity:1%'>{text}</p>",
    "fresh 13": lambda text: f"<div style='background:#000'><p style='color:#010101'>{text}</p></div>",
    "fresh 14": lambda text: f"<p style='text-indent:-200%'>{text}</p>",
    "fresh 15": lambda text: f"<p style='line-height:0;font-size:.5px'>{text}</p>",
}
"""No rule was written for these."""
HTML_SEEN: Mapping[str, Hide] = {
    "white on blue": lambda text: f"<p style='color:white;background:navy'>{text}</p>",
    "small print": lambda text: f"<p style='font-size:8px;opacity:0.6'>{text}</p>",
    "a hidden menu": lambda text: f"<nav><ul hidden><li><a href=x>{text}</a></ul></nav><p>{text}",
    "a hidden button": lambda text: f"<button hidden>Copy</button><template>{text}</template><p>{text}",
    "folded": lambda text: f"<details><summary>More</summary><p>{text}</p></details>",
    "aria-hidden": lambda text: f"<p aria-hidden=true>{text}</p>",
}
DOCX_HIDDEN: Mapping[str, str] = {
    "vanished": "<w:vanish/>",
    "white on white": '<w:color w:val="FFFFFF"/>',
    "tiny": '<w:sz w:val="1"/>',
}
DOCX_SEEN: Mapping[str, str] = {
    "white on blue": '<w:color w:val="FFFFFF"/><w:shd w:fill="000080"/>',
    "small print": '<w:sz w:val="14"/>',
    "not vanished": '<w:vanish w:val="0"/>',
}
PDF_HIDDEN: Mapping[str, tuple[str, str]] = {
    "white on white": ("1 1 1 rg", "BT /F1 10 Tf 60 400 Td"),
    "blue on blue": ("0 0 1 rg 50 390 400 30 re f", "BT /F1 10 Tf 60 400 Td"),
    "tiny": ("", "BT /F1 0.5 Tf 60 400 Td"),
    "off the page": ("", "BT /F1 10 Tf 60 -400 Td"),
    "without paint": ("3 Tr", "BT /F1 10 Tf 60 400 Td"),
}
PDF_MISSED: Mapping[str, tuple[str, str]] = {
    "nearly white": ("0.98 0.98 0.98 rg", "BT /F1 10 Tf 60 400 Td"),
    "under an area": ("", "BT /F1 10 Tf 60 400 Td"),
}
PDF_SEEN: Mapping[str, tuple[str, str]] = {
    "white on blue": ("0 0 1 rg 50 390 400 30 re f 1 1 1 rg", "BT /F1 10 Tf 60 400 Td"),
    "small print": ("0.4 0.4 0.4 rg", "BT /F1 6 Tf 60 400 Td"),
    "light grey": ("0.7 0.7 0.7 rg", "BT /F1 10 Tf 60 400 Td"),
}


def write_pdf(text: str, drawn: tuple[str, str], after: str = "") -> bytes:
    """A PDF of one page with ordinary lines, and the text drawn so."""
    before, begin = drawn
    lines = "".join(
        f"BT /F1 10 Tf 60 {780 - 14 * place} Td ({line[:90]}) Tj ET\n"
        for place, line in enumerate(line for line in CARRIERS if line.isascii())
    )
    content = f"{lines}q {before} {begin} ({text}) Tj ET {after} Q\n".encode("cp1252")
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 "
        + font
        + b" >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
    )
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % item for item in enumerate(objects, start=1))
    return b"%PDF-1.4\n" + body + b"trailer\n<< /Root 1 0 R >>\n%%EOF\n"


def write_docx(text: str, properties: str, random: Random) -> bytes:
    """A DOCX of three paragraphs, with the text as a run of the second."""
    first, last = random.sample(CARRIERS, 2)
    runs = f"<w:r><w:t>So </w:t></w:r><w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>"
    body = "".join(
        f"<w:p>{part}</w:p>" for part in (f"<w:r><w:t>{first}</w:t></w:r>", runs, f"<w:r><w:t>{last}</w:t></w:r>")
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        # With a time of its own, which else is the clock's.
        archive.writestr(
            zipfile.ZipInfo("word/document.xml"), f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
        )
    return out.getvalue()


def write_html(element: str, random: Random) -> bytes:
    """A page with the element between two paragraphs."""
    first, last = random.sample(CARRIERS, 2)
    return f"<!doctype html><meta charset=utf-8><title>Harbour</title><p>{first}</p>{element}<p>{last}</p>".encode()


HTML = find_format("html")


def make_files() -> Iterator[Sample]:
    """Yield samples for the flag `invisible_text`."""
    for numbers in islice(zip(range(COUNT), HIDDEN * COUNT, strict=False), COUNT):
        random, text = Random(numbers[0]), numbers[1]
        for kind, hide in HTML_HIDDEN.items():
            yield _hidden(f"HTML, {kind}", write_html(hide(text), random), HTML.read)
        for kind, hide in HTML_MISSED.items():
            yield _hidden(f"HTML, {kind}", write_html(hide(text), random), HTML.read, known=False)
        if numbers[0] == 0:
            for hide in HTML_FRESH.values():
                yield _hidden("HTML, fresh", write_html(hide(text), random), HTML.read, known=False)
        for kind, hide in HTML_SEEN.items():
            yield _seen(f"HTML, {kind}", write_html(hide(text), random), HTML.read)
        for kind, properties in DOCX_HIDDEN.items():
            yield _hidden(f"DOCX, {kind}", write_docx(text, properties, random), docx.parse)
        for kind, properties in DOCX_SEEN.items():
            yield _seen(f"DOCX, {kind}", write_docx(text, properties, random), docx.parse)
        for kind, drawn in PDF_HIDDEN.items():
            yield _hidden(f"PDF, {kind}", write_pdf(text, drawn), reader.parse)
        for kind, drawn in PDF_MISSED.items():
            after = "0 0 1 rg 50 390 400 30 re f" if kind == "under an area" else ""
            yield _hidden(f"PDF, {kind}", write_pdf(text, drawn, after), reader.parse, known=False)
        for kind, drawn in PDF_SEEN.items():
            yield _seen(f"PDF, {kind}", write_pdf(text, drawn), reader.parse)


Parse = Callable[[bytes, ParseLimits], ParsedDocument]


def _hidden(kind: str, content: bytes, parse: Parse, *, known: bool = True) -> Sample:
    return Sample(kind, "invisible_text", content, lambda data: parse(data, ParseLimits()), known)


def _seen(kind: str, content: bytes, parse: Parse) -> Sample:
    return Sample(f"visible: {kind}", None, content, lambda data: parse(data, ParseLimits()))

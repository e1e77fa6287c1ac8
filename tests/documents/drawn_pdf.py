"""PDF pages drawn by their operators: text at places and in fonts, rules, areas and images."""

import re
from collections.abc import Sequence

from app.documents.parsed import ParsedDocument, ParseLimits
from app.documents.readers.pdf.reader import parse

FONTS = {
    "F1": "/BaseFont /Helvetica",
    "F2": "/BaseFont /Helvetica-Bold",
    "F3": "/BaseFont /Courier",
    "F4": "/BaseFont /Times-Roman /FontDescriptor"
    " << /Type /FontDescriptor /FontName /Times-Roman /Flags 32 /StemV 139 >>",
    "F5": "/BaseFont /Courier-Bold",
    "F6": "/BaseFont /NimbusRomNo9L-Medi",
}
PROSE = (
    "The harbour office opens at seven in the",
    "morning and closes when the last boat",
    "has left. Guests ring the bell at the gate",
    "and wait for the watch to open it for",
    "them. No guest enters the pontoon without",
    "a key, not even those who own a boat",
    "there. The watch keeps a list of all keys",
    "and of the people that carry them home.",
)
_IMAGE = (
    b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8 "
    b"/Length 1 >>\nstream\n\x80\nendstream"
)

_MASKED = 900_000
"""The number of an object, which no other has."""
_BITMAP, _GLYPH, _LETTERS, _MEANINGS = 900_001, 900_002, 900_003, 900_004
_FIRST_LETTER = ord("A")
_NAMES = " ".join(f"/a{code}" for code in range(128))
BITMAP_FONT = (
    "<< /Type /Font /Subtype /Type3 /FontMatrix [.001 0 0 .001 0 0] /FontBBox [0 0 600 600] /FirstChar 0 /LastChar 127 "
    f"/Widths [{'600 ' * 128}] /Encoding << /Type /Encoding /Differences [0 {_NAMES}] >> "
    f"/CharProcs << {' '.join(f'/a{code} {_GLYPH} 0 R' for code in range(128))} >> >>"
).encode()
"""As TeX's old bitmap fonts: without a name and without a meaning of its characters, all of which have one width."""
_GLYPH_STREAM = b"<< /Length 48 >>\nstream\n600 0 0 0 600 600 d1 50 0 500 500 re f        \n\nendstream"


def write_text(text: str, x: float, y: float, *, size: float = 10, font: str = "F1", before: str = "") -> str:
    """The operators of one piece of text; `before` are operators of its state."""
    escaped = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    return f"q {before} BT /{font} {size} Tf {x} {y} Td ({escaped}) Tj ET Q\n"


def write_lines(lines: Sequence[str], x: float, y: float, *, size: float = 10, font: str = "F1") -> str:
    """Lines below each other."""
    return "".join(
        write_text(line, x, y - 1.2 * size * place, size=size, font=font) for place, line in enumerate(lines)
    )


def write_rule(x0: float, y0: float, x1: float, y1: float) -> str:
    """A thin line."""
    return f"{x0} {y0} m {x1} {y1} l S\n"


def write_drawn_pdf(pages: Sequence[str], structure: str = "", letters: Sequence[str] = ()) -> bytes:
    """A PDF of A4 pages, each with these operators; `/I Do` draws an image of one unit, `/M Do` a transparent one.

    The font `T3` is BITMAP_FONT. `/G gs` makes what follows half transparent, `/H gs` multiplies it with what is below.

    The font `T4` has the `letters`, drawn by A, B, C and so on; one may stand for several characters.
    `structure` is the tree of its tags as in `Document(H1(0.0) P(0.1 1.0))`: types, and contents as page.identifier.
    """
    fonts = " ".join(
        f"/{name} << /Type /Font /Subtype /Type1 {described} /Encoding /WinAnsiEncoding >>"
        for name, described in FONTS.items()
    )
    resources = (
        f"<< /Font << {fonts} /T3 {_BITMAP} 0 R /T4 {_LETTERS} 0 R >> /XObject << /I 3 0 R /M {_MASKED} 0 R >> "
        "/ExtGState << /G << /ca 0.5 >> /H << /BM /Multiply >> >> >>"
    )
    kids = " ".join(f"{4 + 2 * place} 0 R" for place in range(len(pages)))
    root = 4 + 2 * len(pages)
    tree = f"/MarkInfo << /Marked true >> /StructTreeRoot {root} 0 R" if structure else ""
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R {tree} >>".encode(),
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        _IMAGE,
    ]
    for place, content in enumerate(pages):
        raw = content.encode("cp1252")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources {resources} "
            f"/StructParents {place} /Contents {5 + 2 * place} 0 R >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(raw), raw))
    if structure:
        objects.extend(map(str.encode, _write_tree(structure, root, len(pages))))
    numbered = [
        *enumerate(objects, start=1),
        (_MASKED, _IMAGE.replace(b"/Length", b"/SMask 3 0 R /Length")),
        (_BITMAP, BITMAP_FONT),
        (_GLYPH, _GLYPH_STREAM),
        (_LETTERS, BITMAP_FONT.replace(b"/CharProcs", b"/ToUnicode %d 0 R /CharProcs" % _MEANINGS)),
        (_MEANINGS, _write_meanings(letters)),
    ]
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % item for item in numbered)
    return b"%PDF-1.4\n" + body + b"trailer\n<< /Root 1 0 R >>\n%%EOF\n"


def read_drawn(*pages: str, structure: str = "", letters: Sequence[str] = ()) -> ParsedDocument:
    """A PDF of these pages as it is read."""
    return parse(write_drawn_pdf(pages, structure, letters), ParseLimits())


def _write_meanings(letters: Sequence[str]) -> bytes:
    rows = "".join(
        f"<{code:02x}> <{letter.encode('utf-16-be').hex()}>\n" for code, letter in enumerate(letters, _FIRST_LETTER)
    )
    text = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /M def /CMapType 2 def\n"
        "1 begincodespacerange <00> <ff> endcodespacerange\n"
        f"{len(letters)} beginbfchar\n{rows}endbfchar endcmap end end"
    )
    return f"<< /Length {len(text)} >>\nstream\n{text}\nendstream".encode()


def mark_content(number: int, content: str) -> str:
    """Operators with an identifier, by which the structure names them."""
    return f"/P << /MCID {number} >> BDC\n{content}EMC\n"


def _write_tree(structure: str, root: int, pages: int) -> list[str]:
    """The objects of the tree: its root, then its elements."""
    kids: list[list[str]] = [[]]
    heads = ["/Type /StructTreeRoot"]
    parents: list[dict[int, int]] = [{} for _ in range(pages)]
    open_elements = [0]
    for kind, page, number in re.findall(r"([A-Za-z0-9]+)\(|(\d+)\.(\d+)|\)", structure):
        if kind:
            kids[open_elements[-1]].append(f"{root + len(kids)} 0 R")
            heads.append(f"/Type /StructElem /S /{kind} /P {root + open_elements[-1]} 0 R")
            open_elements.append(len(kids))
            kids.append([])
        elif page:
            reference = f"<< /Type /MCR /Pg {4 + 2 * int(page)} 0 R /MCID {number} >>"
            kids[open_elements[-1]].append(reference)
            parents[int(page)][int(number)] = root + open_elements[-1]
        else:
            open_elements.pop()
    arrays = " ".join(
        f"{place} [{' '.join(f'{found[number]} 0 R' for number in sorted(found))}]"
        for place, found in enumerate(parents)
    )
    heads[0] += f" /ParentTree << /Nums [{arrays}] >>"
    return [f"<< {head} /K [{' '.join(below)}] >>" for head, below in zip(heads, kids, strict=True)]

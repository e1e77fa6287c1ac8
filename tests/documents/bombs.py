"""Hostile documents: they expand, loop or lie about their size when they are read."""

import struct
import zlib

from PIL import Image

from tests.documents.ocr.pages import save
from tests.documents.office import write_zip


def write_pdf_object(body: bytes, pages: bytes = b"[3 0 R]", count: int = 1) -> bytes:
    """A PDF with one page. `body` holds the objects from number 4 on; the page draws objects 4 and 5."""
    return (
        b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n"
        b"2 0 obj\n<< /Type /Pages /Kids "
        + pages
        + b" /Count %d >>\nendobj\n" % count
        + b"3 0 obj\n<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /XObject << /X 5 0 R >> /Font << /F << /Type /Font /Subtype /Type1 "
        b"/BaseFont /Helvetica >> >> >> >>\nendobj\n" + body + b"trailer\n<< /Root 1 0 R >>\n%%EOF\n"
    )


def write_stream(number: int, content: bytes, extra: bytes = b"") -> bytes:
    """A PDF stream object."""
    return b"%d 0 obj\n<< /Length %d %s >>\nstream\n%s\nendstream\nendobj\n" % (number, len(content), extra, content)


def write_lying_zip(data: bytes) -> bytes:
    """The same ZIP file, but its directory states 100 unpacked bytes for every member."""
    lying = bytearray(data)
    position = lying.find(b"PK\x01\x02")
    while position >= 0:
        lying[position + 24 : position + 28] = (100).to_bytes(4, "little")
        position = lying.find(b"PK\x01\x02", position + 1)
    return bytes(lying)


def nest_zip(levels: int) -> bytes:
    """ZIP files nested in each other."""
    data = b"the innermost"
    name = "a.txt"
    for level in range(levels):
        data, name = write_zip({name: data}), f"{level}.zip"
    return data


def write_flate_bomb() -> bytes:
    """A PDF page whose content is 160 MiB, compressed twice."""
    once = zlib.compress(b"q Q " * (40 << 20), 9)
    return write_pdf_object(write_stream(4, zlib.compress(once, 9), b"/Filter [/FlateDecode /FlateDecode]"))


def write_text_bomb() -> bytes:
    """A PDF page with 800,000 pieces of text."""
    shown = b"BT /F 1 Tf " + b"(xxxxxxxxxxxxxxxx) Tj " * 800_000 + b"ET"
    return write_pdf_object(write_stream(4, zlib.compress(shown, 9), b"/Filter /FlateDecode"))


def write_heavy_pages(pages: int = 100, operators: int = 3_000_000) -> bytes:
    """The same page many times; its long content draws nothing."""
    content = write_stream(4, zlib.compress(b"q Q " * operators, 9), b"/Filter /FlateDecode")
    return write_pdf_object(content, pages=b"[" + b"3 0 R " * pages + b"]", count=pages)


def write_form_fan() -> bytes:
    """Ten layers of forms; each form draws the next layer ten times."""
    forms = [write_stream(4, b"/X Do " * 10)]
    for number in range(5, 15):
        below = b"/Resources << /XObject << /X %d 0 R >> >>" % (number + 1)
        forms.append(write_stream(number, b"/X Do " * 10, b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] " + below))
    forms.append(write_stream(15, b"BT (x) Tj ET", b"/Type /XObject /Subtype /Form /BBox [0 0 9 9]"))
    return write_pdf_object(b"".join(forms))


def repeat_rows(count: int, cell: str) -> str:
    """Numbered spreadsheet rows with one cell each; `#` in the cell is replaced by the row number."""
    return "".join(f'<row r="{row}">{cell.replace("#", str(row))}</row>' for row in range(1, count + 1))


def write_wide_csv() -> bytes:
    """A CSV file with 500 long headers; each of its few rows repeats them."""
    header = ",".join(f"{'h' * 150}{column}" for column in range(500))
    return (header + "\n" + ("," * 499 + "x\n") + ("x" + ",x" * 499 + "\n") * 20).encode()


def write_self_drawing_form() -> bytes:
    """A form that draws itself twice."""
    below = b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 5 0 R >> >>"
    return write_pdf_object(write_stream(4, b"/X Do") + write_stream(5, b"/X Do /X Do", below))


def write_wide_structure(elements: int) -> bytes:
    """A PDF page whose structure tree has so many elements in one other, all of them for this page."""
    names = b" ".join(b"%d 0 R" % number for number in range(10, 10 + elements))
    leaf = b"%d 0 obj\n<< /S /P /P 7 0 R /Pg 3 0 R /K %d >>\nendobj\n"
    return (
        b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R /StructTreeRoot 6 0 R >>\nendobj\n"
        b"2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n"
        b"3 0 obj\n<< /Type /Page /Parent 2 0 R /StructParents 0 /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>\nendobj\n"
        + write_stream(4, b"/P << /MCID 0 >> BDC BT /F 9 Tf 9 9 Td (tagged words) Tj ET EMC")
        + b"6 0 obj\n<< /Type /StructTreeRoot /K 7 0 R /ParentTree << /Nums [0 8 0 R] >> >>\nendobj\n"
        + b"7 0 obj\n<< /S /Document /P 6 0 R /K [%s] >>\nendobj\n8 0 obj\n[%s]\nendobj\n" % (names, names)
        + b"".join(leaf % (10 + number, number) for number in range(elements))
        + b"trailer\n<< /Root 1 0 R >>\n%%EOF\n"
    )


def deflate(*blocks: tuple[bytes, int]) -> bytes:
    """Each block so many times, compressed as zlib does, without compressing it each time."""
    out, check = b"\x78\x01", 1
    for block, times in blocks:
        packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        out += (packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)) * times
        for _ in range(times):
            check = zlib.adler32(block, check)
    return out + b"\x03\x00" + struct.pack(">I", check)


def write_picture_bomb(text: bytes, rows: int = 10_000) -> bytes:
    """A page of text with a small picture that unpacks to so many rows of 20,000 bytes."""
    content = b"q 300 0 0 200 90 90 cm /X Do Q BT /F 12 Tf 90 700 Td (%s) Tj ET" % text
    image = b"/Type /XObject /Subtype /Image /Width 20000 /Height %d /BitsPerComponent 8 /ColorSpace /DeviceGray" % rows
    data = deflate((b"\xff" * 2_000_000, rows * 95 // 10_000), (bytes(2_000_000), rows * 5 // 10_000))
    return write_pdf_object(write_stream(4, content) + write_stream(5, data, image + b" /Filter /FlateDecode"))


def write_vast_png(side: int = 40_000, depth: int = 1) -> bytes:
    """A square grey picture of so many pixels, in a few kilobytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    pixels = deflate((bytes(1 + side * depth // 8) * 100, side // 100))
    head = struct.pack(">IIBBBBB", side, side, depth, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def write_vast_jpeg() -> bytes:
    """A picture that claims 4 gigapixels."""
    data = save(Image.new("L", (8, 8)), "JPEG")
    place = data.index(b"\xff\xc0") + 5
    return data[:place] + struct.pack(">HH", 65_500, 65_500) + data[place + 4 :]


def write_vast_tiff() -> bytes:
    """A picture that claims 3.6 gigapixels."""
    data = save(Image.new("L", (701, 703)), "TIFF", compression="tiff_deflate")
    return data.replace(struct.pack("<I", 701), struct.pack("<I", 60_001)).replace(
        struct.pack("<I", 703), struct.pack("<I", 60_003)
    )


def write_frames(frames: int, kind: str = "TIFF", *, endless: bool = False) -> bytes:
    """A picture of many small frames; if `endless`, the last one is followed by the first."""
    images = [Image.new("L", (200, 60), 255) for _ in range(frames)]
    data = save(images[0], kind, save_all=True, append_images=images[1:])
    if not endless:
        return data
    first = place = struct.unpack_from("<I", data, 4)[0]
    while place:
        end = place + 2 + 12 * struct.unpack_from("<H", data, place)[0]
        place = struct.unpack_from("<I", data, end)[0]
    return data[:end] + struct.pack("<I", first) + data[end + 4 :]

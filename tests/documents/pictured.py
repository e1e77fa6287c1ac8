"""Files with a picture between two sentences."""

import io
import zipfile

from docx import Document
from pptx import Presentation
from pptx.util import Inches

from tests.documents.ocr.pages import draw_page, save, write_image
from tests.documents.office import write_epub, write_odf, write_zip

BEFORE, AFTER = "The tides of March.", "The tides of April."
_SMALL = write_image()
KINDS = ("docx", "pptx", "odt", "odp", "epub")


def write_table_picture() -> bytes:
    """A picture of two lines of text."""
    return save(draw_page(["Quay         4 m", "Pier         3 m"], dpi=72).crop((40, 20, 440, 140)), "PNG")


def write_pictured(kind: str, picture: bytes, *, times: int = 1) -> bytes:
    """A file of this kind; the slide of a presentation is its second, and the same picture is shown so many times."""
    write = {"docx": _write_docx, "pptx": _write_pptx, "odt": _write_odt, "odp": _write_odp, "epub": _write_epub}
    return write[kind](picture, times)


def _write_docx(picture: bytes, times: int) -> bytes:
    document = Document()
    document.add_paragraph(BEFORE)
    cell = document.add_table(1, 2).cell(0, 0)
    cell.text = "Quay"
    for _ in range(times):
        cell.paragraphs[0].add_run().add_picture(io.BytesIO(picture), width=Inches(2))
    document.add_paragraph(AFTER)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def _write_pptx(picture: bytes, times: int) -> bytes:
    deck = Presentation()
    deck.slides.add_slide(deck.slide_layouts[6])
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    for top, text in ((5, AFTER), (1, BEFORE)):
        slide.shapes.add_textbox(Inches(1), Inches(top), Inches(4), Inches(1)).text_frame.text = text
    for _ in range(times):
        slide.shapes.add_picture(io.BytesIO(_SMALL), Inches(1), Inches(3), Inches(4), Inches(1))
    out = io.BytesIO()
    deck.save(out)
    # The library opens a picture, and refuses a very large one.
    with zipfile.ZipFile(out) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return write_zip(members | {"ppt/media/image1.png": picture})


_IMAGE = '<draw:frame><draw:image xlink:href="Pictures/1.png"/></draw:frame>'


def _write_odt(picture: bytes, times: int) -> bytes:
    body = f"<text:p>{BEFORE}</text:p><text:p>{_IMAGE * times}</text:p><text:p>{AFTER}</text:p>"
    return write_odf("text", body, more={"Pictures/1.png": picture})


def _write_odp(picture: bytes, times: int) -> bytes:
    box = "<draw:frame><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>"
    shapes = f"{box.format(BEFORE)}{_IMAGE * times}{box.format(AFTER)}"
    return write_odf("presentation", f"<draw:page/><draw:page>{shapes}</draw:page>", more={"Pictures/1.png": picture})


def _write_epub(picture: bytes, times: int) -> bytes:
    image = '<p><img src="../pictures/1%2B.png"/></p>'
    return write_epub([f"<p>{BEFORE}</p>{image * times}<p>{AFTER}</p>"], more={"OEBPS/pictures/1+.png": picture})

"""What DOCX, PPTX and OpenDocument have in common: values of charts, descriptions of pictures, and titles."""

import io
import re
import zipfile
from typing import Any

import pytest
from lxml import etree

from app.documents.formats import find_format
from app.documents.ocr.access import provide
from app.documents.parsed import ParseLimits
from app.documents.process.answer import read_answer
from app.documents.process.child import answer_request
from app.documents.readers.office.ooxml import read_chart, read_description
from app.documents.readers.office.pptx import parse
from tests.documents.office import text_box, write_raw_pptx, write_zip
from tests.documents.pictured import write_pictured, write_table_picture
from tests.fixtures.documents import write_raw_docx

CHART = "http://schemas.openxmlformats.org/drawingml/2006/chart"


def write_chart(days: tuple[str, ...], code: str, *, early: str = "0") -> Any:
    def points(name: str, values: tuple[str, ...], code: str) -> str:
        written = "".join(f'<pt idx="{place}"><v>{value}</v></pt>' for place, value in enumerate(values))
        return f"<{name}><numRef><numCache><formatCode>{code}</formatCode>{written}</numCache></numRef></{name}>"

    series = f"<ser>{points('cat', days, code)}{points('val', ('32.0', '-4.4000000000000004'), 'General')}</ser>"
    return etree.fromstring(f'<chartSpace xmlns="{CHART}"><date1904 val="{early}"/>{series}</chartSpace>')


@pytest.mark.parametrize(
    ("days", "code", "early", "shown"),
    [
        (("37261.0", "37262"), "m/d/yyyy", "0", ("2002-01-05", "2002-01-06")),
        (("37261", "-1"), r"d\-mmm\-yy", "0", ("2002-01-05", "-1")),
        (("35799", "35800"), "yyyy", "1", ("2002-01-05", "2002-01-06")),
        (("37261.0", "n/a"), "General", "0", ("37261", "n/a")),
        (("0.30000000000000004", "1e300"), '0.00"day"', "0", ("0.3", "1e+300")),
    ],
)
def test_values_of_charts_are_numbers_and_dates(days: Any, code: str, early: str, shown: Any) -> None:
    rows = read_chart(write_chart(days, code, early=early))
    assert rows[1:] == [(shown[0], "32"), (shown[1], "-4.4")]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("a lamp", "a lamp"),
        ("photo of lamp.png", ""),
        ("IMG_1.JPEG", ""),
        ("The file lamp.png is open", "The file lamp.png is open"),
        ("A lamp\n\nDescription automatically generated with low confidence", "A lamp"),
        ("Eine Lampe\n\nKI-generierte Inhalte können fehlerhaft sein.", "Eine Lampe"),
    ],
)
def test_descriptions_have_no_file_names_and_notices_of_programs(given: str, read: str) -> None:
    assert read_description(etree.Element("docPr", descr=given)) == read


@pytest.mark.parametrize("stated", ["PowerPoint Presentation", "Presentation", "PowerPoint-Präsentation", " "])
def test_a_title_of_a_program_is_none(stated: str) -> None:
    core = f'<p xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{stated}</dc:title></p>'
    data = write_raw_pptx([text_box("Tides", "title")], more={"docProps/core.xml": core})
    assert parse(data, ParseLimits()).title == "Tides"


@pytest.mark.parametrize("pictured", [True, False])
def test_a_file_of_nothing_but_pictures_of_text_names_the_extra(pictured: bool) -> None:
    provide("absent")
    try:
        data = write_raw_docx("")
        if pictured:
            data = remove_text(write_pictured("odt", write_table_picture()))
        target = io.BytesIO()
        kind = find_format("odt" if pictured else "docx")
        answer_request(io.BytesIO(data), target, kind, ParseLimits(), [])
        refusal = read_answer(target.getvalue(), ParseLimits()).refusal or ""
        assert refusal.startswith(f"the {kind.label} file contains no text")
        assert ("the extra `ocr`" in refusal) is pictured
    finally:
        provide(None)


def remove_text(data: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return write_zip(members | {"content.xml": re.sub(rb"The tides of \w+\.", b"", members["content.xml"])})

from __future__ import annotations

import pytest

from app.documents.parsed import ParseLimits
from app.documents.readers.office.pptx import parse
from app.errors import UnreadableDocument
from tests.documents.office import text_box, write_pptx, write_raw_pptx, write_zip

LIMITS = ParseLimits()


def test_pptx_slides_are_pages_with_titles_notes_tables_and_groups() -> None:
    document = parse(write_pptx(), LIMITS)
    assert [document.text[page.start : page.end] for page in document.pages] == [
        "Quarterly review\n\nSpring",
        "Findings\n\nSales rose\nCosts fell\n\nMention the new office.",
        "Name | Value\nport | 8000\n\nin a group\n\nShare of markets",
    ]
    assert [page.number for page in document.pages] == [1, 2, 3]
    assert document.total_pages == 3
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

"""A chunk has one subject: sections and pages of different subjects are different chunks."""

from __future__ import annotations

import pytest

from app.documents.chunking import Chunk, split
from app.documents.parsed import HeadingSpan, ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder

LONG = "The harbour opens at six and the first boats leave with the tide of the morning. " * 5
SHORT = "Ropes are in the shed."


def count_words(text: str) -> int:
    return len(text.split())


def cut(*sections: tuple[int, str, str], most: int = 200) -> list[Chunk]:
    builder = TextBuilder(ParseLimits())
    for level, title, body in sections:
        builder.add_heading(title, level)
        builder.add(body)
    return split(builder.finish("html"), count_words, most)


def cut_pages(*pages: tuple[str, str], most: int = 200) -> list[Chunk]:
    builder = TextBuilder(ParseLimits())
    for number, (title, body) in enumerate(pages, start=1):
        span = builder.add_page(number, f"{title}\n\n{body}".strip())
        if title:
            builder.mark_heading(span.start, title, 1)
    return split(builder.finish("pptx", total_pages=len(pages)), count_words, most)


def test_long_sections_are_separate_chunks_although_they_would_fit_together() -> None:
    chunks = cut((1, "Guide", ""), (2, "Ropes", LONG), (2, "Lamps", LONG))
    assert [chunk.headings for chunk in chunks] == [("Guide", "Ropes"), ("Guide", "Lamps")]
    assert [chunk.text.split("\n")[0] for chunk in chunks] == ["Guide", "Lamps"]


def test_small_sections_below_one_heading_share_a_chunk_with_the_headings_that_they_share() -> None:
    chunks = cut((1, "Guide", ""), (2, "Ropes", SHORT), (2, "Lamps", SHORT), (1, "Rules", SHORT))
    assert [chunk.headings for chunk in chunks] == [("Guide",), ("Rules",)]
    assert chunks[0].text == f"Guide\n\n\nRopes\n\n{SHORT}\n\n\nLamps\n\n{SHORT}"


def test_small_section_does_not_join_a_long_one() -> None:
    chunks = cut((2, "Ropes", SHORT), (2, "Lamps", LONG), (2, "Tides", SHORT))
    assert [chunk.headings for chunk in chunks] == [("Ropes",), ("Lamps",), ("Tides",)]


def test_heading_stays_with_its_text_when_it_has_no_other() -> None:
    chunks = cut((1, "Guide", ""), (2, "Part", ""), (3, "Ropes", LONG * 3), most=100)
    assert chunks[0].text.startswith("Guide\n\n\nPart\n\n\nRopes\n\nThe harbour")
    assert {chunk.headings for chunk in chunks} == {("Guide", "Part", "Ropes")}


def test_short_slides_with_titles_are_separate_chunks() -> None:
    chunks = cut_pages(("Ropes", SHORT), ("Lamps", SHORT), ("Tides", SHORT))
    assert [(chunk.page, chunk.page_end, chunk.headings) for chunk in chunks] == [
        (1, 1, ("Ropes",)),
        (2, 2, ("Lamps",)),
        (3, 3, ("Tides",)),
    ]


def test_title_page_shares_a_chunk_with_the_next_page() -> None:
    chunks = cut_pages(("Ropes and lamps", ""), ("Ropes", LONG))
    assert [(chunk.page, chunk.page_end, chunk.headings) for chunk in chunks] == [(1, 2, ("Ropes",))]


def test_blank_page_and_page_without_a_heading_after_a_short_one_join_it() -> None:
    chunks = cut_pages(("Ropes", SHORT), ("", ""), ("", LONG), ("", LONG))
    assert [(chunk.page, chunk.page_end) for chunk in chunks] == [(1, 3), (4, 4)]


def test_only_the_innermost_of_many_headings_are_kept() -> None:
    text = "\n\n".join(f"h{level}" for level in range(1, 31)) + "\n\nbody"
    headings = tuple(HeadingSpan(text.index(f"h{level}"), level, f"h{level}") for level in range(1, 31))
    (chunk,) = split(ParsedDocument("html", text, headings=headings), count_words, 200)
    assert chunk.headings == tuple(f"h{level}" for level in range(21, 31))


@pytest.mark.parametrize("count", [3_000, 6_000])
def test_work_is_linear_in_the_number_of_sections(count: int) -> None:
    seen = 0

    def measure(text: str) -> int:
        nonlocal seen
        seen += len(text)
        return len(text.split())

    builder = TextBuilder(ParseLimits())
    for number in range(count):
        builder.add_heading(f"S{number}", number % 3 + 1)
        builder.add(SHORT)
    document = builder.finish("html")
    split(document, measure, 50)
    assert seen < 5 * len(document.text)

"""Sections of a document, and tables between their chunks."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.documents.chunking import Chunk, split
from app.documents.parsed import HeadingSpan, ParsedDocument, ParseLimits
from app.documents.readers.builder import TextBuilder
from tests.documents.chunks import Meter, check_chunks, count_framed, count_words

LONG = "The harbour opens at six and the first boats leave with the tide of the morning. " * 5
SHORT = "Ropes are in the shed."


def cut(*sections: tuple[int, str, str], most: int = 200) -> list[Chunk]:
    builder = TextBuilder(ParseLimits())
    for level, title, body in sections:
        builder.add_heading(title, level)
        builder.add(body)
    return split(builder.finish("html"), count_words, most)


def cut_pages(*pages: tuple[str, str], most: int = 200) -> list[Chunk]:
    builder = TextBuilder(ParseLimits())
    for number, (title, body) in enumerate(pages, start=1):
        builder.add(f"{title}\n\n{body}".strip())
        span = builder.mark_page(number)
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
    meter = Meter()
    builder = TextBuilder(ParseLimits())
    for number in range(count):
        builder.add_heading(f"S{number}", number % 3 + 1)
        builder.add(SHORT)
    document = builder.finish("html")
    split(document, meter, 50)
    assert meter.seen < 5 * len(document.text)


HEADER = "| Port | Depth |\n| --- | --- |\n"


def build(before: str, header: str, rows: list[str], after: str) -> ParsedDocument:
    builder = TextBuilder(ParseLimits())
    builder.add(before)
    start = builder.add(header + "\n".join(rows))
    assert start is not None
    builder.mark_table(start, start + len(header), start + len(header) + len("\n".join(rows)))
    builder.add(after)
    return builder.finish("html")


ROWS = [f"| Haven {number} | {number} metres |" for number in range(40)]


def test_each_chunk_of_a_table_begins_with_its_header_and_ends_with_a_row() -> None:
    document = build("All ports and their depths:", HEADER, ROWS, "Depths are at low tide.")
    chunks = split(document, count_words, 80)
    check_chunks(document, chunks, count_words, 80)
    assert len(chunks) > 3
    assert chunks[0].text.startswith(f"All ports and their depths:\n\n{HEADER}| Haven 0 |")
    assert chunks[0].lead == ""
    for chunk in chunks[1:]:
        assert chunk.lead == HEADER
        assert chunk.text.startswith(f"{HEADER}| Haven ")
    assert all(chunk.text.endswith(" |") for chunk in chunks[:-1])
    assert chunks[-1].text.endswith("Depths are at low tide.")


def test_table_that_fits_stays_whole_with_its_text() -> None:
    document = build("All ports:", HEADER, ROWS[:5], "At low tide.")
    (chunk,) = split(document, count_words, 80)
    assert chunk.text == document.text
    assert chunk.lead == ""


def test_each_part_of_a_long_row_has_the_header_and_is_full() -> None:
    row = f"| Haven | {'The pilot waits at the outer buoy until the tide turns. ' * 30}|"
    document = build("All ports:", HEADER, [*ROWS[:3], row, *ROWS[3:6]], "At low tide.")
    chunks = split(document, count_words, 80)
    check_chunks(document, chunks, count_words, 80)
    assert len(chunks) <= 7
    assert all(chunk.lead == HEADER for chunk in chunks[1:])
    (first, *rest) = split(build("", HEADER, [row], ""), count_words, 80)
    assert first.text.startswith(HEADER)
    assert all(chunk.lead == HEADER for chunk in rest)


def test_long_text_before_a_table_is_cut_apart_from_it() -> None:
    document = build("The tide is low at noon today. " * 20, HEADER, ROWS[:8], "")
    chunks = split(document, count_words, 80)
    assert chunks[-1].text == HEADER + "\n".join(ROWS[:8])


def test_header_too_long_to_repeat_is_not_repeated() -> None:
    header = "| " + "name " * 60 + "|\n| --- |\n"
    document = build("", header, ROWS, "")
    chunks = split(document, count_words, 100)
    check_chunks(document, chunks, count_words, 100)
    assert {chunk.lead for chunk in chunks} == {""}


def test_table_across_a_page_break_stays_together() -> None:
    builder = TextBuilder(ParseLimits())
    builder.add("The harbour opens at six. " * 10 + "\n\n" + HEADER + "\n".join(ROWS[:4]))
    first = builder.mark_page(1)
    builder.add("\n".join(ROWS[4:6]), gap="\n")
    builder.add("The lamp is lit at night. " * 10)
    builder.mark_page(2)
    document = builder.finish("pdf", total_pages=2)
    start = document.text.index(HEADER)
    end = document.text.index(ROWS[5]) + len(ROWS[5])
    pages = (first, document.pages[1].__class__(2, first.end + 1, len(document.text)))
    table = build("", HEADER, ROWS[:1], "").tables[0].__class__(start, start + len(HEADER), end)
    chunks = split(ParsedDocument("pdf", document.text, pages, tables=(table,)), count_words, 400)
    assert [(chunk.page, chunk.page_end) for chunk in chunks] == [(1, 2)]
    without = split(ParsedDocument("pdf", document.text, pages), count_words, 400)
    assert [(chunk.page, chunk.page_end) for chunk in without] == [(1, 1), (2, 2)]


cells = st.text(st.sampled_from("ab cé.!"), max_size=30).map(lambda text: f"| {text} | x |")


@given(
    before=st.sampled_from(["", "Ports:", "One sentence of text. " * 20]),
    rows=st.lists(st.one_of(cells, st.just("| " + "long " * 90 + "|")), min_size=1, max_size=40),
    after=st.sampled_from(["", "Note.", "One sentence of text. " * 20]),
    count=st.sampled_from([count_words, count_framed, lambda text: len(text) // 4]),
    most=st.integers(12, 60),
    overlap=st.sampled_from([0, 0, 5]),
)
def test_any_table_is_covered_within_the_limit(
    before: str, rows: list[str], after: str, count: Callable[[str], int], most: int, overlap: int
) -> None:
    document = build(before, HEADER, rows, after)
    chunks = split(document, count, most, overlap)
    check_chunks(document, chunks, count, most)
    table = document.tables[0]
    ends = {table.header_end + sum(len(row) + 1 for row in rows[:number]) for number in range(len(rows) + 1)}
    for chunk in chunks:
        assert chunk.lead in {"", HEADER}
        if chunk.lead and chunk.char_start not in ends:
            begun = max(end for end in ends if end < chunk.char_start)
            row = document.text[begun : document.text.find("\n", begun)]
            assert count(HEADER + row) > most


@pytest.mark.parametrize("rows", [2_000, 4_000])
def test_work_is_linear_in_the_rows(rows: int) -> None:
    meter = Meter()
    document = build("", HEADER, [f"| Haven {number} | {number} |" for number in range(rows)], "")
    split(document, meter, 60)
    assert meter.seen < 8 * len(document.text)

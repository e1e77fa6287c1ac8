"""Plain text and Markdown, and combining marks in a row."""

import unicodedata
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.text import MOST_MARKS, drop_excess_marks, has_excess_marks
from app.documents.parsed import ParseLimits
from app.documents.readers import markdown
from app.documents.readers.builder import parse_plain
from app.documents.readers.text import clean_text
from app.errors import UnreadableDocument
from tests.documents.listing import list_headings, list_tables

LIMITS = ParseLimits()


def test_control_characters_and_line_ends_are_normalised() -> None:
    assert clean_text("a\r\nb\rc\x00\x07d\u2028e\u00a0f\u00adg \t\nh\ud800") == "a\nb\ncd\ne fg\nh"


def test_marks_beyond_thirty_on_a_letter_are_dropped_in_linear_time() -> None:
    assert (
        clean_text("a" + "\u0300" * 40 + " b" + "\u0323" * 30) == "\u00e0" + "\u0300" * 29 + " \u1e05" + "\u0323" * 29
    )
    assert len(clean_text("a" + "\u0300\u0323" * 1_000_000)) < 40
    assert clean_text("…" * 50 + "━" * 50) == "…" * 50 + "━" * 50


def test_plain_text_is_kept() -> None:
    document = parse_plain("one\r\n\r\ntwo", LIMITS)
    assert (document.format, document.text, document.pages) == ("text", "one\n\ntwo", ())


def test_text_past_the_limit_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="more than 10 characters"):
        parse_plain("x" * 11, ParseLimits(max_characters=10))


MARKDOWN = """---
title: "The Guide"
tags: [a]
---
Preface
=======

# Install **now** #

Text with `# no`.

```sh
# not a heading
```

~~~~
# nor this
~~~
# nor that
~~~~

  ## On [Linux](https://example.org)
- item
---
    # code
#hashtag

Second line
of a paragraph
---
### Last
"""


def test_markdown_headings_are_found_outside_code() -> None:
    document = markdown.parse(MARKDOWN, LIMITS)
    assert list_headings(document) == [(1, "Preface"), (1, "Install now"), (2, "On Linux"), (3, "Last")]
    assert document.text == MARKDOWN.strip("\n")
    for heading, beginning in zip(document.headings, ("Preface", "# Install", "## On", "### Last"), strict=True):
        assert document.text[heading.start :].startswith(beginning)


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ('<a name="x"></a>Errors & *faults* {#errs}', "Errors & faults"),
        ("The <code>List<String></code> in {braces}", "The List<String> in {braces}"),
        ("The `<a>` element, a < b", "The <a> element, a < b"),
        ("Use List<a> here, <b>now</b>", "Use List<a> here, now"),
        ('<i class="fa fa-book"></i> Guide<br clear="all"><img src="x" hidden>', "Guide"),
        ("a <b and c> d, x `a<b>*c*` y", "a <b and c> d, x a<b>*c* y"),
    ],
)
def test_markup_in_markdown_headings_is_left_out(written: str, title: str) -> None:
    document = markdown.parse(f"## {written}\n\ntext\n", ParseLimits())
    assert [heading.title for heading in document.headings] == [title]


def test_markdown_title_is_from_front_matter_or_the_only_top_heading() -> None:
    assert markdown.parse(MARKDOWN, LIMITS).title == "The Guide"
    assert markdown.parse("## Sub\n# Top\n", LIMITS).title == "Top"
    assert markdown.parse("# Chapter 0\n\ntext\n\n# Chapter 17\n", LIMITS).title is None
    assert markdown.parse("text\n\n---\n\ntitle: no\n---\n", LIMITS).title is None


TABLES = """# Ports | depths
| --- | --- |

Port | Depth
---- | ----:
Haven | 12 m
A \\| B | 7 m

```
| not | a table |
| --- | --- |
```

| alone |
| ----- |
| one |
## Next
| a | b |
| --- |
"""


def test_markdown_tables_are_found_outside_code() -> None:
    document = markdown.parse(TABLES, LIMITS)
    assert list_tables(document) == [
        ("Port | Depth\n---- | ----:\n", "Haven | 12 m\nA \\| B | 7 m"),
        ("| alone |\n| ----- |\n", "| one |"),
    ]
    assert [heading.title for heading in document.headings] == ["Ports | depths", "Next"]


ALL_MARKS = [
    character
    for character in map(chr, range(0x110000))
    if not "\ud800" <= character <= "\udfff" and unicodedata.combining(unicodedata.normalize("NFKD", character)[0])
]
LONGEST = 3
"""Marks that one character becomes, at most, when it is normalised."""


def count_marks(text: str) -> int:
    """The longest row of marks in the normalised text."""
    decomposed = unicodedata.normalize("NFKD", text)
    rows = groupby(decomposed, key=lambda character: unicodedata.combining(character) > 0)
    return max((len(list(row)) for combine, row in rows if combine), default=0)


@pytest.mark.parametrize("mark", ["\u0301", "\u0301\u0316", "\u0f73", "\uff9e\u0301", "\u302e", "\U0001d165"])
def test_thirty_marks_may_follow_one_another(mark: str) -> None:
    most = (mark * MOST_MARKS)[:MOST_MARKS]
    more = f"{most}{mark}"[: MOST_MARKS + 1]
    for text in (most, f"a{most} b{most}", f"ü{most}ü", f"{most}\n{most}", f"{most}…{most}"):
        assert not has_excess_marks(text)
        assert drop_excess_marks(text) == text
    for text in (more, f"a{more}", f"a {more} b", f"…{more}…{most}"):
        assert has_excess_marks(text)
        assert drop_excess_marks(text) == text.replace(more, most)


def test_a_text_with_many_marks_is_read_in_linear_time() -> None:
    text = "a" + "\u0300\u0323" * 500_000 + "b"
    assert has_excess_marks(text)
    assert drop_excess_marks(text) == text[: 1 + MOST_MARKS] + "b"


def test_other_characters_are_not_marks() -> None:
    for text in ("", "a" * 100, "…" * 100, "漢" * 100, "ｶﾞ" * 100, "\u200d" * 100, "👩\u200d🚀" * 50, "é" * 100):
        assert not has_excess_marks(text)
        assert drop_excess_marks(text) == text


def test_every_mark_is_one() -> None:
    for mark in ALL_MARKS:
        assert has_excess_marks(mark * (MOST_MARKS + 1)), hex(ord(mark))
        assert not has_excess_marks(mark * MOST_MARKS), hex(ord(mark))


@given(st.text(st.sampled_from([*ALL_MARKS, "a", "ü", "漢", "…", " "]), max_size=300))
def test_the_rest_of_any_text_has_few_marks_in_a_row(text: str) -> None:
    rest = drop_excess_marks(text)
    assert not has_excess_marks(rest)
    assert has_excess_marks(text) == (rest != text)
    assert count_marks(rest) <= LONGEST * (MOST_MARKS + 1)


def test_colours_of_a_terminal_are_removed() -> None:
    assert clean_text("\x1b[1;31mred\x1b[0m [31m\x1b[?25l") == "red [31m"

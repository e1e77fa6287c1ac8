"""Markdown and HTML as plain text, and the way back from it to the source."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.knowledge.search.answer.plain_text import (
    MOST_EVENTS,
    _parse,
    is_character_start,
    render_markdown,
    unify_spaces,
)

RENDERED = {
    "heading": ("# Route order\n\nSpecific ones first.", "Route order · Specific ones first."),
    "underlined heading": ("Why?\n====\nBecause.", "Why? Because."),
    "emphasis": ("a **b** *c* __d e__ _f_ ~~g~~", "a b c d e f g"),
    "link": ("see [the page](https://x.de 't') or <https://y.de>", "see the page or https://y.de"),
    "reference": ("see [the page][1]\n\n[1]: https://x.de", "see the page"),
    "image": ("![a chart](c.png) here", "a chart here"),
    "code": ("run `make  run` or ``a`b``", "run make run or a`b"),
    "fence": ("Run:\n\n```sh\nmake run  # *now*\n```\nDone.", "Run: make run # *now* · Done."),
    "bullets": ("- one\n- two.\n- three", "one · two. three"),
    "numbers": ("2024. was good\n3) next", "2024. was good · 3) next"),
    "quote": ("> said\n> so", "said so"),
    "table": ("| a | b |\n|---|---|\n| 1 | `2` |", "a · b · 1 · 2"),
    "rest of a table": ("--- | :-: |\n| 1 | 2 |", "| 1 | 2 |"),
    "comment": ("a <!-- hidden\nb --> c\n\n<!-- block\n\n -->\nd", "a c d"),
    "unclosed comment": ("a <!-- b", "a <!-- b"),
    "html": ('<p class="x>y">One<br>two</p>\n<ul><li>a<li>b</ul>', "One two · a · b"),
    "script": ("<script>let x</script>\n\ntext", "text"),
    "entities": ("a &amp; b&nbsp;&lt;c&gt; &#228; &#x1F600; &unknown;", "a & b <c> ä 😀 &unknown;"),
    "entities in html": ("<div>a &amp; b &lt;i&gt;</div>", "a & b <i>"),
    "escapes": (r"snake\_case \* 1\.", "snake_case * 1."),
    "rule": ("a\n\n***\n\nb", "a · b"),
    "not an element": ("GET /users/<id> of List<String>", "GET /users/<id> of List<String>"),
    "operators": ("2*3*4 and f(*args, **kwargs) and a < b > c", "2*3*4 and f(*args, **kwargs) and a < b > c"),
    "patterns": ("Put /a/(.*) before /(.*), then /x/(.*)", "Put /a/(.*) before /(.*), then /x/(.*)"),
    "emphasis after a bracket": ("see (*this*) and: **that**", "see (this) and: that"),
    "names": ("__init__ calls table[name](key) and my_own_name", "__init__ calls table[name](key) and my_own_name"),
    "wide letters": ("é **漢字**です &amp; 😀 `ü`", "é 漢字です & 😀 ü"),
    "nothing": ("<!-- a -->", ""),
}  # fmt: skip


@pytest.mark.parametrize(("source", "text"), RENDERED.values(), ids=RENDERED)
def test_markdown_is_rendered_to_the_text_that_a_reader_sees(source: str, text: str) -> None:
    assert render_markdown(source).text == text


MARKED = st.lists(
    st.sampled_from(
        ["boat ", "**", "*", "_", "`", "\n", "\n\n", "- ", "1. ", "# ", "[", "](u)", "<b>", "</b>", "<!--", "-->",
         "&amp;", "|", "|-|-|\n", "```\n", "> ", "é", "😀", "漢", "\t", "\u00a0", "\r\n", "\\", "  ", "x", "<script>"]
    ),
    max_size=60,
).map("".join)  # fmt: skip


UNMARKED = st.lists(
    st.sampled_from(
        ["boat", "a_b", "x", "é", "漢", "😀", " ", "  ", "   ", "\n", "\n\n", "\t", "\u00a0", "\r\n", "-", "+",
         "=", "1", "12.", "1)", "#", ">", "!", ".", ": ", "(", ")", '"', "'", "_", "/", "%", "@", "x:y", "\u2028"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@given(UNMARKED | st.text(max_size=60))
def test_text_without_marks_is_shown_as_by_the_parser(source: str) -> None:
    source = unify_spaces(source)
    plain, parsed = render_markdown(source), _parse(source)
    assert plain.text == parsed.text
    for at, letter in enumerate(source):
        if not letter.isspace():
            assert plain.place_of(at) == parsed.place_of(at)
    for place, letter in enumerate(plain.text):
        if letter != " ":
            assert plain.origin_of(place) == parsed.origin_of(place)


@given(MARKED | st.text(max_size=200))
def test_each_shown_letter_leads_back_to_itself(source: str) -> None:
    plain = render_markdown(source)
    assert "  " not in plain.text
    assert "\n" not in plain.text
    last = 0
    for place, letter in enumerate(plain.text):
        origin = plain.origin_of(place)
        assert 0 <= origin <= len(source)
        assert origin >= last
        last = origin
        if letter.isalnum() and origin < len(source) and source[origin] != "&" and letter != "·":
            assert source[origin] == letter
            assert plain.place_of(origin) == place


HOSTILE = [
    "[",
    "*a ",
    ">",
    "<!--",
    "- ",
    "&",
    "<a ",
    '<a "',
    "<script>",
    "|a",
    "[a](<",
    "`",
    "a`",
    "&#1",
    "<",
    "<?",
    "![a](",
    "<div>",
    "1. ",
    "\n",
    "<!X",
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_marks_are_rendered_in_bounded_steps(unit: str) -> None:
    plain = render_markdown(unit * (100_000 // len(unit)))
    assert len(plain.pieces) <= 100_000
    assert plain.is_whole or len(plain.pieces) <= MOST_EVENTS


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("ab", [0, 1]),
        ("e\u0301x", [0, 2]),
        ("👩‍👩‍👧x", [0, 5]),
        ("👍🏽x", [0, 2]),
        ("🇩🇪🇫🇷", [0, 2]),
        ("กำ", [0]),
        ("क्षि", [0]),
        ("\u1112\u1161\u11ab\u1100", [0, 3]),
    ],
)
def test_a_character_starts_where_a_reader_sees_one(text: str, starts: list[int]) -> None:
    assert [at for at in range(len(text)) if is_character_start(text, at)] == starts

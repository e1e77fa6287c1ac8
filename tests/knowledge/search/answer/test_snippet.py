"""Snippets, and the plain text that they come from."""

from pathlib import Path

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
from app.knowledge.search.answer.snippet import Snippet, SnippetMaker
from app.knowledge.words import find_words

FILLER = "Plain words without meaning follow one another. " * 20


def snippet(content: str, query: str, lexemes: list[str], **given: object) -> Snippet:
    values = {"title": None, "language": "english", "passage": None} | given
    return SnippetMaker(query).make(content=content, lexemes=lexemes, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_markdown", [False, True])
def test_the_line_below_the_header_of_a_table_is_not_shown(is_markdown: bool) -> None:
    content = "Prices:\n\n| berth | fee |\n| --- | ---: |\n| A-1 | 30 - 40 |\n"
    made = SnippetMaker("fee").make(None, content, "english", ["fee"], None, is_markdown=is_markdown)
    assert "---" not in made.text
    assert all(cell in made.text for cell in ("berth", "fee", "A-1", "30 - 40"))
    assert content[made.start : made.end].startswith("Prices")
    assert "30 - 40" in content[made.start : made.end]


def test_short_content_is_shown_completely_with_white_space_folded() -> None:
    shown = snippet("A  boat\n\nin the\tharbour.", "boats", ["boat"])
    assert shown == Snippet("A boat in the harbour.", ("boats",), 0, 24)


def test_window_contains_most_of_the_words() -> None:
    content = FILLER + "A boat alone. " + FILLER + "The boat enters the harbour at night. " + FILLER
    shown = snippet(content, "boat harbour night", ["boat", "harbour", "night"])
    assert "The boat enters the harbour at night." in shown.text
    assert shown.text.startswith("…")
    assert shown.text.endswith("…")
    assert len(shown.text) <= 240
    assert shown.matched_terms == ("boat", "harbour", "night")


def test_passage_is_shown_when_no_word_matches() -> None:
    content = FILLER + "Vessels rest at the quay. " + FILLER
    shown = snippet(content, "boat", ["boat"], passage=(len(FILLER), len(FILLER) + 30))
    assert "Vessels rest at the quay." in shown.text
    assert shown.matched_terms == ()


def test_start_is_shown_without_a_match() -> None:
    assert snippet(FILLER, "boat", ["boat"]).text.startswith("Plain words")


def test_words_of_the_title_count_as_matched() -> None:
    assert snippet("Nothing here.", "harbours", ["harbour"], title="The harbour").matched_terms == ("harbours",)


@pytest.mark.parametrize(
    "content",
    ["x" * 5_000, "<b>bold</b> & more " * 100, "\n" * 500 + "word", "ä😀" * 1_000, " ", "a" * 239, "a b " * 61],
)
def test_text_is_plain_and_never_too_long(content: str) -> None:
    for passage in (None, (0, 10), (len(content) // 2, len(content))):
        shown = snippet(content, "word more", ["word", "more"], passage=passage).text
        assert len(shown) <= 240
        assert "\n" not in shown
        assert shown.strip("…").strip() in render_markdown(content).text


def test_letters_with_two_lowercase_forms_do_not_shift_the_window() -> None:
    content = "İ" * 300 + " " + FILLER + "The boat enters the harbour. " + FILLER
    shown = snippet(content, "boat harbour", ["boat", "harbour"])
    assert "The boat enters the harbour." in shown.text


def test_only_whole_words_match() -> None:
    content = "boathouse steamboat " + FILLER + "ERR_BOAT-7 " + FILLER
    shown = snippet(content, "boat", ["boat"])
    assert "ERR_BOAT-7" in shown.text


def test_one_snippet_maker_serves_hits_of_different_languages() -> None:
    maker = SnippetMaker("boats Boote")
    english = maker.make(None, "Two boats.", "english", ["boat"], None)
    german = maker.make(None, "Zwei Boote.", "german", ["boot"], None)
    again = maker.make(None, "A boat.", "english", ["boat"], None)
    assert [english.matched_terms, german.matched_terms, again.matched_terms] == [("boats",), ("boote",), ("boats",)]


def test_words_match_with_and_without_an_accent_on_the_first_letter() -> None:
    shown = snippet("Frische Äpfel vom Markt.", "Apfel", ["apfel"], language="german")
    assert shown.matched_terms == ("apfel",)


def test_query_of_stop_words_shows_the_start() -> None:
    assert snippet("The boat.", "the of", []) == Snippet("The boat.", (), 0, 9)


@pytest.mark.parametrize("length", [80, 200, 240])
def test_a_text_that_fits_is_never_cut(length: int) -> None:
    content = f"Order: specific routes come first. {FILLER}"[:length].strip()
    assert snippet(content, "routes", ["rout"]).text == content
    marked = f"<!-- {FILLER} -->\n\n# Order\n\n[Specific **routes**](https://example.org/{'x' * 300}) come first."
    assert snippet(marked, "routes", ["rout"]).text == "Order · Specific routes come first."


@pytest.mark.parametrize("place", [0, 1, 5, 40, 79, 80])
def test_a_longer_text_fills_the_snippet_from_word_to_word(place: int) -> None:
    words = [f"word{number:03}" for number in range(80)]
    words.insert(place, "harbour")
    shown = snippet(" ".join(words), "harbour", ["harbour"]).text
    assert "harbour" in shown
    assert 225 <= len(shown) <= 240
    assert set(shown.strip("…").split()) <= set(words)
    assert shown.startswith("…") == ("word000" not in shown)
    assert shown.endswith("…") == ("word079" not in shown)


def test_a_snippet_without_a_sentence_near_is_centred_on_its_words() -> None:
    shown = snippet(f"{'filler ' * 60}zanzibar {'filler ' * 60}", "zanzibar", ["zanzibar"]).text
    before, _, after = shown.partition("zanzibar")
    assert abs(len(before) - len(after)) <= 2 * len("filler ")


def test_a_sentence_that_starts_shortly_before_the_words_starts_the_snippet() -> None:
    content = f"{FILLER}In the evening the boat enters the harbour. {FILLER}"
    assert snippet(content, "harbour", ["harbour"]).text.startswith("…In the evening the boat enters")


@pytest.mark.parametrize(
    ("unit", "count"),
    [("漢字かな交じり文", 200), ("ภาษาไทย", 200), ("👩‍👩‍👧", 200), ("🇩🇪", 400), ("é", 800), ("क्षि", 300)],
)
def test_a_script_without_spaces_is_cut_between_characters(unit: str, count: int) -> None:
    content = unit * count
    for passage in (None, (len(content) // 2, len(content))):
        shown = snippet(content, "boat", ["boat"], passage=passage).text
        assert 200 <= len(shown) <= 240
        if unit not in ("漢字かな交じり文", "ภาษาไทย"):
            assert not shown.strip("…").replace(unit, "")


def test_a_snippet_tells_the_part_of_the_content_that_it_shows() -> None:
    content = f"{FILLER}**The boat** enters &amp; leaves the [harbour](https://example.org/a). {FILLER}"
    shown = snippet(content, "boat harbour", ["boat", "harbour"])
    part = content[shown.start : shown.end]
    assert "The boat enters & leaves the harbour." in shown.text
    assert "**The boat** enters &amp; leaves the [harbour](https://example.org/a)." in part
    assert render_markdown(part).text == shown.text.strip("…")


def test_a_word_that_only_a_link_address_has_leads_the_snippet_to_the_link() -> None:
    content = f"{FILLER}Read [the page](https://example.org/harbour). {FILLER}"
    shown = snippet(content, "harbour", ["harbour"])
    assert "Read the page." in shown.text
    assert shown.matched_terms == ("harbour",)


@pytest.mark.parametrize("mark", ["```", "~~~~"])
def test_a_long_code_block_stays_code_where_only_a_part_of_it_is_rendered(mark: str) -> None:
    lines = "\n".join(f"x = a * b * c_{n}_d  # *note*" for n in range(400))
    content = f"# Example\n\n{mark}python\n{lines}\nharbour = __init__\n{lines}\n{mark}\n"
    shown = snippet(content, "harbour", ["harbour"]).text
    assert "harbour = __init__ x = a * b * c_0_d # *note*" in shown


def test_the_rows_of_a_long_table_stay_rows_where_only_a_part_of_it_is_rendered() -> None:
    rows = "\n".join(f"| **boat {n}** | quay |" for n in range(400))
    shown = snippet(f"| a | b |\n|---|---|\n{rows}\n| harbour | end |\n{rows}\n", "harbour", ["harbour"]).text
    assert "quay · harbour · end · boat 0 · quay" in shown
    assert not set("|*") & set(shown)


def test_a_long_comment_is_not_shown() -> None:
    content = f"{FILLER}<!-- {'secret ' * 900} -->The harbour opens. {FILLER}"
    shown = snippet(content, "harbour", ["harbour"]).text
    assert "The harbour opens." in shown
    assert "secret" not in shown


@pytest.mark.parametrize("begin", ["# Quay\n\n## At night\n\n", "5. Quay\n5.1 At night\n", "At night\n\n"])
def test_headings_that_the_title_repeats_are_not_shown(begin: str) -> None:
    content = f"{begin}Boats enter at night. {FILLER}"
    title = "Harbour > Quay > 5. Quay > 5.1 At night > At night"
    for query in ("boat", "quay", "none"):
        shown = snippet(content, query, [query], title=title)
        assert shown.text.startswith("Boats enter at night. Plain words")
        assert content[shown.start :].startswith("Boats enter")
        assert content[shown.start : shown.end].startswith("Boats enter at night. Plain words")
    by_meaning = snippet(content, "none", [], title=title, passage=(0, len(content)))
    assert by_meaning.text.startswith("Boats enter")
    assert shown.matched_terms == ()
    assert snippet(content, "quay", ["quay"], title=title).matched_terms == ("quay",)


def test_headings_are_shown_where_the_title_lacks_them_or_nothing_follows() -> None:
    content = "# Quay\n\nBoats enter."
    assert snippet(content, "boat", ["boat"], title="Harbour").text == "Quay · Boats enter."
    assert snippet(content, "boat", ["boat"]).text == "Quay · Boats enter."
    assert snippet("# Quay\n", "quay", ["quay"], title="Quay").text == "Quay"


def test_text_that_is_not_markdown_keeps_its_marks() -> None:
    content = "# define *x* <b> | __init__"
    maker = SnippetMaker("x")
    assert maker.make(None, content, "english", ["x"], None, is_markdown=False).text == content


def test_snippets_of_a_document_keep_whole_words_and_are_full() -> None:
    content = Path("README.md").read_text(encoding="utf-8")
    words = set(find_words(render_markdown(content).text))
    for place in range(0, len(content) - 300, 97):
        shown = snippet(content, "", [], passage=(place, place + 300)).text
        assert 160 <= len(shown) <= 240
        assert set(find_words(shown)) <= words | set(find_words(content))


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

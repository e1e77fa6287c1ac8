"""The snippet of a hit."""

from __future__ import annotations

import pytest

from app.knowledge.search.answer.snippet import Snippet, SnippetMaker

FILLER = "Plain words without meaning follow one another. " * 20


def snippet(content: str, query: str, lexemes: list[str], **given: object) -> Snippet:
    values = {"title": None, "language": "english", "passage": None} | given
    return SnippetMaker(query).make(content=content, lexemes=lexemes, **values)  # type: ignore[arg-type]


def test_short_content_is_shown_completely_with_white_space_folded() -> None:
    shown = snippet("A  boat\n\nin the\tharbour.", "boats", ["boat"])
    assert shown == Snippet("A boat in the harbour.", ("boats",))


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
    assert snippet("Nothing here.", "harbours", ["harbour"], title="The harbour").matched_terms == (
        "harbours",
    )


@pytest.mark.parametrize(
    "content",
    [
        "x" * 5_000,
        "<b>bold</b> & more " * 100,
        "\n" * 500 + "word",
        "ä😀" * 1_000,
        " ",
        "a" * 239,
        "a b " * 61,
    ],
)
def test_text_is_plain_and_never_too_long(content: str) -> None:
    for passage in (None, (0, 10), (len(content) // 2, len(content))):
        shown = snippet(content, "word more", ["word", "more"], passage=passage).text
        assert len(shown) <= 240
        assert "\n" not in shown
        assert shown.strip("…").strip() in " ".join(content.split())


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
    assert [english.matched_terms, german.matched_terms, again.matched_terms] == [
        ("boats",),
        ("boote",),
        ("boats",),
    ]


def test_words_match_with_and_without_an_accent_on_the_first_letter() -> None:
    shown = snippet("Frische Äpfel vom Markt.", "Apfel", ["apfel"], language="german")
    assert shown.matched_terms == ("apfel",)


def test_query_of_stop_words_shows_the_start() -> None:
    assert snippet("The boat.", "the of", []) == Snippet("The boat.", ())

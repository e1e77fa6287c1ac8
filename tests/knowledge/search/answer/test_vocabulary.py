"""The words of a query in a text."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.knowledge.words import (
    CHARACTER,
    MOST_PLACES,
    RUN,
    WORD,
    Vocabulary,
    find_forms,
    find_stemmer,
    regularize,
    split_run,
)

LETTERS = st.sampled_from("aàéßbt1²٣文字กิ·._-İ'\u2028\u0301 \n")


@example(["The dot.", "Connect the .dots"], "dot")
@given(st.lists(st.text(LETTERS, max_size=30), max_size=4), st.sampled_from(["a", "ab", "à1", "ß", "t"]))
def test_each_word_is_found_wherever_it_stands_alone_or_else_in_others(texts: list[str], word: str) -> None:
    stem = find_stemmer("simple")
    vocabulary = Vocabulary([word], "simple", {stem(word)})
    for text in texts:
        words = [(match.start(), match.end(), stem(match[0])) for match in WORD.finditer(regularize(text))]
        forms = sorted((start, end, stem(form)) for start, end, form in find_forms(regularize(text)))
        alone = [found for found in words if found[2] == stem(word)]
        assert vocabulary.find(text) == alone or not alone
        assert set(vocabulary.find(text)) <= {found for found in (*words, *forms) if found[2] == stem(word)}


RUNS = st.lists(st.text(st.sampled_from("文字กิ"), min_size=2, max_size=6), min_size=1, max_size=2)


@given(RUNS, st.text(LETTERS, max_size=30))
@example(["กกกิ"], "กกกกิ")
@example(["กกกิ"], "กกก")
@example(["文字中", "字中国"], "文字中国")
def test_the_longest_common_parts_of_runs_are_found(texts: list[str], text: str) -> None:
    queried = [run for text in texts for run in list_runs(text) if len(run) > 1]
    vocabulary = Vocabulary(
        ["".join(run) for run in queried], "simple", {pair for run in queried for pair in split_run("".join(run))}
    )
    present = list_runs(text)
    parts = {
        run[start:end]
        for run in queried
        for start in range(len(run))
        for end in range(start + 2, len(run) + 1)
        if any(has(other, run[start:end]) for other in present)
    }
    longest = {"".join(part) for part in parts if not any(part != other and has(other, part) for other in parts)}
    assert set(vocabulary.list_matched([(text, vocabulary.find(text))])) == longest


@pytest.mark.parametrize("run", ["文", "กิ"])
def test_a_run_of_one_character_is_found(run: str) -> None:
    vocabulary = Vocabulary([run], "simple", {run})
    assert vocabulary.list_matched([(text := f"a {run}, b", vocabulary.find(text))]) == (run,)
    assert vocabulary.list_matched([(text := "กี", vocabulary.find(text))]) == ()


def list_runs(text: str) -> list[tuple[str, ...]]:
    """The runs of a text, each as its characters with their marks."""
    return [tuple(CHARACTER.findall(match[0])) for match in RUN.finditer(text)]


def has(characters: tuple[str, ...], part: tuple[str, ...]) -> bool:
    """Whether a part stands in the characters."""
    return any(characters[start : start + len(part)] == part for start in range(len(characters)))


def test_inflected_words_are_found_in_order_of_the_text() -> None:
    vocabulary = Vocabulary(["boats", "harbour"], "english", {"boat", "harbour"})
    text = "Harbours of a boat: boats, boating, harbour_boat, boathouse"
    found = [(text[start:end], key) for start, end, key in vocabulary.find(text)]
    assert found == [
        ("Harbours", "harbour"),
        ("boat", "boat"),
        ("boats", "boat"),
        ("boating", "boat"),
        ("harbour", "harbour"),
        ("boat", "boat"),
    ]


def test_a_text_that_consists_of_the_words_has_a_bounded_number_of_places() -> None:
    vocabulary = Vocabulary(["q", "z", "x"], "simple", {"q", "z", "x"})
    found = vocabulary.find("q z " * 25_000 + "x")
    assert len(found) <= MOST_PLACES
    assert {key for _, _, key in found} == {"q", "z", "x"}
    assert found == sorted(found)
    assert vocabulary.find("qq" * 50_000 + " q") == [(100_001, 100_002, "q")]


@pytest.mark.parametrize(
    ("word", "text"),
    [("file", "The ﬁle is here"), ("bold", "a 𝐁𝐨𝐥𝐝 text"), ("viii", "chapter Ⅷ"), ("h2o", "ℍ₂O is wet")],
)
def test_words_of_compatible_characters_are_found(word: str, text: str) -> None:
    vocabulary = Vocabulary([word], "english", {find_stemmer("english")(word)})
    assert vocabulary.list_matched([(text, vocabulary.find(text))]) == (word,)


def test_each_word_of_a_long_query_is_not_compared_with_all_lexemes() -> None:
    class Listed(list[str]):
        def __contains__(self, _: object) -> bool:
            raise AssertionError("compares each lexeme")

    run = "".join(map(chr, range(0x4E00, 0x4E00 + 100)))
    vocabulary = Vocabulary([run, "boat"], "english", Listed([*split_run(run), "boat"]))
    assert vocabulary.list_matched([(run, vocabulary.find(run))]) == (run,)

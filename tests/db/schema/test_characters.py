"""Every character of Unicode in texts and queries: each has words or none, and the words of a text find it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import pytest

from app.knowledge.words import CHARACTERS, MARKS, unify
from tests.fixtures.characters import all_characters, pairs, representatives
from tests.fixtures.database.cluster import TestDatabase, connected

pytestmark = pytest.mark.own_tenants

FORMS = ("{0}", "ab {0} cd", "é{0}", "{0}.{0}1", "{0} {0}")
"""A text alone, between words, with a letter that is folded, in an identifier, and repeated."""

FOUND = """
    select c.content
      from unnest($2::text[]) c (content)
     cross join lateral (select entry_lexemes($1, c.content, c.content) as stored, text_lexemes($1, c.content) as asked,
                                text_phrase($1, c.content) as phrase) w
     where not tsvector_to_array(w.asked || identifier_lexemes(c.content)) <@ tsvector_to_array(w.stored)
        or '' = any (tsvector_to_array(w.stored))
        or numnode(w.phrase) > 0 and not w.stored @@ w.phrase
        or lexeme_weights($1, w.stored) is null and w.stored <> ''
"""


async def find_lost(database: TestDatabase, language: str, contents: Sequence[str]) -> list[str]:
    """The texts that their own words or their phrase do not find. Raises if Postgres refuses one."""
    async with connected(database.superuser_dsn) as superuser:
        rows = await superuser.fetch(FOUND, language, [f.format(c) for c in contents for f in FORMS])
    return [ascii(row["content"]) for row in rows]


async def test_characters_and_pairs_of_each_script_are_words_or_none(fresh_database: TestDatabase) -> None:
    marks = [c for c in all_characters() if unicodedata.category(c) in ("Mn", "Cf", "Lm")]
    assert "\u0640" in marks
    for language, contents in (
        ("simple", marks),
        ("arabic", representatives()[::20]),
        ("hindi", pairs()[::40]),
    ):
        assert await find_lost(fresh_database, language, contents) == []


@pytest.mark.slow
@pytest.mark.parametrize("language", ["simple", "arabic", "hindi", "german", "english"])
async def test_every_character_and_pair_is_a_word_or_none(fresh_database: TestDatabase, language: str) -> None:
    contents = [*(all_characters() if language == "simple" else representatives()), *pairs()]
    assert await find_lost(fresh_database, language, contents) == []


@pytest.mark.parametrize("every", [80, pytest.param(1, marks=pytest.mark.slow)])
async def test_characters_of_each_script_have_compounds_or_none(fresh_database: TestDatabase, every: int) -> None:
    words = ["\u0640", "\u064b\u0640", *representatives()[::every]]
    async with connected(fresh_database.superuser_dsn) as superuser:
        queries = await superuser.fetchval(
            """
            select count(p.query::tsquery) from unnest($1::text[]) c
             cross join lateral possible_compounds('german', array['hafen', c, 'hafen' || c]) p""",
            words,
        )
    assert queries > len(words)


async def test_words_that_grow_when_they_are_composed_stay_within_the_bound(
    fresh_database: TestDatabase,
) -> None:
    """A lexeme has at most 2,046 bytes."""
    growing = [c for c in all_characters() if len(unicodedata.normalize("NFC", c)) > 1]
    assert "\U0001d160" in growing
    contents = [c * (2_040 // len(c.encode())) + "é" for c in growing]
    async with connected(fresh_database.superuser_dsn) as superuser:
        for function in ("entry_lexemes('simple', 'A title', c)", "text_phrase('simple', c)"):
            await superuser.fetch(f"select {function} from unnest($1::text[]) c", contents)


async def test_letters_and_digits_have_the_words_of_their_compatible_forms(
    fresh_database: TestDatabase,
) -> None:
    """Not those of scripts whose runs become pairs."""
    letters = [
        c
        for c in all_characters()
        if unicodedata.category(c)[0] in "LN" and not re.search(f"[{CHARACTERS}{MARKS}]", c + unify(c))
    ]
    async with connected(fresh_database.superuser_dsn) as superuser:
        rows = await superuser.fetch(
            """
            select c from unnest($1::text[]) c
             where normalize(c, nfkc) <> c
               and text_lexemes('simple', 'a' || c) <> text_lexemes('simple', 'a' || normalize(c, nfkc))""",
            letters,
        )
    assert [ascii(row["c"]) for row in rows] == []


async def test_a_word_without_letters_leaves_its_position_empty(fresh_database: TestDatabase) -> None:
    async with connected(fresh_database.superuser_dsn) as superuser:
        row = await superuser.fetchrow("""
            select text_lexemes('simple', 'ab ـ cd')::text as words, text_phrase('simple', 'ab ـ cd')::text as phrase,
                   text_phrase('simple', 'ـ')::text as none, text_phrase('english', 'cats and a dog')::text as stops""")
    assert row is not None
    assert dict(row) == {
        "words": "'ab':1 'cd':3",
        "phrase": "'ab' <2> 'cd'",
        "none": "",
        "stops": "'cat' <3> 'dog'",
    }

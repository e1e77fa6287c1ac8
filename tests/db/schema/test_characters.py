"""Characters and lexemes."""

import random
import re
import unicodedata
from collections.abc import Sequence

import pytest

from app.contract.text import PICTURES
from app.db.rows import Connection
from app.db.schema.scripts import read_file
from app.knowledge.words import CHARACTER, CHARACTERS, MARKS, RUN, find_stemmer, find_words, is_run, split_run, unify
from tests.fixtures.characters import all_characters, pairs, representatives
from tests.fixtures.database.cluster import TestDatabase, connected, fetch, fetchval

pytestmark = pytest.mark.own_tenants


FORMS = ("{0}", "ab {0} cd", "é{0}", "{0}.{0}1", "{0} {0}")
"""A text alone, between words, with a letter that is folded, in an identifier, and repeated."""
FOUND = """
    select c.content
      from unnest($2::text[]) c (content)
     cross join lateral (select entry_lexemes($1, c.content, c.content) as stored,
                                asked_lexemes($1, c.content, c.content) as asked,
                                text_phrase($1, c.content) as phrase) w
     where not tsvector_to_array(w.asked) <@ tsvector_to_array(w.stored)
        or '' = any (tsvector_to_array(w.stored))
        or numnode(w.phrase) > 0 and not w.stored @@ w.phrase
        or lexeme_weights($1, w.stored) is null and w.stored <> ''
"""


async def find_lost(database: TestDatabase, language: str, contents: Sequence[str]) -> list[str]:
    """The texts that their own words or their phrase do not find. Raises if Postgres refuses one."""
    rows = await fetch(database.superuser_dsn, FOUND, language, [f.format(c) for c in contents for f in FORMS])
    return [ascii(row["content"]) for row in rows]


async def test_characters_and_pairs_of_each_script_are_words_or_none(fresh_database: TestDatabase) -> None:
    marks = [c for c in all_characters() if unicodedata.category(c) in ("Mn", "Cf", "Lm")]
    assert "\u0640" in marks
    for language, contents in (("simple", marks), ("arabic", representatives()[::20]), ("hindi", pairs()[::40])):
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


async def test_words_that_grow_when_they_are_composed_stay_within_the_bound(fresh_database: TestDatabase) -> None:
    """A lexeme has at most 2,046 bytes."""
    growing = [c for c in all_characters() if len(unicodedata.normalize("NFC", c)) > 1]
    assert "\U0001d160" in growing
    contents = [c * (2_040 // len(c.encode())) + "é" for c in growing]
    async with connected(fresh_database.superuser_dsn) as superuser:
        for function in ("entry_lexemes('simple', 'A title', c)", "text_phrase('simple', c)"):
            await superuser.fetch(f"select {function} from unnest($1::text[]) c", contents)


async def test_letters_and_digits_have_the_words_of_their_compatible_forms(fresh_database: TestDatabase) -> None:
    """Not those of scripts whose runs become pairs."""
    letters = [
        c
        for c in all_characters()
        if unicodedata.category(c)[0] in "LN" and not re.search(f"[{CHARACTERS}{PICTURES}{MARKS}]", c + unify(c))
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
    assert dict(row) == {"words": "'ab':1 'cd':3", "phrase": "'ab' <2> 'cd'", "none": "", "stops": "'cat' <3> 'dog'"}


LOCALES = {
    "locale_c": "locale_provider libc locale 'C'",
    "locale_utf8": "locale_provider builtin builtin_locale 'C.UTF-8' lc_ctype 'C.UTF-8'",
    "locale_unicode": "locale_provider builtin builtin_locale 'PG_UNICODE_FAST' lc_ctype 'C.UTF-8'",
}
SAMPLES = (
    "機械学習のﾃﾞｰﾀと Ｐｙｔｈｏｎ３, 東京(本)",
    "ระบบสำรองข้อมูลทำงานทุกคืน",
    "ပြန်လည်ရယူခြင်း ប្រព័ន្ធបម្រុងទុក ຂໍ້ມູນ 한국어로",
    "रात में बैकअप लिया क़लम",
    "שָׁלוֹם עולם, العَرَبِيَّة أحمد",
    "Москва́ и Ёлка, мой счётчик",
    "Ελλάδα, οδός και ΟΔΟΣ",
    "Łódź, Søren, café, Häuser, đường, İstanbul, ﬁnden m²",
)
PLAIN = (
    "The harbour is open; see vercel.json, KNOW-004 and http://example.org/a_b at 10:30 (twice).",
    "Der Hafen ist offen: siehe Quelle, neue Bauern, aktuell am 3.4.2026 und in der Datei a_b.txt.",
)
LETTERS = "漢字機械学習かなカナーがデ한국어กิข้ำาม่เລຂໍပြန်រៀងﾃﾞ１a7 .。、é"


def test_the_runs_of_the_schema_are_those_of_the_service() -> None:
    text = read_file("lexemes")
    assert f"content ~ '[{CHARACTERS}{PICTURES}]'" in text
    assert f"(content, '[{PICTURES}]\\ufe0f?', " in text
    assert f"run ~ '[{MARKS}]'" in text
    classes = set(re.findall(r"\[(\\u0e[^\]]+)\]", text))
    assert classes == {CHARACTERS + PICTURES, MARKS}


async def test_every_part_of_a_run_finds_its_text(fresh_database: TestDatabase) -> None:
    chance = random.Random(18)  # noqa: S311
    texts, parts = [], []
    for _ in range(150):
        text = "".join(chance.choices(LETTERS, k=chance.randrange(1, 25)))
        for run in RUN.findall(text):
            characters = CHARACTER.findall(run)
            first = chance.randrange(len(characters))
            texts.append(text)
            parts.append("".join(characters[first : first + chance.randrange(1, 5)]))
    async with connected(fresh_database.superuser_dsn) as superuser:
        rows = await superuser.fetch(
            """
            select text, part, tsvector_to_array(text_lexemes('english', part)) as words,
                   tsvector_to_array(entry_lexemes('english', null, text)) as stored,
                   numnode(text_phrase('english', part)) < 2
                     or entry_lexemes('english', null, text) @@ text_phrase('english', part) as phrase
              from unnest($1::text[], $2::text[]) t (text, part)""",
            texts,
            parts,
        )
    assert len(rows) > 150
    stem = find_stemmer("english")
    for row in rows:
        assert row["words"], row
        assert set(row["words"]) <= set(row["stored"]), row
        assert row["phrase"], row
        expected = {
            stem(lexeme)
            for word in find_words(row["part"].lower())
            for lexeme in (split_run(word) if is_run(word) else [word])
        }
        assert {unify(word) for word in row["words"]} == expected, row


async def test_words_in_ascii_are_those_of_the_parser(fresh_database: TestDatabase) -> None:
    async with connected(fresh_database.superuser_dsn) as superuser:
        for language, text in zip(("english", "german"), PLAIN, strict=True):
            assert await superuser.fetchval(
                "select text_lexemes($1, $2) = to_tsvector($1::regconfig, translate($2, '/-_.:@#', '       '))",
                language,
                text,
            )


async def test_german_umlauts_meet_their_transcription_without_the_stemmer_of_postgres_18(
    fresh_database: TestDatabase,
) -> None:
    """Before, the stemmer made `haeus` of haeuser."""
    folded = await fetchval(
        fresh_database.superuser_dsn,
        "select array_agg(folded_words('german', w)) from unnest($1::text[]) w",
        ["haeus", "muell", "quell", "dauern", "goeth"],
    )
    assert folded == ["haus", "mull", "quell", "dauern", "goth"]


async def test_words_are_the_same_in_every_locale(fresh_database: TestDatabase) -> None:
    found = {}
    async with connected(fresh_database.superuser_dsn) as superuser:
        found["template"] = await read_words(superuser)
        for name, locale in LOCALES.items():
            await superuser.execute(f"create database {name} template template0 {locale}")
    for name in LOCALES:
        async with connected(fresh_database.address.dsn(database=name)) as superuser:
            await superuser.execute("create extension vector")
            await superuser.execute(read_file("lexemes"))
            found[name] = await read_words(superuser)
    async with connected(fresh_database.superuser_dsn) as superuser:
        for name in LOCALES:
            await superuser.execute(f"drop database {name}")
    for name in LOCALES:
        assert found[name] == found["template"], name


async def read_words(superuser: Connection) -> list[str]:
    rows = await superuser.fetch(
        "select entry_lexemes('simple', null, s)::text as words from unnest($1::text[]) s", list(SAMPLES)
    )
    return [row["words"] for row in rows]


@pytest.mark.parametrize(
    "text",
    [
        "".join(map(chr, range(0x20000, 0x20000 + 50_000))) * 2,
        "ก" + "\u0e48" * 99_999,
        "a" + "\u0301" * 99_999,
        "漢\u200b" * 50_000,
        "漢a" * 50_000,
        "ﷺ" * 50_000,
    ],
    ids=["distinct pairs", "tone marks", "accents", "zero-width spaces", "alternating", "expanding"],
)
async def test_no_text_has_too_many_words(fresh_database: TestDatabase, text: str) -> None:
    await fetchval(fresh_database.superuser_dsn, "select entry_lexemes('simple', 'A title', $1)", text)

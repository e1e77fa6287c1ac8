"""Queries with every kind of text."""

from __future__ import annotations

import pytest

from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_fields

MODES = ("hybrid", "semantic", "keyword")


@pytest.mark.parametrize(
    "query",
    [
        ("the and of " * 1000)[:10_000],
        ("der die das und " * 700)[:10_000],
        ("?!.,;:-_()[]{}'\"\\|&*%" * 500)[:10_000],
        "harbour " * 1250,
        "x" * 10_000,
        "🚢" * 10_000,
        " ".join(f"w{n}" for n in range(1_800)),
    ],
    ids=["English stop words", "German stop words", "punctuation", "one word", "x", "emoji", "many words"],
)
async def test_a_long_meaningless_query_is_answered(admin: Caller, query: str) -> None:
    assert 9_000 <= len(query) <= 10_000
    await admin.add("The harbour opens at six")
    for mode in MODES:
        found = await admin.search(query, mode=mode)
        assert found["metadata"]["fallback_mode"] is False
    words = await admin.find(query)
    assert words == (["The harbour opens at six"] if query.startswith("harbour") else [])


async def test_length_is_counted_after_trimming(admin: Caller) -> None:
    await admin.search(" \n" * 50 + "x" * 10_000 + "\t " * 50)
    answer = await admin.post("/knowledge/search", {"query": " " + "x" * 10_001})
    expect_fields(answer, "query")


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("שלום לעולם הגדול", "לעולם"),
        ("مرحبا بالعالم", "بالعالم"),
        ("The ship 🚢 leaves", "ship 🚢"),
        ("Größe und Straße", "STRASSE größe"),
        ("naïve café", "café"),
        ("港の営業時間", "港の営業時間"),
        ("a:b & c | d ! (e) <-> f:* zebra", "zebra & | ! ( <-> :*"),
        ("Robert'); DROP TABLE entries;-- zebra", "'); DROP TABLE entries;--"),
        ("50% off_price zebra\\", "50% off_price \\"),
        ("<b>zebra</b> <script>alert(1)</script>", "<b>zebra</b>"),
    ],
)
async def test_text_of_any_script_is_found_by_its_words(admin: Caller, content: str, query: str) -> None:
    await admin.add(content)
    assert await admin.find(query) == [content]
    (hit,) = (await admin.search(query, mode="keyword"))["results"]
    assert hit["content"] == content
    # The snippet of HTML is its text.
    assert hit["snippet"] == content.replace("<b>zebra</b> <script>alert(1)</script>", "zebra alert(1)")
    for mode in MODES:
        await admin.search(query, mode=mode, explain=True)


@pytest.mark.parametrize("query", ["\u202e", "\u200b", "\ufeff", "\u0301", "\x01\x02", "\U0010ffff", "%s %(x)s {}"])
async def test_odd_characters_are_answered(admin: Caller, query: str) -> None:
    await admin.add("The harbour opens at six")
    for mode in MODES:
        answer = await admin.post("/knowledge/search", {"query": query, "mode": mode})
        assert answer.status_code == 200, answer.text


async def test_german_and_english_each_find_their_stems(admin: Caller) -> None:
    german = "Die Häuser am Hafen wurden im letzten Jahr renoviert und die Kräne geprüft."
    english = "The houses at the pier were renovated last year, and the cranes were inspected."
    await admin.add(german)
    await admin.add(english)
    assert await admin.find("Haus Kran") == [german]
    assert await admin.find("crane inspecting") == [english]


async def test_a_title_match_is_enough_and_weighs_more(admin: Caller) -> None:
    await admin.add("It opens at six in the morning on most days", title="Harbour")
    await admin.add("The harbour opens at six in the morning on most days")
    assert await admin.find("harbour") == [
        "It opens at six in the morning on most days",
        "The harbour opens at six in the morning on most days",
    ]


async def test_a_snippet_of_a_long_entry_shows_the_match(admin: Caller) -> None:
    await admin.add("Filler words stand here. " * 200 + "The crane is serviced in March. " + "And more. " * 200)
    (hit,) = (await admin.search("crane", mode="keyword"))["results"]
    assert len(hit["snippet"]) <= 240
    assert "crane" in hit["snippet"]
    assert hit["snippet"].startswith("…")
    assert hit["snippet"].endswith("…")
    assert hit["matched_terms"] == ["crane"]

"""Characters and pairs of every script, stored and asked for over HTTP."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import pytest

from app.knowledge.words import fold, unify
from tests.fixtures.characters import pairs, representatives
from tests.fixtures.http.callers import Caller

BULK = "/knowledge/entries/bulk"
ODD = (
    "\u0640", "é\u0640", "\u0640 \u0640", "\u064b", "\u0300", "\u093c\u094b", "\u200d", "\u200c", "\ufeff",
    "\ufe0f", "\x01", "\x7f", "\x85", "\u202e", "\ufdd0", "\uffff", "\U0001d160", "\U000e0041",
    "\U000e0100", "\U000f0000", "\U0010ffff", "\ufc5e",
)  # fmt: skip
"""Elongation, lone marks, joiners, controls, variation selectors, noncharacters, private characters and tags."""

ARABIC = [
    f"تأسست المدينة عام {year} ـ وكانت مركزا للتجارة، ثم اتسعت ـ كما يروى ـ في القرن التالي."
    for year in range(900, 1_140)
]
"""Paragraphs with the elongation as a dash."""


def has_word(text: str) -> bool:
    """Whether a text has letters or digits besides the marks that readers omit."""
    return any(unicodedata.category(c)[0] in "LN" for c in fold(unify(text), "simple"))


async def check(admin: Caller, texts: Sequence[str]) -> None:
    """Store each text as content, title and tag, and ask for it in each way."""
    texts = [text for text in texts if text.strip()]
    entries = [
        {
            "content": f"{n} {text}",
            "title": text,
            "tags": [text],
            "metadata": {text: text},
            "language": "simple",
        }
        for n, text in enumerate(texts)
    ]
    for start in range(0, len(entries), 500):
        answer = await admin.post(BULK, {"entries": entries[start : start + 500]})
        assert answer.status_code == 200, answer.text
        assert {result["status"] for result in answer.json()["results"]} == {"created"}
    for n, text in enumerate(texts):
        content = f"{n} {text}"
        wanted = {"tags": [text], "facets": ["tags"], "explain": True}
        if has_word(text):
            assert content in await admin.find(text, **wanted), ascii(text)
        assert content in await admin.find(f'"{content}"', **wanted), ascii(text)
        for query in (f'"{text} {text}" {n} {text}', f"zzz{text} {text}y", f"{text}.{text}1 {text * 3}zz"):
            await admin.search(query, mode="keyword", metadata={text: text}, facets=[f"metadata.{n}"])
        await admin.search(text)


async def test_odd_characters_are_stored_and_asked_for(admin: Caller) -> None:
    await check(admin, ODD)
    for text in filter(str.strip, ODD):
        await admin.add(text)
        answer = await admin.get("/knowledge/entries", params={"tag": text})
        assert answer.status_code == 200, ascii(text)


async def test_a_sample_of_characters_and_pairs_is_found(admin: Caller) -> None:
    await check(admin, [*representatives()[::700], *pairs()[::1400]])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
async def test_characters_and_pairs_of_every_script_are_found(admin: Caller, part: int) -> None:
    await check(admin, [*representatives()[part::40], *pairs()[part::80]])


async def test_a_bulk_of_arabic_paragraphs_is_stored_and_found(admin: Caller) -> None:
    answer = await admin.post(BULK, {"entries": [{"content": text} for text in ARABIC]})
    assert {result["status"] for result in answer.json()["results"]} == {"created"}
    assert ARABIC[37] in await admin.find("937 ـ مركزا")
    assert (await admin.find('"937 ـ وكانت مركزا"'))[0] == ARABIC[37]

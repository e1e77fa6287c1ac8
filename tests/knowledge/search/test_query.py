"""Quoted phrases of a query, and recognition of identifiers."""

from __future__ import annotations

import pytest

from app.knowledge.search.query import is_identifier, quoted_phrases


@pytest.mark.parametrize(
    "query", ["KNOW-004", "vercel.json", "ERR_CONN_RESET", "2.14.1", "v2.0.0-rc.1", "src/app/main.py"]
)
def test_identifier_is_recognised(query: str) -> None:
    assert is_identifier(query)


@pytest.mark.parametrize("query", ["harbour", "well-known", "KNOW-004 flags", "-", "4", "a b_c", "C++"])
def test_ordinary_query_is_not_an_identifier(query: str) -> None:
    assert not is_identifier(query)


def test_quoted_phrases_are_read_in_straight_and_in_typographic_quotes() -> None:
    assert quoted_phrases('say "cut once" or „zwei Mal“, “and more”, not "" or "x"') == (
        "cut once",
        "zwei Mal",
        "and more",
    )


def test_quoted_phrases_are_limited_and_distinct() -> None:
    assert quoted_phrases('"same one" "same one"') == ("same one",)
    assert len(quoted_phrases(" ".join(f'"phrase {n}"' for n in range(9)))) == 5

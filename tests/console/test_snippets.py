"""Snippets of tables."""

from __future__ import annotations

import pytest

from app.console.hits import show_cells


@pytest.mark.parametrize(
    ("snippet", "shown"),
    [
        (
            "…| When | | Platform team | after 30 minutes | | Paylane |…",
            "… · When · Platform team · after 30 minutes · Paylane · …",
        ),
        ("| Level | Meaning | |---|:--:| | SEV1 | All | every…", "Level · Meaning · SEV1 · All · every…"),
        ("Run cat a.log | sort | uniq -c", "Run cat a.log | sort | uniq -c"),
        ("either a || b", "either a || b"),
        ("", ""),
    ],
)
def test_cells_of_a_table_have_dots_between_them_and_commands_keep_their_pipes(snippet: str, shown: str) -> None:
    assert show_cells(snippet) == shown

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from app.knowledge.transfer import records
from app.knowledge.transfer.records import count_lines, parse_record, read_lines


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"content": "x", "expires_at": "soon"}, "expires_at: must be a date"),
        ({"content": "x", "source_ids": [1]}, "source_ids: must hold ids"),
    ],
)
def test_line_out_of_range_is_refused_with_a_reason(line: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_record(1, line)


@pytest.mark.parametrize(("text", "count"), [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("a\n\n", 2)])
def test_a_last_line_without_an_end_is_counted(tmp_path: Path, text: str, count: int) -> None:
    (tmp_path / "a").write_text(text)
    assert count_lines(tmp_path / "a") == count


def test_a_line_of_an_export_that_is_too_long_is_refused_without_reading_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MAX_EXPORTED", 100)
    monkeypatch.setattr(records, "MAX_ASSET", 200)
    file = tmp_path / "a.jsonl"
    entry, asset = b'{"kind":"entry","x":"%s"}', b'{"kind":"asset","x":"%s"}'
    given = [
        entry % (b"x" * 20),
        entry % (b"x" * 5_000_000),
        asset % (b"x" * 150),
        asset % (b"x" * 5_000_000),
    ]
    file.write_bytes(b"\n".join(given))
    found = [(line.number, line.text, line.error) for line in read_lines(file, exported=True)]
    assert found == [
        (1, given[0] + b"\n", None),
        (2, b"", "is longer than 100 bytes"),
        (3, given[2] + b"\n", None),
        (4, b"", "is longer than 200 bytes"),
    ]
    tracemalloc.start()
    try:
        assert len(list(read_lines(file, exported=True))) == 4
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()

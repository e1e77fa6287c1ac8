from __future__ import annotations

from typing import Any

import pytest

from app.knowledge.transfer.lines import parse_record


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

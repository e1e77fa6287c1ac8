"""Golden files: what callers see, as text that is compared on each run and rewritten by `make golden`."""

import difflib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).with_name("files")
REWRITES = "KB_REWRITE_GOLDEN"
"""With this variable, files are rewritten instead of compared."""
SHOWN_LINES = 200


def expect_golden(name: str, text: str) -> None:
    """Fail with a diff unless the golden file is this text."""
    path = FOLDER / name
    text = text.rstrip("\n") + "\n"
    if os.environ.get(REWRITES):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="")
        return
    golden = path.read_bytes().decode() if path.exists() else ""
    if golden != text:
        lines = list(difflib.unified_diff(golden.split("\n"), text.split("\n"), f"golden {name}", "now", "", "", 3, ""))
        if len(lines) > SHOWN_LINES:
            lines[SHOWN_LINES:] = [f"… and {len(lines) - SHOWN_LINES} lines more"]
        lines.append(f"If callers should see this, run `make golden` and commit tests/golden/files/{name}.")
        pytest.fail("\n".join(lines), pytrace=False)


def expect_only(folder: str, names: Iterable[str]) -> None:
    """Fail unless these are all golden files of the folder; when files are rewritten, delete the others."""
    wanted = {FOLDER / folder / name for name in names}
    present = {path for path in (FOLDER / folder).rglob("*") if path.is_file()}
    if os.environ.get(REWRITES):
        for path in present - wanted:
            path.unlink()
        return
    left = sorted(str(path.relative_to(FOLDER)) for path in present - wanted)
    missing = sorted(str(path.relative_to(FOLDER)) for path in wanted - present)
    assert not left, f"nothing has these golden files any more; run `make golden`: {left}"
    assert not missing, f"there are no golden files of these; run `make golden`: {missing}"


def write_json(value: Any) -> str:
    """JSON in the order in which it was sent, with one line for each line of a text."""
    return json.dumps(_readable(value), ensure_ascii=False, indent=2)


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _readable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_readable(inner) for inner in value]
    if isinstance(value, str) and "\n" in value:
        return {"<lines>": value.split("\n")}
    return float(f"{value:.10g}") if isinstance(value, float) else value


def sort_keys(value: Any) -> Any:
    """The same description with sorted keys, except where callers see the order: names of fields, and examples."""
    if isinstance(value, list):
        return [sort_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _sort_inner(key, inner) for key, inner in sorted(value.items())}


def _sort_inner(key: str, value: Any) -> Any:
    if key in ("example", "examples"):
        return value
    if key == "properties" and isinstance(value, dict):
        return {name: sort_keys(field) for name, field in value.items()}
    return sort_keys(value)

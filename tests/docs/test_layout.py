"""The rules of CONTRIBUTING.md about files that no linter checks."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT


def list_files(*suffixes: str) -> Iterator[Path]:
    tracked = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True)
    return (ROOT / name for name in tracked.splitlines() if name.endswith(suffixes))


IMPORT = re.compile(r"^\s*(?:from|import)\b[^(\n]*(?:\([^)]*\))?", re.MULTILINE)


def list_test_modules(source: str) -> list[str]:
    """The statements that import a test module, or its objects."""
    return [statement for statement in IMPORT.findall(source) if re.search(r"\btest_", statement)]


@pytest.mark.parametrize(
    "source",
    [
        "import tests.db.test_statements",
        "from tests.db import test_rows",
        "from tests.db.test_statements import Row",
        "from .test_rows import Row",
        "from tests.db import (\n    statements,\n    test_rows,\n)",
        "def late():\n    from tests.db.test_statements import Row",
    ],
)
def test_every_form_of_import_is_found(source: str) -> None:
    assert list_test_modules(source)


def test_no_module_imports_a_test_module() -> None:
    """Shared code belongs in a plain module of the folder, or in `tests/fixtures`."""
    found = {path: list_test_modules(path.read_text("utf-8")) for path in list_files(".py")}
    assert len(found) > 500
    assert {str(path.relative_to(ROOT)): names for path, names in found.items() if names} == {}

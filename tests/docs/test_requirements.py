"""The table of requirements: each names tests that exist, and none of the contract is missing."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "requirements.md"
COMPATIBILITY = PAGE.with_name("compatibility.md")
CONTRACT = TESTS.parents[1] / "shared" / "contract.md"
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
HELD = re.compile(rf"{NAMED.pattern}|`\.ci/run`")
"""A test, or the command that CI runs."""
TABLES = {
    "Commands": "Commands",
    "HTTP": "HTTP",
    "Version 2: what is added or made stricter": "Version 2",
    "Version 3: what is added or made stricter": "Version 3",
}
"""The page's heading of each table of the contract, by the contract's."""


def read_rows(text: str) -> dict[str, dict[str, str]]:
    """For each heading, the rest of each row of its first table by the first cell."""
    found: dict[str, dict[str, str]] = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        table = re.search(r"(?:^\|.*\n)+", body, re.MULTILINE)
        lines = table[0].splitlines()[2:] if table else []
        found[heading] = {first.strip(): rest for first, _, rest in (line[1:].partition("|") for line in lines)}
    return found


@cache
def list_tests(file: str) -> frozenset[str]:
    """The names of the tests of a file below `tests/`."""
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_requirement_names_tests_that_exist() -> None:
    sections = read_rows(PAGE.read_text("utf-8"))
    deviations = sections.pop("Deviations")
    assert all(cell.strip() for row in deviations.values() for cell in row.strip(" |").split("|"))
    requirements = {(heading, name): row for heading, rows in sections.items() for name, row in rows.items()}
    assert len(requirements) > 100
    missing = {
        f"{file}::{test}"
        for row in requirements.values()
        for file, test in NAMED.findall(row)
        if not (TESTS / file).is_file() or test not in list_tests(file)
    }
    assert not missing
    assert [name for name, row in requirements.items() if HELD.sub("", row).strip(" |,") or not HELD.search(row)] == []


def test_every_promise_of_compatibility_names_what_holds_it() -> None:
    promises = read_rows(COMPATIBILITY.read_text("utf-8"))["What holds it"]
    named = {promise: NAMED.findall(held) for promise, held in promises.items()}
    unnamed = {promise for promise, tests in named.items() if not tests}
    assert unnamed == {"one version of service and clients", "a deprecation lasts two minor versions"}
    assert [test for tests in named.values() for file, test in tests if test not in list_tests(file)] == []


@pytest.mark.parametrize("heading", TABLES)
def test_every_row_of_the_contract_is_a_requirement(heading: str) -> None:
    if not CONTRACT.is_file():
        pytest.skip(f"{CONTRACT} is absent")
    asked = read_rows(CONTRACT.read_text("utf-8"))[heading]
    listed = read_rows(PAGE.read_text("utf-8"))[TABLES[heading]]
    assert [name for name in asked if name not in listed] == []

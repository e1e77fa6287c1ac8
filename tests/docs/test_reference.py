"""The generated pages of the reference are complete."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from app.mcp.tools import TOOLS
from app.settings import variable_names
from docs.generation import settings as settings_page
from docs.generation.commands import command_names
from docs.generation.tables import render_table
from tests.docs.pages import read_blocks
from tests.docs.reader import check_json


def test_http_page_has_every_path_and_schema(generated_pages: Mapping[str, str], document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"### `{method.upper()} {path}`\n" in generated_pages["reference/http.md"]
    for name in document["components"]["schemas"]:
        assert f"### {name}\n" in generated_pages["reference/http.md"]


def test_settings_page_has_every_variable_with_its_constraints(generated_pages: Mapping[str, str]) -> None:
    shown = re.findall(r"^\| `([A-Z_]+)` \| .+ \| (.+) \|$", generated_pages["reference/settings.md"], re.MULTILINE)
    assert sorted(name for name, _ in shown) == sorted(variable_names())
    assert all(allowed for _, allowed in shown)


def test_settings_page_is_refused_when_a_variable_is_not_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_page, "variable_names", lambda: (*variable_names(), "KB_NEW"))
    with pytest.raises(RuntimeError, match="KB_NEW"):
        settings_page.render_settings()


def test_commands_page_has_the_help_of_every_command(generated_pages: Mapping[str, str]) -> None:
    names = command_names()
    assert {"serve", "search", "tenant create", "model add", "eval"} <= set(names)
    for name in names:
        assert f"## `knowledge {name}`\n\n```text\n" in generated_pages["reference/commands.md"]
        assert re.search(rf"Usage: knowledge {name}\b", generated_pages["reference/commands.md"]), name
    assert "\x1b" not in generated_pages["reference/commands.md"]


def test_tools_page_has_every_tool_with_its_arguments(generated_pages: Mapping[str, str]) -> None:
    for name, tool in TOOLS.items():
        assert f"## `{name}`\n" in generated_pages["reference/mcp.md"]
        for argument in tool.input_schema.get("properties", {}):
            assert f"| `{argument}` |" in generated_pages["reference/mcp.md"]


def test_errors_page_has_statuses_and_classes(generated_pages: Mapping[str, str]) -> None:
    assert "| 429 | A limit is reached; see Retry-After |" in generated_pages["reference/errors.md"]
    assert "| `EntryNotFound` | 404 | No entry with this id in the tenant. |" in generated_pages["reference/errors.md"]


def test_examples_of_generated_pages_are_valid_for_their_schemas(
    generated_pages: Mapping[str, str], document: dict[str, Any]
) -> None:
    blocks = [block for page, text in generated_pages.items() for block in read_blocks(page, text)]
    examples = [block for block in blocks if block.language == "json"]
    assert [block.remark for block in examples if block.marker] == ["Problem"]
    for block in examples:
        check_json(block, document["components"])


def test_a_cell_cannot_end_its_table() -> None:
    assert render_table(["a"], [["x | y\nz"]]) == "| a |\n| --- |\n| x \\| y z |\n"

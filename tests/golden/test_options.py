"""The fields of requests, of which commands make options: `app/cli/request_fields.json` is made from the contract.

The contract itself is not loaded by a command that asks a service, because it starts slowly.
"""

import json
import os
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

import app.cli
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery

FILE = Path(app.cli.__file__).with_name("request_fields.json")


def flatten(schema: dict[str, Any]) -> dict[str, Any]:
    """The type that an option has: of several, a list."""
    given = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    chosen: dict[str, Any] = next((each for each in given if each.get("type") == "array"), given[0])
    inner = chosen.get("items", chosen)
    values = inner.get("enum", [inner["const"]] if "const" in inner else None)
    found = {
        "type": inner.get("format", inner.get("type", "object")),
        "repeated": chosen.get("type") == "array" or None,
        "values": values,
        "least": inner.get("minimum"),
        "most": inner.get("maximum"),
        "text": schema.get("description"),
    }
    return {name: value for name, value in found.items() if value is not None}


def describe(request: type[Any]) -> dict[str, Any]:
    """The fields of a request by their names."""
    return {name: flatten(given) for name, given in TypeAdapter(request).json_schema()["properties"].items()}


def test_the_fields_of_commands_are_those_of_the_contract() -> None:
    found = {"search": describe(SearchQuery), "entry": describe(EntryDraft)}
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("KB_REWRITE_GOLDEN"):
        FILE.write_text(text, "utf-8")
    assert FILE.read_text("utf-8") == text, "run: make golden"

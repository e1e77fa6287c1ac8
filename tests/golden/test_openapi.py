"""The OpenAPI document: golden."""

from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest

from app import contract
from app.contract.validation import descriptions_of
from tests.golden.files import expect_golden, expect_only, sort_keys, write_json


def move_problems(paths: dict[str, Any]) -> dict[str, Any]:
    """Take the responses for errors, which operations share, out of them; a response of its own stays in its place."""
    shared: dict[str, Any] = {}
    for path in paths.values():
        for operation in path.values():
            responses = operation["responses"]
            refused = {status: response for status, response in responses.items() if status >= "400"}
            for status, response in refused.items():
                if shared.setdefault(status, response) == response:
                    responses[status] = "as in problems.json"
    return shared


async def test_the_openapi_document_is_golden(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    problems = move_problems(document["paths"])
    files = {
        "paths.json": document.pop("paths"),
        "problems.json": problems,
        "schemas.json": document["components"].pop("schemas"),
        "document.json": document,
    }
    for name, part in files.items():
        expect_golden(f"openapi/{name}", write_json(sort_keys(part)))
    expect_only("openapi", files)


@pytest.mark.parametrize("path", sorted(Path(contract.__path__[0]).glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_a_shape_with_docstrings_of_fields_has_them_in_its_schema(path: Path) -> None:
    module = import_module(f"{contract.__name__}.{path.stem}")
    own = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    assert all(hasattr(shape, "__get_pydantic_json_schema__") for shape in own if descriptions_of(shape))

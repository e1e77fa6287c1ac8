"""The OpenAPI document: golden."""

from importlib import import_module
from pathlib import Path

import httpx
import pytest

from app import contract
from app.contract.validation import descriptions_of
from tests.golden.files import expect_golden, expect_only, sort_keys, write_json


async def test_the_openapi_document_is_golden(http: httpx.AsyncClient) -> None:
    document = (await http.get("/openapi.json")).json()
    files = {
        "paths.json": document.pop("paths"),
        "problems.json": document["components"].pop("responses"),
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

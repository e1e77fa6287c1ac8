"""Errors of invalid fields and unknown names: one style, as described, and nothing of the framework's wording."""

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, cast

import httpx
import pytest
from pydantic import BaseModel

import app.contract
from app.api.assets import NO_JSON
from app.contract.fields import NOT_BLANK, WHITE
from app.contract.search import Weights
from app.contract.validation import MOST, validate
from app.errors import InvalidInput
from app.mcp.tools import TOOLS
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_fields

PLAIN = re.compile(
    r"(is required|unknown field|((semantic and keyword|and writers) )?must"
    r" (be,?|have|map|sum|not be|not both be|not contain) [^'\[\]]+)"
)
WRONG: tuple[Any, ...] = (
    *(None, True, -1, 0, 5, 10**30, 1.5, -0.5, 1e300, float("nan"), float("inf"), b"\xff", object()),
    *("", "x", "x" * 200_000, "\ud800", "12", "2026-13-01T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00"),
    *([], ["x"], [1], [None], [[]], ["x" * 1_000], ["x"] * 2_000, [0.5] * 5_000),
    *({}, {"x": 1}, {"semantic": 2, "keyword": "x"}, {"query": 1}),
)


def request_models() -> Iterator[Any]:
    """Every type that reads a caller's input."""
    for found in pkgutil.iter_modules(app.contract.__path__, "app.contract."):
        for value in vars(importlib.import_module(found.name)).values():
            if isinstance(value, type) and is_dataclass(value) and hasattr(value, "__pydantic_validator__"):
                yield value
    yield from (tool.arguments for tool in TOOLS.values())


def test_every_refusal_of_every_field_is_in_plain_words() -> None:
    models = list(dict.fromkeys(request_models()))
    assert len(models) >= 15
    said = set()
    for model in models:
        names = model.model_fields if issubclass(model, BaseModel) else [f.name for f in fields(cast("Any", model))]
        for given in (*WRONG, *({name: value} for name in [*names, "other"] for value in WRONG)):
            try:
                validate(model, given)
            except InvalidInput as error:
                for one in error.errors:
                    said.add(one.message)
                    assert PLAIN.fullmatch(one.message), (model, one)
                    assert not re.search("[Ii]nput|valid|instance|Model|pydantic", one.message), (model, one)
    assert {"must be at most 1", "must have at least 1 character", "must be an integer"} <= said


async def test_an_answer_names_only_so_many_fields(reader: Caller) -> None:
    body = {"query": "harbour"} | {f"x{number}": 1 for number in range(2_000)}
    answer = await reader.post("/knowledge/search", body)
    expect_fields(answer, *(f"x{number}" for number in range(MOST)))


def test_a_request_has_no_place_for_more_arguments_than_fields() -> None:
    with pytest.raises(TypeError, match="at most 2 positional arguments, not 3"):
        Weights(0.5, 0.5, 0.0)  # type: ignore[call-arg]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_the_allowed_names_and_the_closest_one_are_named(admin: Caller, method: str) -> None:
    answer = await admin.request(method, "/knowledge/entries?tags=pay&limit=5&q=1")
    assert answer.status_code == 422
    if method == "GET":
        body = expect_fields(answer, "tags", "q")
        messages = {error["field"]: error["message"] for error in body["errors"]}
        assert messages["tags"].startswith("unknown query parameter; did you mean tag? must be one of asset_id, ")
        assert "did you mean" not in messages["q"]


async def test_a_path_without_parameters_says_so(admin: Caller) -> None:
    body = expect_fields(await admin.get("/admin/stats?days=" + "9" * 3_000), "days")
    assert body["errors"][0]["message"] == "unknown query parameter; the path has no query parameters"


async def test_a_caller_without_a_token_learns_nothing_of_the_parameters(http: httpx.AsyncClient) -> None:
    answer = await http.get("/knowledge/entries?surprise=1")
    assert answer.status_code == 401
    assert "surprise" not in answer.text


def test_white_space_is_what_trimming_removes() -> None:
    found = {chr(code) for code in range(sys.maxunicode + 1) if re.fullmatch(f"[{WHITE}]", chr(code))}
    assert found == {chr(code) for code in range(sys.maxunicode + 1) if not chr(code).strip()}


@pytest.mark.parametrize("text", [" ", "\x85", "\u3000\t\r\n", "\u2028"])
async def test_a_text_of_white_space_is_refused_as_described(http: httpx.AsyncClient, admin: Caller, text: str) -> None:
    schemas = (await http.get("/openapi.json")).json()["components"]["schemas"]
    for name, field in (("SearchRequest", "query"), ("NewSavedSearch", "name")):
        assert not re.search(schemas[name]["properties"][field]["pattern"], text)
        assert re.search(schemas[name]["properties"][field]["pattern"], f"{text}a{text}")
    assert (await admin.post("/knowledge/search", {"query": text})).status_code == 422
    saving = {"name": text, "request": {"query": "word"}}
    assert (await admin.post("/knowledge/saved-searches", saving)).status_code == 422
    assert NOT_BLANK.json_schema_extra == {"pattern": schemas["SearchRequest"]["properties"]["query"]["pattern"]}


@pytest.mark.parametrize(
    ("tag", "status"), [("[", 422), (' ["a"]', 422), ("\x85[", 422), ("a[", 202), ("", 202), (" a", 202)]
)
async def test_a_list_in_json_is_refused_as_described(admin: Caller, tag: str, status: int) -> None:
    assert (re.search(NO_JSON, tag) is None) is (status == 422)
    answer = await admin.upload("a.txt", f"text of {tag!r}".encode(), "text/plain", tags=tag)
    assert answer.status_code == status, answer.text

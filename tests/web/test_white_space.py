"""The patterns of the OpenAPI document agree with the service on what white space is."""

import re
import sys

import httpx
import pytest

from app.api.assets import NO_JSON
from app.contract.fields import NOT_BLANK, WHITE
from tests.fixtures.http.callers import Caller


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

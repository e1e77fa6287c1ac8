"""Unknown query parameters are refused on every path with a token, as unknown fields of a body are."""

import httpx
import pytest

from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_fields


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

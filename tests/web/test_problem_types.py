"""Types of problems: each is told apart, documented at its address, and the same over every way in."""

import inspect

import httpx

from app import errors
from app.contract.problems import TYPES, type_of_error
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.expectations import expect_problem

ENTRIES = "/knowledge/entries"


def test_every_error_of_a_service_has_a_type_and_every_conflict_its_own() -> None:
    kinds = {kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.KnowledgeError)}
    # A reranker that fails degrades a search, and no caller gets its error; only the command line calls other services.
    inside = {
        errors.KnowledgeError,
        errors.ConfigurationError,
        errors.ProviderUnavailable,
        errors.RerankerUnavailable,
        errors.ServiceUnreachable,
    }
    for kind in kinds - inside:
        found = type_of_error(kind)
        assert found is not None, kind
        assert found.error is kind, kind


async def test_every_type_has_a_page_without_a_token(http: httpx.AsyncClient) -> None:
    index = await http.get("/problems")
    assert index.status_code == 200
    for kind in TYPES.values():
        assert kind.uri in index.text
        page = await http.get(kind.uri)
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert f"Status {kind.status}," in page.text
        for outside in ("http://", "https://", "src="):
            assert outside not in page.text
    expect_problem(await http.get("/problems/nothing"), 404)


async def test_conflicts_of_entries_name_the_other_entry(admin: Caller) -> None:
    one = await admin.add("The harbour opens at six", external_id="H1")
    two = await admin.add("The lighthouse is red")
    three = await admin.add("The quay is wet")
    for change, other in (({"external_id": "H1"}, one), ({"content": "The quay is wet"}, three)):
        body = expect_problem(await admin.patch(f"{ENTRIES}/{two['id']}", change), 409)
        assert body["type"] == "/problems/entry-exists"
        assert body["existing_id"] == other["id"]
        assert other["id"] in body["detail"]


async def test_a_removed_external_id_names_the_entry_with_the_same_content(admin: Caller) -> None:
    other = await admin.add("The lighthouse is red")
    named = await admin.add("The lighthouse is red", external_id="H1")
    body = expect_problem(await admin.patch(f"{ENTRIES}/{named['id']}", {"external_id": None}), 409)
    assert body["existing_id"] == other["id"]
    assert body["detail"] == f"another entry has the same content: {other['id']}"

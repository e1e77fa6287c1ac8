"""The OpenAPI document: stable names, every possible status, and an example of every body."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from app.contract.problems import TYPES
from app.web.openapi import ANYWHERE
from app.web.problems import MEDIA_TYPE
from tests.fixtures.http.routes import list_endpoints

RELEASED = {
    "POST /knowledge/search": "search",
    "POST /knowledge/search/why-not": "why_not",
    "GET /knowledge/entries": "list_entries",
    "POST /knowledge/entries": "create_entry",
    "POST /knowledge/entries/bulk": "create_entries",
    "GET /knowledge/entries/{entry_id}": "get_entry",
    "PATCH /knowledge/entries/{entry_id}": "change_entry",
    "DELETE /knowledge/entries/{entry_id}": "delete_entry",
    "GET /knowledge/entries/{entry_id}/related": "related_entries",
    "GET /knowledge/assets": "list_assets",
    "POST /knowledge/assets": "upload_asset",
    "GET /knowledge/assets/{asset_id}": "get_asset",
    "DELETE /knowledge/assets/{asset_id}": "delete_asset",
    "GET /knowledge/assets/{asset_id}/text": "get_asset_text",
    "GET /knowledge/assets/{asset_id}/content": "get_asset_content",
    "PATCH /knowledge/assets/{asset_id}": "change_asset",
    "POST /knowledge/assets/{asset_id}/retry": "retry_asset",
    "GET /admin/stats": "get_stats",
    "GET /admin/settings": "get_settings",
    "PATCH /admin/settings": "change_settings",
    "GET /admin/audit": "list_audit",
    "GET /admin/searches/{search_id}": "get_search_receipt",
    "GET /admin/reembed": "get_model_change",
    "POST /admin/reembed": "start_model_change",
    "DELETE /admin/reembed": "end_model_change",
    "POST /admin/reembed/switch": "switch_model",
    "POST /admin/reembed/switch-back": "switch_model_back",
    "GET /admin/tenants": "list_tenants",
    "POST /admin/tenants": "create_tenant",
    "DELETE /admin/tenants/{tenant_id}": "delete_tenant",
    "GET /healthz": "healthz",
    "GET /readyz": "readyz",
}
"""Generated clients name their methods after these ids: add to them, never change one."""


@pytest.fixture(scope="module")
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def contents(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every body: the operation, `request` or the status, and the description of one media type."""
    for name, operation in operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            yield name, "request", content
        for status, response in operation["responses"].items():
            for content in response.get("content", {}).values():
                yield name, status, content


def test_released_operations_keep_their_ids(document: dict[str, Any]) -> None:
    ids = {name: operation["operationId"] for name, operation in operations(document)}
    assert {name: ids.get(name) for name in RELEASED} == RELEASED


def test_an_operations_id_is_its_functions_name(app: FastAPI) -> None:
    described = [route for route in list_endpoints(app) if route.include_in_schema]
    assert len(described) >= len(RELEASED)
    for route in described:
        assert isinstance(route, APIRoute)
        assert route.operation_id == route.endpoint.__name__


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert operation["summary"], name
        assert len(operation["description"]) > 10, name
        assert operation["tags"], name


def test_every_status_of_any_request_is_described_everywhere(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert {str(status) for status in ANYWHERE} <= set(operation["responses"]), name


def test_every_status_of_an_error_is_described_somewhere(document: dict[str, Any]) -> None:
    described = {int(status) for _, operation in operations(document) for status in operation["responses"]}
    assert {kind.status for kind in TYPES.values()} - {405} <= described


def test_every_body_has_an_example_that_its_schema_allows(document: dict[str, Any]) -> None:
    seen: dict[str, list[tuple[str, Any]]] = {}
    for name, status, content in contents(document):
        assert "example" in content, (name, status)
        seen.setdefault(json.dumps(content["schema"]), []).append((f"{name} {status}", content["example"]))
    assert len(seen) > 20
    for schema, examples in seen.items():
        validator = jsonschema_rs.validator_for({**json.loads(schema), "components": document["components"]})
        for place, example in examples:
            assert not list(validator.iter_errors(example)), place


def test_every_answer_but_an_empty_one_has_a_body(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        for status, response in operation["responses"].items():
            assert bool(response.get("content")) is (status != "204"), (name, status)


def test_every_refusal_is_a_problem_of_its_own_status(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert list(response["content"]) == [MEDIA_TYPE], (name, status)
                example = response["content"][MEDIA_TYPE]["example"]
                assert example["status"] == int(status), name
                assert ("errors" in example) is (status == "422"), name
            if status in ("429", "503"):
                assert "Retry-After" in response["headers"], name
            if status == "401":
                assert "WWW-Authenticate" in response["headers"], name


def test_every_value_that_a_request_needs_has_an_example(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            if parameter["required"]:
                jsonschema_rs.validate(parameter["schema"], parameter["example"])
                assert re.fullmatch(r"[0-9a-f-]{36}|handbook|jane", parameter["example"]), name


def test_the_paths_of_a_tenants_admin_describe_the_header_to_see_all(document: dict[str, Any]) -> None:
    platform = ("/admin/tenants", "/admin/platform")
    for path, methods in document["paths"].items():
        for operation in methods.values():
            described = "X-KB-Access" in [each["name"] for each in operation.get("parameters", ())]
            assert described == (path.startswith("/admin/") and not path.startswith(platform)), path

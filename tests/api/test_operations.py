"""Health, metrics, the documentation and the OpenAPI description."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from tests.api.endpoints import OPEN
from tests.fixtures.http.callers import Caller, open_client
from tests.fixtures.http.expectations import expect_problem


async def test_health_and_readiness_need_no_token(http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz")).json() == {"status": "ok"}
    assert (await http.get("/readyz")).json() == {"status": "ready"}


async def test_metrics_are_only_for_callers_on_this_machine(app: FastAPI, admin: Caller) -> None:
    await admin.search("harbour")
    for address, local in (("127.0.0.1", True), ("::1", True), ("10.0.0.7", False), ("192.0.2.1", False)):
        async with open_client(app, address) as client:
            answer = await client.get("/metrics")
            if local:
                assert answer.status_code == 200
                assert answer.headers["content-type"].startswith("text/plain")
            else:
                expect_problem(answer, 404)
    async with open_client(app) as client:
        marks = (
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Real-IP",
            "Forwarded",
            "Via",
            "CF-Connecting-IP",
            "X-Client-IP",
        )
        for header in marks:
            expect_problem(await client.get("/metrics", headers={header: "10.0.0.7"}), 404)


async def test_metrics_are_not_for_a_proxy_that_speaks_http_1_0(app: FastAPI) -> None:
    async def old(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "http_version": "1.0"}, receive, send)

    transport = httpx.ASGITransport(app=old, client=("127.0.0.1", 40_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://service.test") as client:
        expect_problem(await client.get("/metrics"), 404)
        assert (await client.get("/healthz")).status_code == 200


async def test_metrics_count_requests_by_route_without_ids(admin: Caller) -> None:
    entry = await admin.add("The harbour")
    await admin.get(f"/knowledge/entries/{entry['id']}")
    await admin.get("/no/such/path")
    text = (await admin.get("/metrics")).text
    assert re.search(r'knowledge_requests_total\{method="POST",route="[^"]*entries",status="201"\} \d', text)
    assert "{entry_id}" in text
    for secret in (entry["id"], str(admin.tenant_id), "no/such"):
        assert secret not in text


async def test_the_docs_load_nothing_from_other_hosts(http: httpx.AsyncClient) -> None:
    page = await http.get("/docs")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r"""(?:src|href|url)\s*[=:(]\s*["']?(?:https?:)?//""", page.text)
    assert not re.search("https?://", page.text)
    files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(files) >= 2
    for file in [*files, "/openapi.json"]:
        assert (await http.get(file)).status_code == 200, file


@pytest.fixture(scope="module")
def description(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


def operations(description: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def references(value: Any) -> Iterator[str]:
    """Yield every $ref of the document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_every_reference_of_the_description_resolves(description: dict[str, Any]) -> None:
    found = set(references(description))
    assert len(found) > 10
    for reference in found:
        place: Any = description
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]


def test_operation_ids_are_unique(description: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, operation in operations(description)]
    assert len(ids) == len(set(ids)) > 20
    assert all(re.fullmatch("[a-z_]+", name) for name in ids)


def test_every_secured_operation_is_marked_as_secured(description: dict[str, Any]) -> None:
    for name, operation in operations(description):
        secured = name not in OPEN
        assert ({"401", "403", "503"} <= set(operation["responses"])) is secured, name
        assert bool(operation.get("security")) is secured, name


def test_every_operation_with_a_body_names_its_refusals(description: dict[str, Any]) -> None:
    for name, operation in operations(description):
        if "requestBody" in operation:
            assert {"413", "415", "422"} <= set(operation["responses"]), name


def test_the_paths_parameters_are_described(description: dict[str, Any]) -> None:
    for name, operation in operations(description):
        described = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
        assert described == set(re.findall(r"\{(\w+)\}", name)), name


async def test_answers_have_the_fields_that_the_description_names(admin: Caller, description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    entry = await admin.add("The harbour")
    found = await admin.search("The harbour")
    asset = (await admin.upload("a.txt", b"text", "text/plain")).json()
    for name, value in (
        ("Entry", entry),
        ("SearchResponse", found),
        ("Hit", found["results"][0]),
        ("SearchMetadata", found["metadata"]),
        ("Asset", asset),
        ("Stats", (await admin.get("/admin/stats")).json()),
        ("Settings", (await admin.get("/admin/settings")).json()),
    ):
        assert set(schemas[name]["properties"]) == set(value), name

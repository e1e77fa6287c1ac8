"""The OpenAPI document."""

import asyncio
import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from app.contract.problems import TYPES
from app.web.openapi import ANYWHERE, PATH, install_document
from app.web.openapi_sharing import share_repeats
from app.web.problems import MEDIA_TYPE
from tests.api.endpoints import OPEN
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.routes import list_endpoints


async def test_the_document_is_generated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    app = FastAPI(openapi_url=None)
    install_document(app)
    generated = 0
    generate = app.openapi

    def count() -> dict[str, object]:
        nonlocal generated
        generated += 1
        return generate()

    monkeypatch.setattr(app, "openapi", count)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://knowledge.test") as http:
        answers = await asyncio.gather(*(http.get(PATH) for _ in range(5)))
    assert generated == 1
    assert len({answer.content for answer in answers}) == 1


@pytest.mark.parametrize("coding", ["identity", "gzip", "gzip;q=0", "br, GZIP;q=0.5"])
async def test_the_document_has_an_etag_for_each_coding(http: httpx.AsyncClient, coding: str) -> None:
    answer = await http.get(PATH, headers={"Accept-Encoding": coding})
    coded = coding in ("gzip", "br, GZIP;q=0.5")
    assert answer.headers.get("content-encoding") == ("gzip" if coded else None)
    assert answer.headers["etag"].endswith('-gzip"') is coded
    assert (answer.headers["cache-control"], answer.headers["vary"]) == ("no-cache", "Accept-Encoding")
    assert answer.json()["openapi"].startswith("3.")
    for known in (answer.headers["etag"], f'"other", W/{answer.headers["etag"]}', "*"):
        again = await http.get(PATH, headers={"Accept-Encoding": coding, "If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == answer.headers["etag"]
    other = await http.get(PATH, headers={"Accept-Encoding": coding, "If-None-Match": '"other"'})
    assert other.status_code == 200


async def test_the_compressed_document_is_the_same(http: httpx.AsyncClient) -> None:
    plain = await http.get(PATH, headers={"Accept-Encoding": "identity"})
    async with http.stream("GET", PATH, headers={"Accept-Encoding": "gzip"}) as answer:
        sent = b"".join([part async for part in answer.aiter_raw()])
    assert int(answer.headers["content-length"]) == len(sent) < len(plain.content) / 5
    assert gzip.decompress(sent) == plain.content


@pytest.fixture(scope="module")
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


@pytest.fixture(scope="module")
def served(document: dict[str, Any]) -> dict[str, Any]:
    return share_repeats(document)


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


def test_an_operations_id_is_its_functions_name(app: FastAPI) -> None:
    described = [route for route in list_endpoints(app) if route.include_in_schema]
    assert len(described) > 60
    for route in described:
        assert isinstance(route, APIRoute)
        assert route.operation_id == route.endpoint.__name__


def test_every_operation_is_described_with_its_refusals(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert operation["summary"], name
        assert len(operation["description"]) > 10, name
        assert operation["tags"], name
        statuses, secured = set(operation["responses"]), name not in OPEN
        assert {str(status) for status in ANYWHERE} <= statuses, name
        assert ({"401", "403", "503"} <= statuses) is secured, name
        assert bool(operation.get("security")) is secured, name
        assert "requestBody" not in operation or {"413", "415", "422"} <= statuses, name


def test_the_served_document_passes_the_default_rules_of_linters(
    served: dict[str, Any], document: dict[str, Any]
) -> None:
    """The rules of Redocly (recommended) and Spectral (spectral:oas) that a change of routes or shapes can break."""
    info, tags = served["info"], {tag["name"]: tag["description"] for tag in served["tags"]}
    assert info["license"]["identifier"] == "Apache-2.0"
    assert info["contact"]
    assert info["description"]
    assert served["servers"]
    ids = [operation["operationId"] for _, operation in operations(served)]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"\w+", given) for given in ids)
    assert set(tags) == {tag for _, operation in operations(served) for tag in operation["tags"]}
    for name, operation in operations(served):
        path = name.split(" ")[1]
        parameters = [follow(served, parameter) for parameter in operation.get("parameters", ())]
        assert isinstance(operation["security"], list), "security-defined"
        assert len(operation["tags"]) == 1, name
        assert any("200" <= status < "400" for status in operation["responses"]), name
        assert any("400" <= status < "500" for status in operation["responses"]), name
        assert not path.endswith("/"), name
        assert "?" not in path, name
        assert {p["name"] for p in parameters if p["in"] == "path"} == set(re.findall(r"\{(\w+)\}", path)), name
        assert len({(p["in"], p["name"]) for p in parameters}) == len(parameters), name
    text = json.dumps(served)
    assert "<script" not in text
    assert "eval(" not in text
    for kind, components in served["components"].items():
        if kind != "securitySchemes":
            assert [name for name in components if f'"#/components/{kind}/{name}"' not in text] == []
    for enum in find_values(served, "enum"):
        assert len({json.dumps(value) for value in enum}) == len(enum)


def test_summaries_are_in_sentence_case(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        first, *rest = operation["summary"].split()
        assert first[0].isupper(), name
        assert [word for word in rest if word.istitle()] == [], name
        assert operation["summary"][-1] != ".", name


def test_the_served_document_is_small_and_has_all_that_the_whole_has(
    served: dict[str, Any], document: dict[str, Any]
) -> None:
    assert len(json.dumps(served, ensure_ascii=False, separators=(",", ":")).encode()) <= 350_000
    inlined = resolve(served, served)
    assert inlined["paths"] == resolve(document, document)["paths"]


def follow(document: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """The object that a reference to a component other than a schema stands for."""
    if not (given := node.get("$ref", "")).startswith("#/components/") or given.startswith("#/components/schemas/"):
        return node
    _, _, kind, name = given.split("/")
    found: dict[str, Any] = document["components"][kind][name]
    return found


def resolve(document: dict[str, Any], node: Any) -> Any:
    """The node with the object in place of each such reference."""
    if isinstance(node, list):
        return [resolve(document, item) for item in node]
    if not isinstance(node, dict):
        return node
    return {key: resolve(document, value) for key, value in follow(document, node).items()}


def find_values(node: Any, key: str) -> Iterator[Any]:
    if isinstance(node, dict):
        if isinstance(node.get(key), list):
            yield node[key]
        node = list(node.values())
    for item in node if isinstance(node, list) else ():
        yield from find_values(item, key)


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


def test_every_answer_but_an_empty_one_has_a_body_and_a_refusal_is_a_problem(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        for status, response in operation["responses"].items():
            assert bool(response.get("content")) is (status not in ("204", "304")), (name, status)
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


def bodies(document: dict[str, Any]) -> Iterator[str]:
    """The components of the bodies of requests, with those that they refer to."""
    waiting = [
        content["schema"]
        for path in document["paths"].values()
        for operation in path.values()
        for content in operation.get("requestBody", {}).get("content", {}).values()
    ]
    seen: set[str] = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            name = str(node.get("$ref", "")).rpartition("/")[2]
            if name and name not in seen:
                seen.add(name)
                yield name
                waiting.append(document["components"]["schemas"][name])
            waiting += [value for key, value in node.items() if key not in ("example", "examples")]


def test_no_field_of_a_request_has_a_default_for_clients_to_send(document: dict[str, Any]) -> None:
    names = list(bodies(document))
    assert {"NewEntry", "EntryPatch", "SettingsPatch", "TenantPatch", "SearchRequest", "NewAsset"} <= set(names)
    for name in names:
        for field, schema in document["components"]["schemas"][name]["properties"].items():
            assert "default" not in schema, (name, field)


@pytest.mark.parametrize("empty", [[], [""]], ids=["without items", "with an empty item"])
async def test_an_upload_of_the_examples_is_accepted(admin: Caller, document: dict[str, Any], empty: list[str]) -> None:
    fields = document["components"]["schemas"]["NewAsset"]["properties"]
    form = {name: empty or field["example"] for name, field in fields.items() if name != "file"}
    answer = await admin.upload("quay.txt", b"The quay has nine berths", "text/plain", **form)
    assert answer.status_code == 202, answer.text
    asset = answer.json()
    assert (asset["external_id"], asset["tags"], asset["roles"], asset["metadata"]) == (None, [], ["all"], {})


async def test_described_headers_are_those_that_are_sent(admin: Caller, document: dict[str, Any]) -> None:
    new = {"content": "The harbour opens at six", "external_id": "H1"}
    created = await admin.post("/knowledge/entries", new)
    entry = created.headers["location"]
    saved = {"name": "Hours", "request": {"query": "harbour"}}
    file = ("quay.txt", b"The quay has nine berths", "text/plain")
    for answer, path in (
        (created, "/knowledge/entries"),
        (await admin.post("/knowledge/entries", new), "/knowledge/entries"),
        (await admin.get(entry), "/knowledge/entries/{entry_id}"),
        (await admin.patch(entry, {"tags": ["a"]}), "/knowledge/entries/{entry_id}"),
        (await admin.get("/knowledge/entries"), "/knowledge/entries"),
        (await admin.upload(*file), "/knowledge/assets"),
        (await admin.upload(*file), "/knowledge/assets"),
        (await admin.post("/knowledge/saved-searches", saved), "/knowledge/saved-searches"),
        (await admin.post("/knowledge/saved-searches", saved), "/knowledge/saved-searches"),
    ):
        operation = document["paths"][path][answer.request.method.lower()]
        described = operation["responses"][str(answer.status_code)]["headers"]
        sent = {"etag", "location", "x-request-id"} & set(answer.headers)
        assert {name.lower() for name in described} == sent, (path, answer.status_code)

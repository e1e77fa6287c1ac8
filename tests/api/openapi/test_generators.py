"""What generators of clients need from the OpenAPI document: no defaults to send, files, headers, and names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI

from tests.fixtures.http.callers import Caller


@pytest.fixture(scope="module")
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


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


def test_an_unset_field_of_a_new_entry_has_its_default_in_words(document: dict[str, Any]) -> None:
    fields = document["components"]["schemas"]["NewEntry"]["properties"]
    for name, default in {
        "entry_type": "fact",
        "roles": "all",
        "scope": "global",
        "is_verified": "false",
    }.items():
        assert f"New entries: {default}." in fields[name]["description"]
    for name, field in fields.items():
        accepts_null = {"type": "null"} in field.get("anyOf", [])
        assert accepts_null is ("Null" in field["description"]), name


def test_components_have_the_names_of_their_subjects(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert {"Entry", "Hit", "Asset", "NewAsset", "Settings", "SubscriptionWithSecret"} <= set(schemas)
    for name, schema in schemas.items():
        assert not name.startswith("Body_"), name
        assert not name.endswith("Model"), name
        assert schema["title"] == name


def test_the_document_names_a_server(document: dict[str, Any]) -> None:
    assert [server["url"] for server in document["servers"]] == ["/"]


def test_an_upload_is_binary_and_its_optional_fields_are_empty_by_example(document: dict[str, Any]) -> None:
    fields = document["components"]["schemas"]["NewAsset"]["properties"]
    assert (fields["file"]["type"], fields["file"]["format"]) == ("string", "binary")
    assert {name: fields[name]["example"] for name in fields if name != "file"} == {
        "external_id": "",
        "source": "",
        "run": "",
        "tags": [],
        "roles": [],
        "metadata": "",
        "readers": [],
        "writers": [],
    }


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

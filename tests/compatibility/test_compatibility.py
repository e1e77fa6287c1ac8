"""A version keeps what the last release promised, unless its major version is higher."""

import copy
from typing import Any

import pytest

from docs.version import read_version
from tests.compatibility.promises import RECORD, Promises, find_breaks, parse, render
from tests.compatibility.surface import read_http, read_promises


@pytest.fixture(scope="module")
def now() -> Promises:
    return read_promises()


def major(version: str) -> int:
    return int(version.partition(".")[0])


def test_nothing_that_the_last_release_promised_is_removed_or_narrowed(now: Promises) -> None:
    released, promises = parse(RECORD.read_text("utf-8"))
    found = find_breaks(promises, now)
    remedy = "keep it, or raise the major version; before the first release, run: make release"
    assert not found or major(read_version()) > major(released), "\n".join([*found, remedy])


def test_the_record_is_that_of_the_last_release(now: Promises) -> None:
    released, promises = parse(RECORD.read_text("utf-8"))
    assert released == read_version() or major(released) < major(read_version()), "run: make release"
    assert render(released, promises) == RECORD.read_text("utf-8")
    assert parse(render("9.9.9", now)) == ("9.9.9", dict(sorted(now.items())))


def test_every_surface_is_read(now: Promises) -> None:
    expected: dict[str, dict[str, Any]] = {
        "http GET:/knowledge/entries query:limit": {"maximum": 200, "types": ["integer"]},
        "http POST:/knowledge/assets": {"accepts": ["multipart/form-data"]},
        "request SearchRequest query": {"required": True, "types": ["string"]},
        "answer SearchResponse results": {"required": True, "types": ["array"]},
        "answer kb_search results": {"types": ["array"]},
        "problem /problems/stale-etag": {"status": 412},
        "tool kb_search query": {"required": True},
        "resource kb://entries/{entry_id}{?start}": {},
        "command knowledge-access-grant --tenant": {},
        "command knowledge-search text": {"position": 0, "required": True},
        "setting KB_PORT": {"default": "8000", "maximum": 65535},
        "python app.knowledge.search.service.KnowledgeSearchService.search query": {"position": 1, "required": True},
        "python app.contract.search.SearchQuery query": {"required": True},
        "client KnowledgeClient.search query": {"position": 0, "required": True},
        "typescript KnowledgeClient search": {},
    }
    for name, facts in expected.items():
        assert facts.items() <= now[name].items(), (name, now[name])


SHAPES: dict[str, Any] = {
    "Note": {
        "type": "object",
        "required": ["text"],
        "properties": {
            "text": {"type": "string", "maxLength": 100},
            "kind": {"enum": ["fact", "lesson"], "type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
            "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}, "maxItems": 8}, {"type": "null"}]},
        },
    },
    "Found": {
        "type": "object",
        "required": ["id", "state"],
        "properties": {
            "id": {"type": "string", "format": "uuid"},
            "state": {"enum": ["open", "done"], "type": "string"},
            "note": {"type": "string"},
        },
    },
}
JSON = "application/json"
DOCUMENT: dict[str, Any] = {
    "components": {"schemas": SHAPES},
    "paths": {
        "/notes": {
            "post": {
                "parameters": [{"name": "dry_run", "in": "query", "required": False, "schema": {"type": "boolean"}}],
                "requestBody": {"content": {JSON: {"schema": {"$ref": "#/components/schemas/Note"}}}},
                "responses": {"201": {"content": {JSON: {"schema": {"$ref": "#/components/schemas/Found"}}}}},
            },
            "get": {"responses": {"204": {}}},
        }
    },
}
ABSENT: Any = object()
NOTE = "components schemas Note"
FOUND = "components schemas Found"
POST = "paths /notes post"
COMPATIBLE = {
    "a new path": ("paths /other", {"get": {"responses": {"200": {}}}}),
    "a new optional field of a request": (f"{NOTE} properties title", {"type": "string"}),
    "a new field of an answer": (f"{FOUND} properties name", {"type": "string"}),
    "a field that an answer always has": (f"{FOUND} required", ["id", "state", "note"]),
    "a field that need not be sent any more": (f"{NOTE} required", []),
    "a wider bound": (f"{NOTE} properties limit maximum", 100),
    "no bound any more": (f"{NOTE} properties limit minimum", ABSENT),
    "another value that may be sent": (f"{NOTE} properties kind enum", ["fact", "lesson", "idea"]),
    "any value instead of some": (f"{NOTE} properties kind enum", ABSENT),
    "another value of an answer": (f"{FOUND} properties state enum", ["open", "done", "waiting"]),
    "another media type": (f"{POST} requestBody content text/csv", {"schema": {"type": "string"}}),
    "a description": (f"{NOTE} description", "A note."),
}
INCOMPATIBLE = {
    "a removed path": ("paths /notes get", ABSENT, "http GET:/notes is missing"),
    "a removed parameter": (f"{POST} parameters", [], "http POST:/notes query:dry_run is missing"),
    "a parameter that must be sent": (f"{POST} parameters 0 required", True, "dry_run: required is True"),
    "a removed field of a request": (f"{NOTE} properties tags", ABSENT, "request Note tags is missing"),
    "a removed field of an answer": (f"{FOUND} properties note", ABSENT, "answer Found note is missing"),
    "a field that must be sent": (f"{NOTE} required", ["text", "limit"], "request Note limit: required is True"),
    "a field that may be missing": (f"{FOUND} required", ["id"], "answer Found state: may be missing"),
    "a lower bound": (f"{NOTE} properties limit maximum", 20, "limit: maximum is 20 instead of 50"),
    "a higher least value": (f"{NOTE} properties limit minimum", 2, "limit: minimum is 2 instead of 1"),
    "a shorter list": (f"{NOTE} properties tags anyOf 0 maxItems", 4, "tags: maxItems is 4 instead of 8"),
    "a new bound": (f"{NOTE} properties text minLength", 3, "text: minLength is 3 instead of none"),
    "a new pattern": (f"{NOTE} properties text pattern", "^a", "text: pattern is ^a instead of none"),
    "another default": (f"{NOTE} properties limit default", 20, "limit: default is 20 instead of 10"),
    "a value that may not be sent": (f"{NOTE} properties kind enum", ["fact"], "kind: values is ['fact']"),
    "a value that an answer no longer has": (f"{FOUND} properties state enum", ["open"], "state: is never done"),
    "another type": (f"{NOTE} properties text type", "integer", "text: types is ['integer']"),
    "no null": (f"{NOTE} properties tags anyOf 1", {"type": "array"}, "tags: types is ['array']"),
    "null in an answer": (f"{FOUND} properties id type", ["string", "null"], "answer Found id: may be null"),
    "another status": (f"{POST} responses", {"202": {}}, "http POST:/notes: statuses is ['202']"),
    "a removed media type": (f"{POST} requestBody content", {}, "is missing"),
}


def change(place: str, value: Any) -> Promises:
    """The promises of the document with another value at the place."""
    document = copy.deepcopy(DOCUMENT)
    *way, last = [int(word) if word.isdigit() else word for word in place.split(" ")]
    inner: Any = document
    for word in way:
        inner = inner[word]
    if value is ABSENT:
        del inner[last]
    else:
        inner[last] = value
    return dict(read_http(document))


@pytest.mark.parametrize(("place", "value"), COMPATIBLE.values(), ids=COMPATIBLE)
def test_a_compatible_change_is_allowed(place: str, value: Any) -> None:
    assert find_breaks(dict(read_http(DOCUMENT)), change(place, value)) == []


@pytest.mark.parametrize(("place", "value", "line"), INCOMPATIBLE.values(), ids=INCOMPATIBLE)
def test_an_incompatible_change_is_named(place: str, value: Any, line: str) -> None:
    found = find_breaks(dict(read_http(DOCUMENT)), change(place, value))
    assert [told for told in found if line in told], found


OTHERS: dict[str, dict[str, Any]] = {
    "command knowledge-search": {},
    "command knowledge-search query": {"required": True, "position": 0},
    "command knowledge-search --limit": {},
    "command knowledge-search --all": {"flag": True},
    "setting KB_PORT": {"default": "8000", "minimum": 1, "types": ["integer"]},
    "tool kb_search": {"role": "reader", "values": ["all", "core"]},
    "python app.x.search": {},
    "python app.x.search query": {"required": True, "position": 0},
    "python app.x.search limit": {"position": 1},
}
CHANGED: dict[str, tuple[dict[str, Any] | None, list[str]]] = {
    "command knowledge-search": (None, ["command knowledge-search is missing"]),
    "command knowledge-search --limit": (None, ["command knowledge-search --limit is missing"]),
    "command knowledge-search --all": ({}, ["command knowledge-search --all: flag is none instead of True"]),
    "command knowledge-search --to": ({"required": True}, ["command knowledge-search --to is new and required"]),
    "command knowledge-search --by": ({}, []),
    "command knowledge-new --to": ({"required": True}, []),
    "setting KB_PORT": ({**OTHERS["setting KB_PORT"], "default": "80"}, ["default is 80 instead of 8000"]),
    "tool kb_search": ({"role": "creator", "values": ["all"]}, ["role is creator", "values is ['all']"]),
    "python app.x.search limit": ({}, ["python app.x.search limit: position is none instead of 1"]),
    "python app.x.search tags": ({"position": 2}, []),
}


@pytest.mark.parametrize(("name", "facts", "lines"), [(name, *row) for name, row in CHANGED.items()], ids=CHANGED)
def test_a_change_of_another_surface_is_judged(name: str, facts: dict[str, Any] | None, lines: list[str]) -> None:
    changed = {known: given for known, given in {**OTHERS, name: facts}.items() if given is not None}
    if facts is None:
        changed = {known: given for known, given in changed.items() if not known.startswith(f"{name} ")}
    found = find_breaks(OTHERS, changed)
    assert len(found) == len(lines)
    assert all(line in told for line, told in zip(lines, found, strict=True)), found

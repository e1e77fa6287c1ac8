"""Problems: their types, form and wording, and what they never contain."""

import gzip
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import pytest
from asgi_lifespan import LifespanManager
from pydantic import BaseModel

import app.contract
from app import errors
from app.api.assets import NO_JSON
from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.entries import RelatedResponse
from app.contract.fields import NOT_BLANK, WHITE
from app.contract.problems import TYPES, type_of_error
from app.contract.search import Weights
from app.contract.validation import MOST, validate
from app.db.database import Database
from app.errors import InvalidInput
from app.knowledge.entries.reading import ReadingService
from app.main import create_app
from app.mcp.tools import TOOLS
from app.settings import Settings
from tests.console.browser import open_browser
from tests.fixtures.database.cluster import connected, execute
from tests.fixtures.http.callers import Caller, make_token, open_client
from tests.fixtures.http.expectations import expect_fields, expect_problem

SEARCH = "/knowledge/search"


async def test_an_unknown_path_is_a_problem(http: httpx.AsyncClient, admin: Caller) -> None:
    for path in ("/", "/nothing", "/knowledge", "/knowledge/searches", "/admin", "/docs/files/none.js"):
        expect_problem(await http.get(path), 404)
        expect_problem(await admin.get(path), 404)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""])
async def test_a_body_that_is_not_sent_as_json_is_refused(admin: Caller, kind: str) -> None:
    body = expect_problem(await admin.post(SEARCH, content=b'{"query": "word"}', headers={"Content-Type": kind}), 415)
    assert "application/json" in body["detail"]


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate, gzip"])
async def test_a_compressed_body_is_refused(admin: Caller, coding: str) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": coding}
    for path in (SEARCH, "/mcp"):
        body = expect_problem(await admin.post(path, content=gzip.compress(b'{"query": "word"}'), headers=headers), 415)
        assert "Content-Encoding" in body["detail"]
    plain = {**headers, "Content-Encoding": "identity"}
    assert (await admin.post(SEARCH, content=b'{"query": "word"}', headers=plain)).status_code == 200


async def test_a_message_that_is_not_sent_as_json_is_refused(admin: Caller) -> None:
    for kind in ("text/plain", ""):
        answer = await admin.post("/mcp", content=b"{}", headers={"Content-Type": kind})
        assert "application/json" in expect_problem(answer, 415)["detail"]


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json"])
async def test_json_of_any_json_media_type_is_read(admin: Caller, kind: str) -> None:
    answer = await admin.post(SEARCH, content=b'{"query": "word"}', headers={"Content-Type": kind})
    assert answer.status_code == 200


async def test_a_json_body_over_the_limit_is_refused(admin: Caller) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * (1 << 20)

    headers = {"Content-Type": "application/json"}
    expect_problem(await admin.post(SEARCH, content=b" " * (40 << 20), headers=headers), 413)
    expect_problem(await admin.post(SEARCH, content=pieces(), headers=headers), 413)


async def test_a_valid_request_id_of_the_caller_is_kept(admin: Caller) -> None:
    for given, kept in (("abc-123_4.5", True), ("x" * 65, False), ("a b", False), ("<script>", False)):
        answer = await admin.get("/knowledge/entries", headers={"X-Request-ID": given})
        assert (answer.headers["x-request-id"] == given) is kept
        assert answer.headers["x-content-type-options"] == "nosniff"
    first, second = [(await admin.get("/healthz")).headers["x-request-id"] for _ in range(2)]
    assert first != second


class BrokenRelated(ReadingService):
    """Fails with an unforeseen error."""

    async def related(self, *_args: object, **_options: object) -> RelatedResponse:
        raise RuntimeError("select secret from postgresql://kb:hunter2@db/kb")


async def test_an_unforeseen_error_reveals_nothing(
    settings: Settings, api_services: Services, verifier: TokenVerifier, admin: Caller
) -> None:
    broken = replace(api_services, reading=BrokenRelated(api_services.database))
    app = create_app(settings, broken, verifier)
    async with LifespanManager(app), open_client(app) as client:
        caller = replace(admin, http=client)
        answer = await caller.get("/knowledge/entries/0190b8f6-0000-7000-8000-000000000000/related")
        browser = open_browser(app, admin.token)
        page = await browser.get("/console/related/0190b8f6-0000-7000-8000-000000000000")
        await browser.http.aclose()
    body = expect_problem(answer, 500)
    for told in (answer.text, page.answer.text):
        assert not re.search("select|postgres|hunter2|Traceback|RuntimeError|File", told)
    assert body["detail"] == "an unexpected error occurred"
    assert (page.status, page.texts("h1")[0]) == (500, "Something went wrong")


@pytest.fixture
async def lonely(
    services: Services, settings: Settings, verifier: TokenVerifier
) -> AsyncIterator[tuple[Caller, Database]]:
    """A caller of an app with a database of its own, which the test may stop, and that database."""
    own = await services.tenants.create(NewTenant("lonely"), actor="test")
    app = create_app(settings, services, verifier)
    async with LifespanManager(app), open_client(app) as client:
        yield Caller(client, own.id, make_token(own.id, Role.TENANT_ADMIN)), services.database


async def test_an_unavailable_database_is_503_until_it_is_back(
    lonely: tuple[Caller, Database], superuser_dsn: str
) -> None:
    caller, _ = lonely
    entry = await caller.add("The harbour opens at six")
    name = urlsplit(superuser_dsn).path.lstrip("/")
    elsewhere = superuser_dsn.replace(f"/{name}?", "/postgres?")
    async with connected(elsewhere) as superuser:
        await superuser.execute(f'alter database "{name}" allow_connections false')
        await superuser.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1::text", name)
    try:
        for answer in (
            await caller.post(SEARCH, {"query": "harbour"}),
            await caller.post(SEARCH, {"query": "harbour", "mode": "keyword"}),
            await caller.post("/knowledge/entries", {"content": "New"}),
            await caller.get(f"/knowledge/entries/{entry['id']}"),
            await caller.upload("a.txt", b"The harbour", "text/plain"),
            await caller.get("/admin/stats"),
            await caller.get("/readyz"),
        ):
            expect_problem(answer, 503)
            assert not re.search(f"{name}|kb_service|asyncpg|accepting", answer.text)
        healthy = await caller.get("/healthz")
        assert (healthy.status_code, healthy.json()) == (200, {"status": "ok"})
    finally:
        await execute(elsewhere, f'alter database "{name}" allow_connections true')
    assert (await caller.get("/readyz")).status_code == 200
    assert await caller.find("harbour") == ["The harbour opens at six"]


async def test_connections_that_are_cut_are_replaced(lonely: tuple[Caller, Database], superuser_dsn: str) -> None:
    caller, _ = lonely
    await caller.add("The harbour opens at six")
    await execute(
        superuser_dsn,
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
        " and datname = current_database()",
    )
    for _ in range(10):
        answer = await caller.post(SEARCH, {"query": "harbour", "mode": "keyword"})
        if answer.status_code == 200:
            break
        expect_problem(answer, 503)
    assert [hit["content"] for hit in answer.json()["results"]] == ["The harbour opens at six"]


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

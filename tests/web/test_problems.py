"""Problems: their types and form, and what they never contain."""

import gzip
import inspect
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
import pytest
from asgi_lifespan import LifespanManager

from app import errors
from app.auth.principal import Role
from app.auth.tokens import TokenVerifier
from app.composition.services import Services
from app.contract.administration import NewTenant
from app.contract.entries import RelatedResponse
from app.contract.problems import TYPES, type_of_error
from app.db.database import Database
from app.knowledge.entries.reading import ReadingService
from app.main import create_app
from app.settings import Settings
from tests.console.browser import open_browser
from tests.fixtures.database.cluster import connected
from tests.fixtures.http.callers import Caller, make_token, open_client
from tests.fixtures.http.expectations import expect_problem

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
        async with connected(elsewhere) as superuser:
            await superuser.execute(f'alter database "{name}" allow_connections true')
    assert (await caller.get("/readyz")).status_code == 200
    assert await caller.find("harbour") == ["The harbour opens at six"]


async def test_connections_that_are_cut_are_replaced(lonely: tuple[Caller, Database], superuser_dsn: str) -> None:
    caller, _ = lonely
    await caller.add("The harbour opens at six")
    async with connected(superuser_dsn) as superuser:
        await superuser.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
            " and datname = current_database()"
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

"""knowledge doctor."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from app.cli.doctor.database import check_connections
from app.cli.doctor.finding import Finding
from app.cli.doctor.machine import check_connection, check_sign_in
from app.cli.doctor.work import describe_failures, describe_plan, describe_queue
from app.composition.services import build_services
from app.contract.entries import EntryDraft
from app.contract.keys import NewKey
from app.contract.saved_searches import NewSavedSearch
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.db.database import Database
from app.db.queries.diagnosis import Backlog, measure_backlog
from app.embeddings.factory import ProviderConfig, build_provider
from app.settings import Settings, load_settings
from tests.cli.conftest import ENCRYPTION_KEY, CommandLine, Result
from tests.console.single_sign_on import make_settings
from tests.fixtures.database.cluster import TestDatabase, connected
from tests.fixtures.identity.openid import OpenIdProvider

CHECKS = [
    "settings",
    "tokens",
    "webhooks",
    "limits",
    "parser",
    "disk",
    "database",
    "clock",
    "connections",
    "extension",
    "role",
    "migrations",
    "isolation",
    "model",
    "indexes",
    "plans",
    "statistics",
    "queue",
    "assets",
    "provider",
]


def find_wrong(result: Result, *statuses: str) -> list[dict[str, Any]]:
    """The findings that are not ok; each has a remedy."""
    found = [f for f in result.json if f["status"] in (statuses or ("wrong",))]
    assert all(f["remedy"] for f in found)
    assert all(f["remedy"] is None for f in result.json if f["status"] == "ok")
    return found


@pytest.fixture
def healthy(knowledge: CommandLine, fresh_database: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command, on a database without the failed files and lost workers of other tests."""
    monkeypatch.setenv("DATABASE_URL", fresh_database.service_dsn)
    return knowledge


def test_doctor_finds_nothing_wrong_with_a_healthy_service(healthy: CommandLine) -> None:
    findings = healthy.succeed("doctor", "--json").json
    assert [finding["check"] for finding in findings] == CHECKS
    assert {finding.keys() == {"check", "status", "detail", "remedy"} for finding in findings} == {True}
    assert {finding["status"] for finding in findings if finding["check"] not in {"disk", "parser"}} == {"ok"}
    lines = healthy.succeed("doctor", "--verbose").out.splitlines()
    # It fits one screen.
    assert len(lines) <= 24
    assert lines[0].startswith("ok       settings     Postgres of DATABASE_URL, embeddings by mock")


def test_doctor_without_findings_prints_one_line(healthy: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    async def find() -> tuple[str, ...]:
        return ()

    monkeypatch.setattr("app.documents.process.parsing.find_missing_protections", find)
    monkeypatch.setattr("app.cli.doctor.machine.check_disk", lambda _: Finding("disk", "ok", "enough"))
    assert healthy.succeed("doctor").out == f"ok: {len(CHECKS)} checks, nothing is wrong\n"


def test_doctor_names_the_missing_protections_of_the_parser(
    healthy: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def find() -> tuple[str, ...]:
        return ("Landlock (Linux 5.13)", "own user")

    monkeypatch.setattr("app.documents.process.parsing.find_missing_protections", find)
    (finding,) = find_wrong(healthy.succeed("doctor", "--json"), "warning")
    assert finding["detail"] == "files are parsed without: Landlock (Linux 5.13), own user"


def test_doctor_names_a_wrong_setting(knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_LEVEL", "chatty")
    result = knowledge("doctor")
    assert result.status == 1
    assert result.out.splitlines()[:2] == [
        "wrong    settings  LOG_LEVEL: must be debug, info, warning, error or critical",
        "                   → correct LOG_LEVEL in the environment or in the file of settings",
    ]


def test_doctor_creates_no_database_to_inspect(knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.delenv("JWT_SECRET")
    monkeypatch.setenv("KB_DATA_DIR", "fresh")
    result = knowledge("doctor")
    assert result.status == 0
    assert "warning  database  no database in fresh yet\n" in result.out
    assert "→ run: knowledge serve\n" in result.out
    assert list(Path().iterdir()) == []


def test_doctor_continues_after_an_unreachable_database(
    knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://kb_service:secret@127.0.0.1:1/knowledge")
    monkeypatch.delenv("JWT_SECRET")
    result = knowledge("doctor", "--json")
    (wrong,) = find_wrong(result)
    assert result.status == 1
    assert (wrong["check"], wrong["remedy"]) == (
        "database",
        "start Postgres, or correct the address, name and password in DATABASE_URL",
    )
    assert wrong["detail"].startswith("DATABASE_URL: cannot connect")
    assert [f["check"] for f in find_wrong(result, "warning")][:1] == ["tokens"]
    assert result.json[-1]["check"] == "provider"
    assert "secret" not in result.out.replace("JWT_SECRET", "")


def test_doctor_names_the_missing_rights_of_a_role(
    knowledge: CommandLine, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", superuser_dsn)
    (wrong,) = find_wrong(knowledge("doctor", "--json"))
    assert (wrong["check"], "superuser" in wrong["detail"], wrong["remedy"]) == ("role", True, "use another")


def test_doctor_names_an_issuer_without_keys(knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JWT_SECRET")
    monkeypatch.setenv("DATABASE_URL", "postgresql://kb_service:secret@127.0.0.1:1/knowledge")
    monkeypatch.setenv("JWT_JWKS_URL", "http://127.0.0.1:1/keys")
    result = knowledge("doctor", "--json")
    assert "JWT_JWKS_URL gave no usable keys" in find_wrong(result)[0]["detail"]
    assert "set JWT_AUDIENCE" in find_wrong(result, "warning")[0]["remedy"]


@pytest.fixture
async def damaged(fresh_database: TestDatabase) -> str:
    """The DATABASE_URL of a service whose database has several faults."""
    async with connected(fresh_database.admin_dsn) as owner:
        await owner.execute("alter table jobs no force row level security")
    async with connected(fresh_database.superuser_dsn) as superuser:
        await superuser.execute("update pg_index set indisvalid = false where indexrelid = 'assets_by_time'::regclass")
    async with connected(fresh_database.service_dsn) as service:
        await service.execute(
            "select tenancy.create_tenant(gen_random_uuid(), 'busy', 'Busy', 1, 'test');"
            "select set_config('app.current_tenant', (select id::text from tenancy.list_tenants()), false)"
        )
        await service.execute(
            "insert into jobs (tenant_id, id, kind, subject, run_at)"
            " select current_tenant(), gen_random_uuid(), 'embed_entries', 'entries', now() - interval '2 hours'"
        )
        await service.execute(
            "insert into assets (tenant_id, id, name, media_type, byte_size, sha256, original, status, error)"
            " select current_tenant(), gen_random_uuid(), 'a.pdf', 'application/pdf', 1,"
            " sha256('x'), 'x', 'failed', 'broken'"
        )
        await service.execute(
            "insert into vector_statistics (tenant_id, model_id, passages, index_state)"
            " values (current_tenant(), 1, 9000, 'ready')"
            " on conflict (tenant_id, model_id) do update set passages = 9000, index_state = 'ready'"
        )
    return fresh_database.service_dsn


def test_doctor_names_every_fault_of_a_database(
    knowledge: CommandLine, damaged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", damaged)
    result = knowledge("doctor", "--json")
    assert result.status == 1
    found = {(f["check"], f["status"]): f for f in find_wrong(result, "wrong", "warning")}
    isolation = found["isolation", "wrong"]
    assert isolation["detail"] == "table jobs has row-level security that its owner is free of"
    assert isolation["remedy"] == "alter table jobs enable row level security, force row level security"
    indexes = [f["detail"] for f in find_wrong(result) if f["check"] == "indexes"]
    assert indexes == ["Postgres does not use assets_by_time: the index is invalid"]
    plan = found["plans", "wrong"]["detail"]
    assert plan == "a search among 9,000 passages does not use their vector index"
    assert found["queue", "wrong"]["detail"].endswith("1 due, 0 entries without vector; the oldest has waited 120 min")
    assert found["assets", "warning"]["detail"] == "1 asset could not be parsed, of busy"
    people = knowledge("doctor")
    assert "wrong    isolation" in people.out
    assert f"→ {isolation['remedy']}\n" in people.out


CANARY, ADDRESS = "canarybluebird", "https://hooks.example/canarykingfisher"
SEALED = "whsec_Y2FuYXJ5IHNlY3JldCBvZiBhIHdlYmhvb2s="


@pytest.fixture
async def haunted(damaged: str) -> str:
    """The same database, in which every text of the tenant has a canary; returns an API key."""
    provider, database = build_provider(ProviderConfig(kind="mock", dimensions=16)), Database(damaged, pool_size=2)
    services = await build_services(database, provider, encryption_keys=[f"{ENCRYPTION_KEY}=".encode()])
    try:
        busy = (await services.tenants.find("busy")).id
        await services.tenants.change_settings(busy, SettingsPatch(keep_query_text=True), actor=CANARY)
        draft = EntryDraft(content=f"The {CANARY} sings", title=CANARY, tags=[CANARY], external_id=CANARY,
                           metadata={CANARY: CANARY})  # fmt: skip
        await services.entries.create(busy, draft, actor=CANARY)
        await services.search.search(busy, SearchQuery(query=CANARY, tags=[CANARY]), subject=CANARY)
        saved, _ = await services.saved_searches.save(busy, CANARY, NewSavedSearch(CANARY, {"query": CANARY}))
        await services.subscriptions.subscribe(busy, CANARY, saved.id, ADDRESS, SEALED)
        await services.journal.flush()
        return (await services.keys.create(busy, NewKey(name=CANARY, role="reader"), actor=CANARY)).key
    finally:
        await services.close()
        await provider.close()
        await database.close()


@pytest.mark.parametrize("level", [pytest.param("info", marks=pytest.mark.slow), "debug"])
def test_doctor_prints_no_text_of_a_tenant_and_no_secret(
    knowledge: CommandLine, haunted: str, damaged: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {
        "OPENAI_API_KEY": "sk-canaryheron", "KB_RERANKER_API_KEY": "rr-canaryheron", "JWT_SECRET": "canaryheron" * 3,
        "KB_OIDC_CLIENT_SECRET": "canaryheron-oidc", "KB_ENCRYPTION_KEY": ENCRYPTION_KEY,
    }  # fmt: skip
    settings = secrets | {
        "EMBEDDING_PROVIDER": "openai", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "KB_EMBEDDING_QUERY_TIMEOUT": "0.1",
        "KB_RERANKER_URL": "http://127.0.0.1:1/rerank", "KB_OIDC_ISSUER": "http://127.0.0.1:1",
        "KB_OIDC_CLIENT_ID": "console", "KB_PUBLIC_URL": "https://kb.example", "LOG_LEVEL": level,
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    away = "postgresql://kb_service:canaryheron@127.0.0.1:1/knowledge"
    for url in (damaged, away):
        monkeypatch.setenv("DATABASE_URL", url)
        for form in ([], ["--json"], ["--verbose"]):
            told = knowledge("doctor", *form)
            assert told.status == 1
            text = told.out + told.err
            assert "busy" in text or url == away, "it looks at the tenant with the canaries"
            for secret in (*secrets.values(), CANARY, "kingfisher", SEALED, haunted, "canaryheron", "service-password"):
                assert secret not in text, secret


@pytest.fixture
async def without_word_index(fresh_database: TestDatabase) -> str:
    """A database that lost its word index; returns the index's definition."""
    async with connected(fresh_database.admin_dsn) as owner:
        definition: str = await owner.fetchval("select pg_get_indexdef('entries_by_lexeme'::regclass)")
        await owner.execute("drop index entries_by_lexeme")
    return definition


def test_the_remedy_for_a_missing_word_index_builds_it(
    knowledge: CommandLine, fresh_database: TestDatabase, without_word_index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", fresh_database.service_dsn)

    def find() -> list[dict[str, str]]:
        findings = find_wrong(knowledge("doctor", "--json"))
        return [f for f in findings if f["detail"].startswith("entries_by_lexeme is missing")]

    async def build(script: str) -> str:
        async with connected(fresh_database.admin_dsn) as owner:
            await owner.execute(script)
            definition: str = await owner.fetchval("select pg_get_indexdef('entries_by_lexeme'::regclass)")
        return definition

    (missing,) = find()
    script = missing["remedy"].removeprefix("as the tables' owner: ")
    assert asyncio.run(build(script)) == without_word_index
    assert not find()


def test_doctor_reports_an_unavailable_provider_and_reranker(
    knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDDING_PROVIDER", "openai")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("KB_EMBEDDING_QUERY_TIMEOUT", "0.1")
    monkeypatch.setenv("KB_RERANKER_URL", "http://127.0.0.1:1/rerank")
    checks = {f["check"]: f for f in find_wrong(knowledge("doctor", "--json"))}
    assert "searches fall back to keywords" in checks["provider"]["detail"]
    assert "searches keep the fused order" in checks["reranker"]["detail"]
    assert checks["model"]["remedy"] == "run: knowledge migrate"


@pytest.mark.slow
def test_doctor_inspects_the_embedded_database_too(embedded: CommandLine) -> None:
    embedded.succeed("tenant", "list")
    findings = embedded.succeed("doctor", "--json").json
    assert [finding["check"] for finding in findings] == CHECKS
    assert findings[0]["detail"].startswith("embedded Postgres in ")


async def test_backlog_counts_each_tenant_and_stops_in_time(cli_database: TestDatabase, tenant: str) -> None:
    database = Database(cli_database.service_dsn, pool_size=1)
    try:
        whole = await measure_backlog(database, 60)
        none = await measure_backlog(database, -1)
    finally:
        await database.close()
    assert whole.counted == whole.tenants > 0
    assert (none.counted, none.tenants) == (0, whole.tenants)


@pytest.mark.parametrize(
    ("changes", "own_worker", "status", "words"),
    [
        ({}, True, "ok", "0 jobs, 0 due"),
        ({"jobs": 2, "overdue": 1, "oldest_seconds": 8.0}, True, "ok", "the oldest has waited 8 s"),
        ({"jobs": 2, "overdue": 1, "oldest_seconds": 600.0}, True, "wrong", "has waited 10 min"),
        ({"jobs": 1, "lost": 1}, False, "warning", "the worker of 1 job has died"),
        ({"counted": 1}, True, "ok", "(first 1 of 3 tenants)"),
    ],
)
def test_queue_without_a_worker_is_a_finding(
    changes: dict[str, Any], own_worker: bool, status: str, words: str
) -> None:
    found = describe_queue(make_backlog(**changes), own_worker=own_worker)
    assert (found.status, words in found.detail) == (status, True)
    if status != "ok":
        assert "knowledge worker" in str(found.remedy)


def test_failures_name_the_tenants_with_the_most() -> None:
    (failed, refused) = describe_failures(make_backlog(failed={"a": 1, "b": 3, "c": 2, "d": 1}, refused={"e": 1}))
    assert failed.detail == "7 assets could not be parsed, of b, c, a and 1 other tenants"
    assert refused.detail == "the provider refused an entry five times, of e: only keyword search finds them"


def make_backlog(**changes: Any) -> Backlog:
    sound: dict[str, Any] = {
        "tenants": 3,
        "counted": 3,
        "jobs": 0,
        "overdue": 0,
        "lost": 0,
        "oldest_seconds": 0.0,
        "failed": {},
        "refused": {},
        "pending": 0,
        "largest": None,
    }
    return Backlog(**sound | changes)


@pytest.mark.parametrize(
    ("pool", "most", "used", "role_limit", "status"),
    [(10, 97, 5, -1, "ok"), (10, 97, 90, -1, "warning"), (100, 97, 1, -1, "wrong"), (10, 97, 1, 8, "wrong")],
)
def test_connections_must_fit_the_limit_of_the_server(
    pool: int, most: int, used: int, role_limit: int, status: str
) -> None:
    found = check_connections(pool, most, used, role_limit)
    assert (found.status, found.remedy is None) == (status, status == "ok")


def test_plan_without_the_index_is_a_finding() -> None:
    index, other = f"embeddings_hnsw_2_{uuid4().hex}", f"embeddings_hnsw_2_{uuid4().hex}"
    used = f"->  Index Scan using {index} on embeddings_p3 embeddings"
    assert describe_plan(used, index, 9000).status == "ok"
    assert describe_plan("->  Seq Scan on embeddings_p3 embeddings", index, 9000).status == "wrong"
    assert describe_plan(used, other, 9000).status == "wrong"


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("postgresql://u:p@db.example/kb", True),
        ("postgresql://u:p@db.example/kb?sslmode=require", True),
        ("postgresql://u:p@10.0.0.7:5432/kb?sslmode=verify-ca", True),
        ("postgresql://u:p@127.0.0.1,db.example/kb", True),
        ("postgresql://u:p@/kb?host=db.example", True),
        ("postgresql://u:p@db.example/kb?sslmode=verify-full", False),
        ("postgresql://u:p@localhost/kb", False),
        ("postgresql://u:p@[::1]:5432/kb", False),
        ("postgresql://u:p@/kb?host=/run/postgresql", False),
    ],
)
def test_doctor_warns_of_a_remote_database_whose_certificate_is_not_verified(
    address: str, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGSSLMODE", raising=False)
    settings = load_settings({"DATABASE_URL": address}, identity_required=False)
    findings = check_connection(settings)
    assert bool(findings) is warned
    assert all("sslmode=verify-full" in (finding.remedy or "") for finding in findings)


async def check(issuer: str) -> Finding:
    (finding,) = [finding async for finding in check_sign_in(make_settings(issuer, public_url="http://localhost:8000"))]
    assert finding.check == "sign-in"
    return finding


async def test_doctor_fetches_the_document_and_the_keys_of_the_provider() -> None:
    provider = OpenIdProvider("http://console.test")
    async with provider.serving():
        assert (await check(provider.url)).status == "ok"
        assert provider.paths == ["/.well-known/openid-configuration", "/keys"]
        slash = await check(f"{provider.url}/")
        assert slash.status == "wrong"
        assert slash.detail.startswith("the provider's document is unusable: it is the document of another issuer;")
        provider.keys.clear()
        assert "keys cannot be fetched" in (await check(provider.url)).detail
    assert "ConnectError" in (await check(provider.url)).detail
    assert (await check("http://login.example.com")).detail.startswith("KB_OIDC_ISSUER: must be an https")
    assert not [finding async for finding in check_sign_in(Settings())]


async def test_doctor_warns_of_an_unencrypted_console() -> None:
    settings = make_settings("http://login.example.com", public_url="http://kb.example.com")
    warning, wrong = [finding async for finding in check_sign_in(settings)]
    assert (warning.status, wrong.status) == ("warning", "wrong")
    assert "KB_PUBLIC_URL is http" in warning.detail

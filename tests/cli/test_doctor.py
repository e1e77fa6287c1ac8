from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.cli.doctor.finding import Finding
from tests.cli.conftest import CommandLine, Result
from tests.fixtures.database.cluster import TestDatabase, connected

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
    assert indexes == [
        "Postgres does not use assets_by_time: the index is invalid",
    ]
    plan = found["plans", "wrong"]["detail"]
    assert plan == "a search among 9,000 passages does not use their vector index"
    assert found["queue", "wrong"]["detail"].endswith("1 due, 0 entries without vector; the oldest has waited 120 min")
    assert found["assets", "warning"]["detail"] == "1 asset could not be parsed, of busy"
    people = knowledge("doctor")
    assert "wrong    isolation" in people.out
    assert f"→ {isolation['remedy']}\n" in people.out


@pytest.fixture
async def without_word_index(fresh_database: TestDatabase) -> str:
    """A database that lost its word index; returns the index's definition."""
    async with connected(fresh_database.admin_dsn) as owner:
        definition: str = await owner.fetchval("select pg_get_indexdef('entries_by_lexeme'::regclass)")
        await owner.execute("drop index entries_by_lexeme")
    return definition


def test_the_remedy_for_a_missing_word_index_builds_it(
    knowledge: CommandLine,
    fresh_database: TestDatabase,
    without_word_index: str,
    monkeypatch: pytest.MonkeyPatch,
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

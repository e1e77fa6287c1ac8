"""What single checks of `knowledge doctor` find."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from app.cli.doctor.database import check_connections
from app.cli.doctor.machine import check_connection
from app.cli.doctor.work import describe_failures, describe_plan, describe_queue
from app.db.database import Database
from app.db.queries.diagnosis import Backlog, measure_backlog
from app.settings import load_settings
from tests.fixtures.database.cluster import TestDatabase


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
    [
        (10, 97, 5, -1, "ok"),
        (10, 97, 90, -1, "warning"),
        (100, 97, 1, -1, "wrong"),
        (10, 97, 1, 8, "wrong"),
    ],
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

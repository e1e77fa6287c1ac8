"""A query without a tenant is an error before any statement runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

PROJECT = Path(__file__).resolve().parents[2]
HEAD = """
from uuid import UUID
from app.db.queries.knowledge.entries import fetch_entries
from app.db.database import Database
"""
SCOPED = """
async def read(database: Database, tenant_id: UUID) -> None:
    async with database.tenant_session(tenant_id) as session:
        await fetch_entries(session, [tenant_id])
"""
UNSCOPED = """
async def read(database: Database, tenant_id: UUID) -> None:
    async with database.platform_session() as session:
        await fetch_entries(session, [tenant_id])
"""


def test_unscoped_query_is_a_type_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROJECT)
    for name, source in (("scoped", SCOPED), ("unscoped", UNSCOPED)):
        (tmp_path / f"{name}.py").write_text(HEAD + source)
    output, _, status = api.run(["--strict", str(tmp_path / "scoped.py")])
    assert status == 0, output
    output, _, status = api.run(["--strict", str(tmp_path / "unscoped.py")])
    assert status == 1
    assert 'incompatible type "PlatformSession"; expected "TenantSession"' in output

"""The audit trail of a tenant, written in the transaction of each change."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

import orjson

from app.contract.administration import AuditAction, AuditFilter, AuditOutcome, AuditRecord
from app.db.rows import Place, Position, beyond, new_id
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)


async def write_audit(
    session: TenantSession,
    actor: str,
    action: AuditAction,
    subject_ids: Sequence[UUID],
    detail: Mapping[str, Any],
    *,
    outcome: AuditOutcome = "done",
) -> None:
    """Record a change or an administrative read, in its transaction; metadata only, never content."""
    await session.execute(
        SQL["write_audit"],
        id=new_id(),
        actor=actor,
        action=action,
        subject_ids=list(subject_ids),
        detail=orjson.dumps(detail).decode(),
        outcome=outcome,
    )


async def list_audit(session: TenantSession, wanted: AuditFilter, before: Position | None, limit: int) -> list[Place]:
    """Places in the audit trail, newest first; rows of the same moment are in the order of their ids."""
    return await session.fetch_as(Place, SQL["list_audit"], **asdict(wanted), limit=limit, **beyond(before))


async def fetch_audit(session: TenantSession, ids: Sequence[UUID]) -> list[AuditRecord]:
    """Rows of the audit trail, newest first."""
    return await session.fetch_as(AuditRecord, SQL["fetch_audit"], ids=list(ids))

"""The audit trail of a tenant: who did what, in the transaction that did it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import orjson

from app.db.rows import Place, Position, new_id
from app.db.session import TenantSession
from app.db.statements import load_statements

SQL = load_statements(__name__)

AuditOutcome = Literal["done", "refused"]

Action = Literal[
    "access",
    "access.all",
    "access.read",
    "asset.delete",
    "asset.retry",
    "asset.update",
    "asset.upload",
    "audit.read",
    "entry.delete",
    "entry.purge",
    "entry.update",
    "entry.write",
    "erasure.create",
    "erasure.read",
    "feedback.read",
    "feedback.write",
    "model.drop",
    "model.pace",
    "model.read",
    "model.reembed",
    "model.switch",
    "quarantine.read",
    "quarantine.release",
    "saved_search.delete",
    "saved_search.write",
    "search.read",
    "settings.read",
    "settings.tune",
    "settings.update",
    "source.delete",
    "source.write",
    "stats.read",
    "subscription.confirm",
    "subscription.delete",
    "subscription.list",
    "subscription.write",
    "tenant.export",
    "tenant.import",
    "token.list",
    "token.revoke",
]
"""The actions in a tenant's audit trail; `tests/api/acts.py` performs each of them."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Who did what to which things, when, and how it ended; metadata only."""

    id: UUID
    at: datetime
    actor: str
    action: str
    subject_ids: Sequence[UUID]
    outcome: AuditOutcome
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which rows of the audit trail are wanted; None: any. `after` is the earliest time, `before` is excluded."""

    actor: str | None = None
    action: Action | None = None
    outcome: AuditOutcome | None = None
    after: datetime | None = None
    before: datetime | None = None


async def write_audit(
    session: TenantSession,
    actor: str,
    action: Action,
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


async def list_audit(
    session: TenantSession, wanted: AuditFilter, before: Position | None, limit: int
) -> list[Place]:
    """Places in the audit trail, newest first; rows of the same moment are in the order of their ids."""
    at, last_id = before or (None, None)
    return await session.fetch_as(
        Place, SQL["list_audit"], **asdict(wanted), before_at=at, before_id=last_id, limit=limit
    )


async def fetch_audit(session: TenantSession, ids: Sequence[UUID]) -> list[AuditRecord]:
    """Rows of the audit trail, newest first."""
    return await session.fetch_as(AuditRecord, SQL["fetch_audit"], ids=list(ids))

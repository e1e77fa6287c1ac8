"""The trail of what was done and of what was refused.

What is done is noted by whoever does it, in the same transaction: `app.db.records.write_audit`. What is refused has
no transaction that lasts, so it gets one of its own here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg

from app.db import records
from app.db import tenants as platform
from app.db.session import Database
from app.errors import Conflict, DatabaseUnavailable, Forbidden, KnowledgeError, NotFound, PreconditionFailed

log = logging.getLogger("app.knowledge.audit")

NOTED = (NotFound, Conflict, PreconditionFailed)
"""Refusals that say something of what the caller was after; a field out of range does not."""


DENIAL_SECONDS = 10.0
"""Of one caller's attempts at one operation without the role, one in this time is noted: no token fills the trail."""

MAX_DENIALS = 10_000


class AuditTrail:
    """Notes refusals."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._denials: dict[tuple[UUID | None, str, str], float] = {}

    @asynccontextmanager
    async def attempt(
        self, tenant_id: UUID, actor: str | None, action: str, subject_ids: Sequence[UUID] = ()
    ) -> AsyncIterator[None]:
        """Note it when what `actor` does inside is refused; the refusal goes on to the caller.

        No `actor`: the service itself looks, which is not noted.
        """
        try:
            yield
        except NOTED as error:
            if actor is not None:
                await self.refuse(tenant_id, actor, action, error, subject_ids)
            raise

    async def refuse(
        self,
        tenant_id: UUID,
        actor: str,
        action: str,
        error: KnowledgeError,
        subject_ids: Sequence[UUID] = (),
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Note a refusal in the tenant's trail; a database that is away does not take the refusal's place."""
        try:
            async with self._database.tenant_session(tenant_id) as session:
                noted = {"reason": type(error).__name__, **(detail or {})}
                await records.write_audit(session, actor, action, subject_ids, noted, outcome="refused")
        except asyncpg.ForeignKeyViolationError:
            return  # a tenant that never was, or is gone, has no trail
        except DatabaseUnavailable:
            _report_loss(action)

    async def deny(self, tenant_id: UUID | None, actor: str, operation: str, error: Forbidden) -> None:
        """Note that a caller lacks the role for an operation, in the trail of the tenant that its token names."""
        key, now = (tenant_id, actor, operation), self._clock()
        if now < self._denials.get(key, now):
            return
        if len(self._denials) >= MAX_DENIALS:
            self._denials.clear()
        self._denials[key] = now + DENIAL_SECONDS
        if tenant_id is None:
            await self.refuse_on_platform(actor, "access")
        else:
            await self.refuse(tenant_id, actor, "access", error, detail={"operation": operation})

    async def refuse_on_platform(self, actor: str, action: str, subject: UUID | None = None) -> None:
        """Note a refusal in the platform's trail."""
        try:
            async with self._database.platform_session() as session:
                await platform.note_action(session, actor, action, subject, outcome="refused")
        except DatabaseUnavailable:
            _report_loss(action)


def _report_loss(action: str) -> None:
    log.warning("a refusal is missing from the audit trail", extra={"action": action})

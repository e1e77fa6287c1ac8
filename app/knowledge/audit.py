"""Record refusals and administrative reads in the audit trail.

A change is recorded in its own transaction, with `write_audit` of `app.db.queries.audit`. The transaction of a
refused operation is rolled back, so refusals are recorded here in a transaction of their own. Refusals and reads are
bounded, so that no token can fill the trail.
"""

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from uuid import UUID

from app.contract.administration import AuditAction, PlatformAction
from app.db.database import Database
from app.db.queries import audit
from app.db.queries import tenants as platform
from app.db.session import TenantSession
from app.errors import (
    Conflict,
    DatabaseUnavailable,
    Forbidden,
    NotAWriter,
    NotFound,
    PreconditionFailed,
    TenantNotFound,
)
from app.telemetry.metrics import AUDIT_LOST

log = logging.getLogger("app.knowledge.audit")

NOTED = (NotFound, NotAWriter, Conflict, PreconditionFailed)
"""Errors to record: those that show what the caller tried to reach, not invalid fields."""

REFUSAL_SECONDS = 10.0
"""Interval in which each process records one refusal per caller and operation, so that no token can fill the trail."""

READ_SECONDS = 60.0
"""Interval in which each process records one read per reader, action and subject; its next record counts those in
between."""

MAX_REMEMBERED = 10_000
NOTHING: Mapping[str, Any] = MappingProxyType({})


class AuditTrail:
    """Records refusals, per caller and operation the first in every `REFUSAL_SECONDS`, and reads in the same way."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._noted: dict[tuple[UUID | None, str, str], float] = {}
        self._reads: dict[tuple[UUID, str, str, UUID | None], tuple[float, int]] = {}

    @contextlib.asynccontextmanager
    async def attempt(
        self,
        tenant_id: UUID,
        actor: str | None,
        action: AuditAction,
        subject_ids: Sequence[UUID] = (),
        about: Mapping[str, Any] = NOTHING,
    ) -> AsyncIterator[None]:
        """Record a refusal of the operation in the block, and re-raise it; `about` is metadata to record with it.

        Without `actor` the service itself acts and nothing is recorded. An unavailable database does not replace the
        refusal; TenantNotFound does, if the tenant no longer exists.
        """
        try:
            yield
        except NOTED as error:
            if actor is not None:
                noted = {"reason": type(error).__name__, **about, **error.facts}
                async with self._turn(tenant_id, actor, action, action) as due:
                    if due:
                        await self._write(tenant_id, actor, action, subject_ids, noted)
            raise

    @contextlib.asynccontextmanager
    async def writing(
        self,
        tenant_id: UUID,
        actor: str | None,
        action: AuditAction,
        subject_ids: Sequence[UUID] = (),
        about: Mapping[str, Any] = NOTHING,
    ) -> AsyncIterator[TenantSession]:
        """A transaction of the tenant, whose refusals are recorded as `attempt` does."""
        async with (
            self.attempt(tenant_id, actor, action, subject_ids, about),
            self._database.tenant_session(tenant_id) as session,
        ):
            yield session

    async def note_read(
        self,
        session: TenantSession,
        reader: str | None,
        action: AuditAction,
        subject: UUID | None = None,
        *,
        found: bool = True,
    ) -> None:
        """Record an administrative read in its transaction: the first in every `READ_SECONDS`.

        Its detail has the number of reads since the previous record, if there were more. Reads of subjects that do
        not exist share one record. Without `reader` nothing is recorded.
        """
        if reader is None:
            return
        key = (session.tenant_id, reader, action if found else f"{action} refused", subject if found else None)
        now = self._clock()
        due, unrecorded = self._reads.get(key, (now, 0))
        if now < due:
            self._reads[key] = (due, unrecorded + 1)
            return
        if len(self._reads) >= MAX_REMEMBERED:
            self._reads.clear()
        # Set before the write, so that a simultaneous read is not recorded as well.
        self._reads[key] = (now + READ_SECONDS, 0)
        try:
            await audit.write_audit(
                session,
                reader,
                action,
                () if subject is None else (subject,),
                {"reads": unrecorded + 1} if unrecorded else {},
                outcome="done" if found else "refused",
            )
        except BaseException:
            self._reads[key] = (now, unrecorded)
            raise

    async def note_access(self, tenant_id: UUID, reader: str) -> None:
        """Record that an admin sees data beyond its own rights, as `note_read` records reads."""
        async with self._database.tenant_session(tenant_id) as session:
            await self.note_read(session, reader, "access.all")

    async def _write(
        self, tenant_id: UUID, actor: str, action: AuditAction, subject_ids: Sequence[UUID], noted: Mapping[str, Any]
    ) -> None:
        async with self._database.tenant_session(tenant_id) as session:
            await audit.write_audit(session, actor, action, subject_ids, noted, outcome="refused")

    async def deny(self, tenant_id: UUID | None, actor: str, operation: str, error: Forbidden) -> None:
        """Record that a caller lacks the role for an operation, in the trail of the tenant in its token."""
        # The prefix distinguishes it from refusals recorded by `attempt` for callers with the role.
        noted = {"reason": type(error).__name__, "operation": operation}
        async with self._turn(tenant_id, actor, f"access {operation}", "access") as due:
            if due and tenant_id is None:
                await self._write_on_platform(actor, "access", None)
            elif due and tenant_id is not None:
                # A tenant that does not exist has no trail.
                with contextlib.suppress(TenantNotFound):
                    await self._write(tenant_id, actor, "access", (), noted)

    async def refuse_on_platform(self, actor: str, action: PlatformAction, subject: UUID | None = None) -> None:
        """Record a refusal in the platform's trail; an unavailable database does not replace the refusal."""
        with _reporting_loss(action):
            await self._write_on_platform(actor, action, subject)

    async def _write_on_platform(self, actor: str, action: PlatformAction, subject: UUID | None) -> None:
        async with self._database.platform_session() as session:
            await platform.note_action(session, actor, action, subject, outcome="refused")

    @contextlib.asynccontextmanager
    async def _turn(self, tenant_id: UUID | None, actor: str, operation: str, action: str) -> AsyncIterator[bool]:
        """Yield whether the refusal is to be recorded now; if recording fails, the next refusal is recorded."""
        key, now = (tenant_id, actor, operation), self._clock()
        if now < self._noted.get(key, now):
            yield False
            return
        if len(self._noted) >= MAX_REMEMBERED:
            self._noted.clear()
        # Set before the write, so that a simultaneous refusal is not recorded as well.
        self._noted[key] = now + REFUSAL_SECONDS
        with _reporting_loss(action):
            try:
                yield True
            except BaseException:
                self._noted.pop(key, None)
                raise


@contextlib.contextmanager
def _reporting_loss(action: str) -> Iterator[None]:
    try:
        yield
    except DatabaseUnavailable:
        AUDIT_LOST.inc()
        log.warning("a refusal is missing from the audit trail", extra={"action": action})

"""Revoke single tokens of tenants and of platform administrators, by their id (`jti`)."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import md5
from uuid import UUID

from app.concurrency.part import Generations, Part
from app.contract.administration import LONGEST, NewRevocation, RevokedToken
from app.contract.fields import Page
from app.db.database import Database
from app.db.queries import audit
from app.db.queries import tenants as db
from app.db.rows import Position
from app.errors import MaximumReached
from app.knowledge.audit import AuditTrail
from app.knowledge.paging import PageRequest
from app.knowledge.tenants.directory import KEPT_SECONDS, TenantDirectory

MAX_REVOKED = 1_000
"""Most revoked tokens of one tenant, and of the platform; each process keeps all of them in memory."""

_PLATFORM = "platform"


class TokenRevocations:
    """Revokes tokens of a tenant. Every process refuses them within the time that it keeps a tenant's context."""

    def __init__(self, database: Database, trail: AuditTrail, tenants: TenantDirectory) -> None:
        self._database = database
        self._trail = trail
        self._tenants = tenants

    async def revoke(self, tenant_id: UUID, revocation: NewRevocation, *, actor: str) -> RevokedToken:
        """Refuse the tenant's tokens with a `jti` until `expires_at`, by default for as long as any can be valid.

        Raises MaximumReached when the list is full.
        """
        token_id, until = revocation.token_id, _end_of(revocation)
        async with self._database.tenant_session(tenant_id) as session:
            await db.lock_revocations(session)
            await db.purge_revocations(session)
            if await db.count_other_revocations(session, token_id) >= MAX_REVOKED:
                raise _full("the tenant")
            revoked = await db.put_revocation(session, token_id, until)
            await audit.write_audit(session, actor, "token.revoke", [], {"token_id": token_id})
        self._tenants.forget(tenant_id)
        return revoked

    async def list_revoked(
        self, tenant_id: UUID, *, limit: int = 50, cursor: str | None = None, reader: str | None = None
    ) -> Page[RevokedToken]:
        """List the tenant's revoked tokens that have not expired, newest first; with `reader`, recorded in the trail.

        Raises InvalidInput for a bad cursor.
        """
        wanted = PageRequest.read(limit, cursor)
        async with self._database.tenant_session(tenant_id) as session:
            found = await db.list_revocations(session, wanted.after, wanted.reach)
            await self._trail.note_read(session, reader, "token.list")
        return wanted.cut(found, _position)


class PlatformRevocations:
    """Revokes tokens of platform administrators.

    With `part`, all processes of the service refuse them at once; others do within KEPT_SECONDS.
    """

    def __init__(
        self, database: Database, *, part: Part | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._clock = clock
        self._generations = Generations() if part is None else part.generations()
        self._known: tuple[float, list[float], frozenset[str]] | None = None

    async def contains(self, token_id: str) -> bool:
        """Whether a platform administrator's token with this `jti` is refused."""
        # Read before the list: a change in between then makes the result outdated.
        generation = self._generations.current(_PLATFORM)
        known = self._known
        if known is None or known[0] <= self._clock() or known[1] != generation:
            async with self._database.platform_session() as session:
                ids = await db.platform_revocation_ids(session)
            self._known = known = (self._clock() + KEPT_SECONDS, generation, ids)
        return token_id in known[2]

    async def revoke(self, revocation: NewRevocation, *, actor: str) -> RevokedToken:
        """Refuse platform administrators' tokens with a `jti` until `expires_at`; as for a tenant's tokens."""
        async with self._database.platform_session() as session:
            revoked = await db.put_platform_revocation(
                session, revocation.token_id, _end_of(revocation), most=MAX_REVOKED, actor=actor
            )
        if revoked is None:
            raise _full("the platform")
        self._generations.advance(_PLATFORM)
        return revoked

    async def list_revoked(self, *, limit: int = 50, cursor: str | None = None, reader: str) -> Page[RevokedToken]:
        """List revoked tokens that have not expired, newest first; recorded in the platform's trail.

        Raises InvalidInput for a bad cursor.
        """
        wanted = PageRequest.read(limit, cursor)
        async with self._database.platform_session() as session:
            found = await db.list_revocations(session, wanted.after, wanted.reach)
            await db.note_action(session, reader, "token.list", None)
        return wanted.cut(found, _position)


def _end_of(revocation: NewRevocation) -> datetime:
    return revocation.expires_at or datetime.now(UTC) + LONGEST


def _full(owner: str) -> MaximumReached:
    return MaximumReached(f"{owner} has {MAX_REVOKED} revoked tokens, which is the maximum: replace the signing secret")


def _position(token: RevokedToken) -> Position:
    # The id is any text: a hash of it orders tokens of the same moment, as in SQL.
    return Position(token.revoked_at, UUID(bytes=md5(token.token_id.encode(), usedforsecurity=False).digest()))

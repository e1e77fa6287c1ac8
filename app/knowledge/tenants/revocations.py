"""Revocation of single tokens by their id (`jti`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from app.db.database import Database
from app.db.queries.tenants import audit
from app.db.queries.tenants import revocations as db
from app.db.queries.tenants.revocations import RevokedToken
from app.errors import InvalidInput, MaximumReached
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.text import is_storable

MAX_REVOKED = 1_000
"""Most revoked tokens of one tenant; each process keeps all of them in memory."""

MAX_TOKEN_ID_CHARACTERS = 255

LONGEST = timedelta(days=3660)
"""The longest validity of a token that this service creates."""


class TokenRevocations:
    """Revokes tokens of a tenant. Every process refuses them within the time that it keeps a tenant's context."""

    def __init__(self, database: Database, tenants: TenantDirectory) -> None:
        self._database = database
        self._tenants = tenants

    async def revoke(
        self, tenant_id: UUID, token_id: str, *, expires_at: datetime | None = None, actor: str
    ) -> RevokedToken:
        """Refuse the tenant's tokens with this `jti` until `expires_at`, by default for as long as any can be valid.

        Raises InvalidInput; MaximumReached when the list is full.
        """
        if not 1 <= len(token_id) <= MAX_TOKEN_ID_CHARACTERS or not is_storable(token_id):
            raise InvalidInput.of("token_id", f"must have 1 to {MAX_TOKEN_ID_CHARACTERS} characters")
        now = datetime.now(UTC)
        if expires_at is not None and not now < expires_at <= now + 2 * LONGEST:
            raise InvalidInput.of("expires_at", "must be a time in the future, at most 20 years from now")
        async with self._database.tenant_session(tenant_id) as session:
            await db.lock_revocations(session)
            await db.purge_revocations(session)
            if await db.count_others(session, token_id) >= MAX_REVOKED:
                raise MaximumReached(
                    f"the tenant has {MAX_REVOKED} revoked tokens, which is the maximum: replace the signing secret"
                )
            revoked = await db.put_revocation(session, token_id, expires_at or now + LONGEST)
            await audit.write_audit(session, actor, "token.revoke", [], {"token_id": token_id})
        self._tenants.forget(tenant_id)
        return revoked

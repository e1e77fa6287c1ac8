"""Check a tenant's limits on entries, bytes and embedding tokens."""

from collections import Counter
from dataclasses import dataclass
from uuid import UUID

from app.db.queries import tenants
from app.db.session import TenantSession
from app.errors import EmbeddingQuotaUsed, RateLimited
from app.knowledge.tenants.directory import TenantContext

STORAGE_RETRY = 3600.0
"""`Retry-After` for a storage limit, which only a deletion or a higher limit can resolve."""

NEAR_ENTRIES = 100_000
NEAR_BYTES = 2 * 1024**3
"""Distance to a limit at which writers start to wait for each other; more than all simultaneous writes can add."""


@dataclass(slots=True)
class Room:
    """The room that is left for one transaction; None means unlimited."""

    entries: int | None
    bytes: int | None
    most_entries: int
    most_bytes: int

    def take_entry(self, characters: int) -> RateLimited | None:
        """Reserve room for one more entry, or return the error for the limit that it exceeds."""
        if self.entries is not None and self.entries < 1:
            return refuse_entries(self.most_entries)
        if (over := self.take_bytes(characters)) is not None:
            return over
        if self.entries is not None:
            self.entries -= 1
        return None

    def take_bytes(self, count: int) -> RateLimited | None:
        """Reserve room for bytes, or return the error if there is not enough."""
        if self.bytes is not None:
            if count > max(0, self.bytes):
                return refuse_bytes(self.most_bytes)
            self.bytes -= count
        return None


async def find_room(session: TenantSession, tenant: TenantContext) -> Room | None:
    """Find out how much the tenant can still store; None means unlimited.

    Call it first in a transaction: near a limit it makes other writers of the tenant wait for the end of the
    transaction, so that together they do not exceed the limit.
    """
    most_entries, most_bytes = tenant.limits.entries, tenant.limits.bytes
    if not most_entries and not most_bytes:
        return None
    stored = await tenants.fetch_stored(session)
    if _is_near(stored.entries, most_entries, NEAR_ENTRIES) or _is_near(stored.bytes, most_bytes, NEAR_BYTES):
        await tenants.lock_stored(session)
        stored = await tenants.fetch_stored(session)
    return Room(
        most_entries - stored.entries if most_entries else None,
        most_bytes - stored.bytes if most_bytes else None,
        most_entries,
        most_bytes,
    )


async def require_within(session: TenantSession, tenant: TenantContext) -> None:
    """Raise RateLimited when the tenant exceeds a limit, including what this transaction has written."""
    stored = await tenants.fetch_stored(session)
    if 0 < tenant.limits.entries < stored.entries:
        raise refuse_entries(tenant.limits.entries)
    if 0 < tenant.limits.bytes < stored.bytes:
        raise refuse_bytes(tenant.limits.bytes)


def refuse_entries(most: int) -> RateLimited:
    """The error for an entry over the limit."""
    return RateLimited(f"entries: the tenant's limit of {most} entries is reached", STORAGE_RETRY, "entries")


def refuse_bytes(most: int) -> RateLimited:
    """The error for text or a file over the limit."""
    return RateLimited(f"bytes: this would exceed the tenant's limit of {most} stored bytes", STORAGE_RETRY, "bytes")


class TokenMeter:
    """Counts tokens of queries in memory until the journal writes them; tokens of documents are stored with vectors."""

    def __init__(self) -> None:
        self._unwritten: Counter[UUID] = Counter()

    def require(self, tenant: TenantContext) -> None:
        """Raise EmbeddingQuotaUsed if the tenant's tokens of the day are used up, without a database query."""
        limit = tenant.limits.embedding_tokens_per_day
        if limit and tenant.tokens_today + self._unwritten[tenant.tenant_id] >= limit:
            raise EmbeddingQuotaUsed(tenant.model.provider)

    def count(self, tenant_id: UUID, tokens: int) -> None:
        """Count the tokens of an embedded query, or of texts that were reranked."""
        self._unwritten[tenant_id] += tokens

    def take(self, tenant_id: UUID) -> int:
        """Remove and return the unwritten tokens of a tenant; the caller must write them or put them back."""
        return self._unwritten.pop(tenant_id, 0)

    def put_back(self, tenant_id: UUID, tokens: int) -> None:
        """Put back tokens that could not be written."""
        if tokens:
            self._unwritten[tenant_id] += tokens

    def unwritten(self, tenant_id: UUID) -> int:
        """Tokens that are not in the database yet."""
        return self._unwritten[tenant_id]


async def tokens_left(session: TenantSession, tenant: TenantContext) -> int | None:
    """Number of tokens that the tenant can still embed today; None means unlimited."""
    limit = tenant.limits.embedding_tokens_per_day
    return limit - await tenants.fetch_tokens(session) if limit else None


def _is_near(stored: int, most: int, margin: int) -> bool:
    return most > 0 and stored + margin > most

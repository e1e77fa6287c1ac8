"""Tenants with their callers, usage and revoked tokens, and embedding models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from app.contract.administration import AuditOutcome, CallerUse, PlatformAction, RevokedToken, Tenant
from app.db.rows import Position, beyond
from app.db.session import PlatformSession, TenantSession
from app.db.statements import load_statements
from app.embeddings.provider import EmbeddingModel

SQL = load_statements(__name__)


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """An embedding model, and the number by which rows refer to it."""

    id: int
    model: EmbeddingModel


@dataclass(frozen=True, slots=True)
class DayCounts:
    """The counts of a day; None: what was stored has not been counted on it."""

    day: date
    searches: int
    writes: int
    embedded_tokens: int
    entries: int | None
    files: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class TenantModel:
    """The number of a tenant's model."""

    id: UUID
    slug: str
    model_id: int


@dataclass(frozen=True, slots=True)
class OwnTenant:
    """What a request needs to know of its tenant; the model's `passages` and `index_state` are those of its vectors,
    and `mean_similarity` is that of the best hits of the counted `searches` with it.

    `restricted`: it has or had entries that not all callers may read; `open_entries` is the number of the others.
    """

    id: UUID
    slug: str
    name: str
    settings: Mapping[str, Any]
    limits: Mapping[str, int]
    tokens_today: int
    model_id: int
    provider: str
    model: str
    dimensions: int
    max_tokens: int
    similarity_threshold: float
    centre: float | None
    passages: int
    searches: int
    mean_similarity: float
    index_state: str
    restricted: bool
    open_entries: int
    revoked_tokens: Sequence[str]


async def list_tenants(session: PlatformSession) -> list[Tenant]:
    """All tenants, oldest first."""
    return await session.fetch_as(Tenant, SQL["list_tenants"])


async def list_active_tenants(session: PlatformSession, within: timedelta, ages: Sequence[timedelta]) -> list[UUID]:
    """The tenants with an audited operation or a search within this time, or a search that reached one of the ages.

    Not on a cluster, where other nodes hold them.
    """
    return await session.fetch_column(SQL["active_tenants"], within=within, ages=list(ages))


async def list_models_of_tenants(session: PlatformSession) -> list[TenantModel]:
    """The model of each tenant."""
    return await session.fetch_as(TenantModel, SQL["models_of_tenants"])


async def has_entries(session: TenantSession) -> bool:
    """Whether the tenant has entries, or a change of its model."""
    return bool(await session.fetch_value(SQL["has_entries"]))


async def find_tenant(session: PlatformSession, slug: str) -> Tenant | None:
    """The tenant with this slug."""
    return await session.fetch_one_as(Tenant, SQL["find_tenant"], slug=slug)


async def page_of_tenants(session: PlatformSession, after: Position | None, count: int) -> list[Tenant]:
    """Tenants after the one with this time and id, oldest first."""
    return await session.fetch_as(Tenant, SQL["page_of_tenants"], count=count, **beyond(after))


async def count_tenants(session: PlatformSession) -> int:
    """The number of tenants."""
    return int(await session.fetch_value(SQL["count_tenants"]))


async def tenants_from(session: PlatformSession, place: int, count: int) -> list[Tenant]:
    """Tenants from the given place (0 is the first), oldest first."""
    return await session.fetch_as(Tenant, SQL["tenants_from"], place=place, count=count)


async def create_tenant(
    session: PlatformSession, tenant_id: UUID, slug: str, name: str, model_id: int, actor: str
) -> None:
    """Add a tenant. Raises asyncpg.UniqueViolationError when the slug is taken."""
    await session.fetch(SQL["create_tenant"], id=tenant_id, slug=slug, name=name, model_id=model_id, actor=actor)


async def delete_tenant(session: PlatformSession, tenant_id: UUID, actor: str) -> bool:
    """Remove a tenant with every row it has; False when there is none."""
    return bool(await session.fetch_value(SQL["delete_tenant"], id=tenant_id, actor=actor))


async def note_action(
    session: PlatformSession,
    actor: str,
    action: PlatformAction,
    subject: UUID | None,
    *,
    outcome: AuditOutcome = "done",
) -> None:
    """Record what a platform administrator read or was refused; changes of tenants record themselves."""
    await session.fetch(SQL["note_action"], actor=actor, action=action, subject=subject, outcome=outcome)


async def change_limits(
    session: PlatformSession, tenant_id: UUID, changes_json: str, actor: str
) -> Mapping[str, int] | None:
    """Set some of the platform's limits for a tenant; null removes one. Returns all, or None without a tenant."""
    changed: Mapping[str, int] | None = await session.fetch_value(
        SQL["change_limits"], id=tenant_id, changes=changes_json, actor=actor
    )
    return changed


async def own_tenant(session: TenantSession) -> OwnTenant | None:
    """The tenant of the session with its model and vector counts."""
    return await session.fetch_one_as(OwnTenant, SQL["own_tenant"])


async def hold_tenant(session: TenantSession) -> None:
    """Lock the tenant's row until the transaction ends, and read its latest version."""
    await session.fetch(SQL["hold_tenant"])


async def update_settings(session: TenantSession, settings_json: str) -> None:
    """Replace the tenant's settings."""
    await session.execute(SQL["update_settings"], settings=settings_json)


async def add_similarities(
    session: TenantSession, model_id: int, model: EmbeddingModel, best: Sequence[tuple[UUID, float]], memory: int
) -> None:
    """Add searches with the model to the tenant's mean, each by its best hit and the hit's cosine.

    The mean remembers about `memory` searches.
    """
    await session.execute(
        SQL["add_similarities"],
        model_id=model_id,
        ids=[entry_id for entry_id, _ in best],
        similarities=[cosine for _, cosine in best],
        languages=None if model.languages is None else list(model.languages),
        centre=None if model.languages is None else model.centre,
        memory=memory,
    )


async def list_models(session: PlatformSession | TenantSession) -> list[RegisteredModel]:
    """All registered embedding models."""
    rows = [dict(row) for row in await session.fetch(SQL["models"])]
    return [RegisteredModel(row.pop("id"), EmbeddingModel(**row)) for row in rows]


MOST = 10_000
"""Callers of a tenant that are noted."""


@dataclass(frozen=True, slots=True)
class KnownCaller:
    """A caller: its principals and roles at `last_at`, the last call that was noted."""

    subject: str
    principals: Sequence[str]
    roles: Sequence[str]
    last_at: datetime


async def note_caller(session: TenantSession, subject: str, principals: Sequence[str], roles: Sequence[str]) -> None:
    """Record the claims of a caller's token; a new caller beyond MOST is not recorded."""
    await session.execute(SQL["note"], subject=subject, principals=list(principals), roles=list(roles), most=MOST)


async def list_known_callers(session: TenantSession, any_of: Sequence[str] | None, limit: int) -> list[KnownCaller]:
    """Callers with one of these principals, the latest first; None: all."""
    return await session.fetch_as(KnownCaller, SQL["list"], any_of=any_of, limit=limit)


async def search_callers(session: TenantSession, text: str, limit: int) -> list[KnownCaller]:
    """Callers whose name has this text, in any case, the latest first."""
    return await session.fetch_as(KnownCaller, SQL["search"], text=text, limit=limit)


async def find_caller(session: TenantSession, subject: str) -> KnownCaller | None:
    """One caller."""
    return await session.fetch_one_as(KnownCaller, SQL["find"], subject=subject)


async def forget_callers(session: TenantSession, age: timedelta) -> int:
    """Forget the callers that have not called for this time; returns their number."""
    return await session.execute(SQL["forget"], age=age)


@dataclass(frozen=True, slots=True)
class Stored:
    """Number of `entries`; `bytes` of files, plus one for each character of entries' text (titles count twice)."""

    entries: int
    bytes: int


async def list_callers(session: TenantSession, limit: int) -> list[CallerUse]:
    """The callers of the last 24 hours, the most active first."""
    return await session.fetch_as(CallerUse, SQL["callers"], limit=limit)


async def fetch_stored(session: TenantSession) -> Stored:
    """The stored amounts, including the writes of this transaction."""
    return await session.fetch_only_as(Stored, SQL["stored"])


async def lock_stored(session: TenantSession) -> None:
    """Make other transactions that request this lock wait until this one ends."""
    await session.fetch_value(SQL["lock"])


async def fetch_tokens(session: TenantSession) -> int:
    """Tokens embedded today (UTC)."""
    return int(await session.fetch_value(SQL["tokens_today"]) or 0)


async def add_usage(session: TenantSession, tokens: int, searches: int = 0) -> None:
    """Count embedded tokens and searches. Call it last in a transaction, since it locks a contended row."""
    if tokens > 0 or searches > 0:
        await session.execute(SQL["add_usage"], tokens=tokens, searches=searches)


async def count_writes(session: TenantSession, actions: Sequence[str], since: datetime) -> dict[date, int]:
    """Items that operations of these kinds wrote since then, by day."""
    return await session.fetch_pairs(SQL["count_writes"], actions=list(actions), since=since)


async def count_files(session: TenantSession) -> int:
    """The stored files, of all readers that the session may see."""
    return int(await session.fetch_value(SQL["count_files"]))


async def tally_day(session: TenantSession, day: date, writes: int, stored: Stored | None, files: int | None) -> None:
    """Store the counts of a day; without `stored`, only its writes."""
    entries, size = (None, None) if stored is None else (stored.entries, stored.bytes)
    await session.execute(SQL["tally"], day=day, writes=writes, entries=entries, files=files, bytes=size)


async def list_usage(session: TenantSession, last: date) -> list[DayCounts]:
    """The counts of the days until `last`, the oldest first."""
    return await session.fetch_as(DayCounts, SQL["usage"], last=last)


async def purge_usage(session: TenantSession, days: int) -> None:
    """Delete the counts of older days."""
    await session.execute(SQL["purge"], days=days)


async def lock_revocations(session: TenantSession) -> None:
    """Make other revocations of the tenant wait until this transaction ends."""
    await session.fetch_value(SQL["lock_revocations"])


async def purge_revocations(session: TenantSession) -> int:
    """Delete revocations of tokens that have expired."""
    return await session.execute(SQL["purge_revocations"])


async def count_other_revocations(session: TenantSession, token_id: str) -> int:
    """The number of the tenant's other revocations."""
    return int(await session.fetch_value(SQL["count_other_revocations"], token_id=token_id))


async def put_revocation(session: TenantSession, token_id: str, expires_at: datetime) -> RevokedToken:
    """Revoke a token; a second call only extends it."""
    return await session.fetch_only_as(RevokedToken, SQL["put_revocation"], token_id=token_id, expires_at=expires_at)


async def list_revocations(
    session: PlatformSession | TenantSession, before: Position | None, limit: int
) -> list[RevokedToken]:
    """Revoked tokens of the tenant, or of platform administrators, newest first."""
    statement = SQL["list_revocations" if isinstance(session, TenantSession) else "list_platform_revocations"]
    return await session.fetch_as(RevokedToken, statement, limit=limit, **beyond(before))


async def platform_revocation_ids(session: PlatformSession) -> frozenset[str]:
    """The ids of all revoked tokens of platform administrators."""
    return frozenset(row["token_id"] for row in await session.fetch(SQL["platform_revocation_ids"]))


async def put_platform_revocation(
    session: PlatformSession, token_id: str, expires_at: datetime, *, most: int, actor: str
) -> RevokedToken | None:
    """Revoke a token of a platform administrator, recorded in the platform's trail; None if there are `most` others."""
    return await session.fetch_one_as(
        RevokedToken, SQL["put_platform_revocation"], token_id=token_id, expires_at=expires_at, most=most, actor=actor
    )

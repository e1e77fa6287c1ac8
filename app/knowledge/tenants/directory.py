"""Create, list, delete and configure tenants, revoke their tokens, and load the context that a request needs.

A change locks the tenant.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import md5, sha256
from typing import Any
from uuid import UUID

import asyncpg
import orjson

from app.concurrency.part import Generations, Part
from app.contract.administration import LONGEST, SLUG, NewRevocation, NewTenant, RevokedToken, Tenant
from app.contract.fields import Page
from app.contract.settings import (
    LIMITS,
    Adaptation,
    AllowedLimits,
    Limits,
    SettingsPatch,
    StoredSettings,
    TenantSettings,
    TunedWeights,
)
from app.contract.validation import given_fields, same_fields, validate
from app.db.database import Database
from app.db.principals import SERVICE
from app.db.queries import audit, receipts, versions
from app.db.queries import tenants as db
from app.db.queries.embeddings import drop_strays
from app.db.queries.search import VectorSpace
from app.db.rows import Position, new_id
from app.db.session import TenantSession
from app.embeddings.provider import EmbeddingModel, EmbeddingProvider
from app.embeddings.resilience import asking_tenant
from app.errors import (
    DatabaseUnavailable,
    EmbeddingUnavailable,
    FieldError,
    InvalidInput,
    MaximumReached,
    PreconditionFailed,
    TenantExists,
    TenantNotFound,
)
from app.knowledge.audit import AuditTrail
from app.knowledge.paging import PageRequest
from app.knowledge.tenants.adaptation import adapt

PAGE_LIMITS = ("default_limit", "max_limit")


def read_settings(stored: Mapping[str, Any]) -> TenantSettings:
    """Read a tenant's settings from the stored ones. Raises InvalidInput."""
    return validate(StoredSettings, dict(stored)).complete()


def require_lower(own: Mapping[str, Any], allowed: Limits) -> None:
    """Raise InvalidInput for a tenant's own limits that exceed the platform's."""
    errors = [
        FieldError(f"limits.{name}", f"must be at most {most}, the platform's limit for this tenant")
        for name, value in own.items()
        if value is not None and 0 < (most := getattr(allowed, name)) < value
    ]
    if errors:
        raise InvalidInput(errors)


def version_of(settings: TenantSettings) -> int:
    """A number of at most 18 digits, as the versions of ETags are, from a hash: other settings have another one."""
    written = orjson.dumps(asdict(replace(settings, adaptation=None)), option=orjson.OPT_SORT_KEYS)
    return int.from_bytes(sha256(written).digest()[:8]) % 10**18


def check_page_limits(changes: Mapping[str, Any], greatest: int) -> None:
    """Raise InvalidInput for changes of `default_limit` and `max_limit` that exceed the service's maximum."""
    errors = [
        FieldError(name, f"must be between 1 and {greatest}, the service's limit")
        for name in PAGE_LIMITS
        if (value := changes.get(name)) is not None and value > greatest
    ]
    if errors:
        raise InvalidInput(errors)


def require_default_within(settings: TenantSettings, changes: Mapping[str, Any]) -> None:
    """Raise InvalidInput with the changed field if `default_limit` is now larger than `max_limit`."""
    default, most = settings.default_limit, settings.max_limit
    if default is None or most is None or default <= most:
        return
    if changes.get("default_limit") is not None:
        raise InvalidInput.of("default_limit", f"must be at most {most}, the tenant's max_limit")
    if changes.get("max_limit") is not None:
        raise InvalidInput.of("max_limit", f"must be at least {default}, the tenant's default_limit")


TUNER = "tuning"
"""The actor in the audit trail of weights that the service applies."""


async def hold_tenant(session: TenantSession) -> db.OwnTenant:
    """Lock the tenant and read it. Raises TenantNotFound."""
    await db.hold_tenant(session)
    if (row := await db.own_tenant(session)) is None:
        raise TenantNotFound("the tenant does not exist")
    return row


def require_version(row: db.OwnTenant, versions: Collection[int] | None) -> None:
    """Raise PreconditionFailed unless the stored settings have one of these versions; None: any."""
    if versions is not None and version_of(read_settings(row.settings)) not in versions:
        raise PreconditionFailed("the settings have changed since they were read")


def apply_changes(
    stored: Mapping[str, Any], patch: SettingsPatch, *, allowed: Limits, max_limit: int
) -> tuple[Mapping[str, Any], TenantSettings]:
    """Merge changes into stored settings, which stay as they are: the values to store, and the settings they make.

    None resets a setting, and one of the `limits`. `allowed` are the platform's limits, and `max_limit` the service's
    largest number of hits per page. Raises InvalidInput.
    """
    changes = patch.given()
    check_page_limits(changes, max_limit)
    if (own := changes.get("limits")) is not None:
        require_lower(own, allowed)
        changes["limits"] = {**stored.get("limits", {}), **own}
    given = _tidy({**stored, **changes})
    settings = read_settings(given)
    require_default_within(settings, changes)
    return given, settings


async def store_settings(
    session: TenantSession, row: db.OwnTenant, given: Mapping[str, Any]
) -> tuple[TenantSettings, list[str]]:
    """Replace all settings; None values are dropped. Return the settings and the names of the changed ones."""
    stored = _tidy(given)
    settings = read_settings(stored)
    changed = sorted(n for n in row.settings.keys() | stored if row.settings.get(n) != stored.get(n))
    if changed:
        await db.update_settings(session, orjson.dumps(stored).decode())
    if "keep_versions_days" in changed:
        former = row.settings.get("keep_versions_days", 0)
        await versions.keep(session, former, settings.keep_versions_days)
    if row.settings.get("keep_query_text"):
        async with session.acting_as(SERVICE):  # the feedback of all callers
            await receipts.erase_queries(session)
    return settings, changed


async def store_tuned(session: TenantSession, tuned: TunedWeights) -> bool:
    """Apply weights that the service has found, unless the settings on which they depend have changed since.

    Raises TenantNotFound.
    """
    row = await hold_tenant(session)
    settings = read_settings(row.settings)
    if not settings.auto_tune or settings.weights is not None or settings.fusion != tuned.fusion:
        return False
    await store_settings(session, row, {**row.settings, "tuned": asdict(tuned)})
    await audit.write_audit(session, TUNER, "settings.tune", [], asdict(tuned))
    return True


def _tidy(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, and the limits among them, that have a value."""
    if isinstance(limits := given.get("limits"), dict):
        given = {**given, "limits": {n: v for n, v in limits.items() if v is not None} or None}
    return {name: value for name, value in given.items() if value is not None}


WIDE_KEPT_SECONDS = 60.0
MOST = 1_000
"""Callers of one tenant that are remembered."""


class WideCallers:
    """Remembers the principals of such callers for a minute. Only the way to search depends on it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[tuple[str, ...], float] = {}

    def add(self, principals: tuple[str, ...]) -> None:
        """Remember a caller."""
        if len(self._until) >= MOST:
            self._until.clear()
        self._until[principals] = self._clock() + WIDE_KEPT_SECONDS

    def __contains__(self, principals: tuple[str, ...]) -> bool:
        return self._until.get(principals, 0.0) > self._clock()


@dataclass(frozen=True, slots=True)
class TenantContext:
    """The facts about a tenant that a search or a write needs.

    Attributes:
        space: the model's id and dimensions, for SQL literals.
        passages: number of vectors stored for the model.
        indexed: whether the tenant's HNSW index contains all of them.
        searches: searches with the model that were counted, see `SimilarityMeter`.
        mean_similarity: the mean cosine of their best hits.
        limits: the limits in force.
        allowed: the platform's limits for the tenant, without the tenant's own settings.
        revoked_tokens: ids of tokens that are refused.
        tokens_today: embedding tokens used today (UTC) when this was read.
        restricted: whether it has or had entries or assets that not all its callers may read.
        open_entries: number of entries that all its callers may read.
        wide_callers: the principals of callers that were found to read more entries than are compared exactly.
    """

    tenant_id: UUID
    slug: str
    settings: TenantSettings
    model: EmbeddingModel
    space: VectorSpace
    passages: int
    indexed: bool
    searches: int = 0
    mean_similarity: float = 0.0
    limits: Limits = field(default_factory=Limits)
    allowed: Limits = field(default_factory=Limits)
    revoked_tokens: frozenset[str] = frozenset()
    tokens_today: int = 0
    restricted: bool = False
    open_entries: int = 0
    wide_callers: WideCallers = field(default_factory=WideCallers, compare=False)

    @property
    def adaptation(self) -> Adaptation:
        """What its searches have shown."""
        return adapt(self.model, self.searches, self.mean_similarity)


class NoProvider(EmbeddingUnavailable):
    """This process has no provider for the tenant's model; another process may have one."""


def find_provider(providers: Mapping[int, EmbeddingProvider], tenant: TenantContext) -> EmbeddingProvider:
    """Find the provider of the tenant's model, and attribute the calls of the current task to the tenant.

    Raises NoProvider.
    """
    asking_tenant.set(tenant.tenant_id)
    provider = providers.get(tenant.space.model_id)
    if provider is None:
        raise NoProvider(tenant.model.provider, "no provider for the tenant's model", attempts=0)
    return provider


def _model_of(row: db.OwnTenant) -> EmbeddingModel:
    return EmbeddingModel(row.provider, row.model, row.dimensions, row.max_tokens, row.similarity_threshold, row.centre)


_TENANTS = "tenants"
DELETION = timedelta(minutes=30)
DELETION_TRIES = 10  # while other requests write to the tenant
KEPT_SECONDS = 2.0
"""How long a process keeps a tenant's context and the list of revoked platform tokens."""


@dataclass(eq=False)
class TenantDirectory:
    """Reads tenants, with a short-lived cache; also creates, configures and deletes them.

    Changes made through this object take effect at once, and with `part` in all processes of the service; changes by
    others take effect within KEPT_SECONDS. A deletion also takes effect at the next write for the tenant.

    `max_limit` is the service's largest number of hits per page, and the largest that a tenant can set.
    `default_limits` are those of a tenant for which the platform has set none.
    """

    database: Database
    trail: AuditTrail
    _: KW_ONLY
    default_model_id: int
    default_limits: Limits = field(default_factory=Limits)
    max_limit: int = 100
    part: Part | None = None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._generations = Generations() if self.part is None else self.part.generations()
        self._known: dict[UUID, tuple[float, list[float], TenantContext]] = {}
        self._ids: tuple[float, list[float], frozenset[UUID]] | None = None
        self._reading_ids = asyncio.Lock()
        self.database.tell_of_deleted.append(self.forget)

    async def context(self, tenant_id: UUID) -> TenantContext:
        """Return the tenant's context, from the cache if possible. Raises TenantNotFound."""
        # Read before the tenant: a change in between then makes the result outdated.
        generation = self._generations.current(tenant_id)
        known = self._known.get(tenant_id)
        if known is not None and known[0] > self.clock() and known[1] == generation:
            return known[2]
        async with self.database.tenant_session(tenant_id) as session:
            row = await db.own_tenant(session)
        if row is None:
            self._known.pop(tenant_id, None)
            raise TenantNotFound("the tenant does not exist")
        settings = read_settings(row.settings)
        allowed = self.allow(row.limits)
        own = {
            "settings": settings,
            "model": _model_of(row),
            "limits": allowed.lowered(settings.limits),
            "revoked_tokens": frozenset(row.revoked_tokens),
        }
        context = TenantContext(
            **same_fields(row, TenantContext) | own,
            tenant_id=tenant_id,
            space=VectorSpace(row.model_id, row.dimensions),
            indexed=row.index_state == "ready",
            allowed=allowed,
            wide_callers=WideCallers(clock=self.clock) if known is None else known[2].wide_callers,
        )
        if len(self._known) >= 10_000:
            self._known.clear()
        self._known[tenant_id] = (self.clock() + KEPT_SECONDS, generation, context)
        return context

    async def is_known(self, tenant_id: UUID) -> bool:
        """Whether the tenant exists, or existed KEPT_SECONDS ago.

        For ids that nothing vouches for: all unknown ones together cost one query in that time.
        """
        if tenant_id in self._known:
            return True
        async with self._reading_ids:
            generation = self._generations.current(_TENANTS)
            ids = self._ids
            if ids is None or ids[0] <= self.clock() or ids[1] != generation:
                async with self.database.platform_session() as session:
                    found = frozenset(tenant.id for tenant in await db.list_tenants(session))
                self._ids = ids = (self.clock() + KEPT_SECONDS, generation, found)
        return tenant_id in ids[2]

    async def read_settings(self, tenant_id: UUID, *, reader: str | None = None) -> TenantSettings:
        """Return the tenant's settings; with `reader`, record the read in the audit trail. Raises TenantNotFound."""
        context = await self.context(tenant_id)
        if reader is not None:
            async with self.database.tenant_session(tenant_id) as session:
                await self.trail.note_read(session, reader, "settings.read")
        return replace(context.settings, adaptation=context.adaptation)

    def forget(self, tenant_id: UUID) -> None:
        """Remove the tenant from the cache, in all processes of the service."""
        self._known.pop(tenant_id, None)
        self._generations.advance(tenant_id)

    def allow(self, given: Mapping[str, int]) -> Limits:
        """The platform's limits for a tenant: the given ones, else the defaults."""
        return self.default_limits.replaced(given)

    async def list_tenants(self, *, reader: str | None = None) -> list[Tenant]:
        """List all tenants, oldest first; with `reader`, record the read in the platform's trail."""
        async with self.database.platform_session() as session:
            found = await db.list_tenants(session)
            if reader is not None:
                await db.note_action(session, reader, "tenant.list", None)
        return found

    async def find(self, slug: str) -> Tenant:
        """Find the tenant with this slug. Raises TenantNotFound."""
        if SLUG.fullmatch(slug):
            async with self.database.platform_session() as session:
                if (found := await db.find_tenant(session, slug)) is not None:
                    return found
        raise TenantNotFound.of(slug)

    async def create(self, tenant: NewTenant, *, actor: str, model_id: int | None = None) -> Tenant:
        """Create a tenant on the given model, else on the service's default. Raises Conflict."""
        slug, name = tenant.slug, tenant.name or tenant.slug
        tenant_id = new_id()
        try:
            async with self.database.platform_session() as session:
                await db.create_tenant(session, tenant_id, slug, name, model_id or self.default_model_id, actor)
        except asyncpg.UniqueViolationError as error:
            await self.trail.refuse_on_platform(actor, "tenant.create")
            raise TenantExists(f"a tenant {slug!r} already exists") from error
        self._generations.advance(_TENANTS)
        return await self.find(slug)

    async def delete(self, tenant_id: UUID, *, actor: str) -> None:
        """Delete a tenant with all its data. Raises TenantNotFound."""
        for tries_left in reversed(range(DELETION_TRIES)):
            try:
                # A large tenant takes minutes: all its rows are deleted in one transaction.
                async with self.database.platform_session(background=DELETION) as session:
                    deleted = await db.delete_tenant(session, tenant_id, actor)
                break
            except DatabaseUnavailable as error:
                # A simultaneous write can hold locks that the deletion waits for, and wait for the deletion itself.
                if not tries_left or not isinstance(error.__cause__, asyncpg.DeadlockDetectedError):
                    raise
        self.forget(tenant_id)
        if not deleted:
            await self.trail.refuse_on_platform(actor, "tenant.delete", tenant_id)
            raise TenantNotFound("the tenant does not exist")
        await drop_strays(self.database, tenant_id)

    async def change_limits(self, tenant_id: UUID, changes: AllowedLimits, *, actor: str) -> AllowedLimits:
        """Set the platform's limits for a tenant: 0 means unlimited, None restores the default.

        Returns all limits of the tenant, None where the default applies. Raises TenantNotFound.
        """
        given = orjson.dumps(given_fields(changes)).decode()
        async with self.database.platform_session() as session:
            changed = await db.change_limits(session, tenant_id, given, actor)
        self.forget(tenant_id)
        if changed is None:
            await self.trail.refuse_on_platform(actor, "tenant.limits", tenant_id)
            raise TenantNotFound("the tenant does not exist")
        return AllowedLimits(**{name: changed.get(name) for name in LIMITS})

    async def propose_settings(self, tenant_id: UUID, patch: SettingsPatch) -> TenantSettings:
        """The settings that `change_settings` would make; nothing is stored. Raises InvalidInput, TenantNotFound."""
        async with self.database.tenant_session(tenant_id) as session:
            row = await db.own_tenant(session)
        if row is None:
            raise TenantNotFound("the tenant does not exist")
        return self._apply(row, patch)[1]

    def _apply(self, row: db.OwnTenant, patch: SettingsPatch) -> tuple[Mapping[str, Any], TenantSettings]:
        return apply_changes(row.settings, patch, allowed=self.allow(row.limits), max_limit=self.max_limit)

    async def change_settings(
        self,
        tenant_id: UUID,
        patch: SettingsPatch,
        *,
        if_version: Collection[int] | None = None,
        actor: str = "service",
    ) -> TenantSettings:
        """Merge changes into the tenant's settings; None resets one.

        With `if_version`, the settings must have one of these versions (`version_of`). Raises InvalidInput,
        PreconditionFailed and TenantNotFound.
        """
        async with self.trail.writing(tenant_id, actor, "settings.update") as session:
            row = await hold_tenant(session)
            require_version(row, if_version)
            given, settings = self._apply(row, patch)
            await store_settings(session, row, given)
            detail = {"fields": sorted(given_fields(patch))}
            await audit.write_audit(session, actor, "settings.update", [], detail)
        self.forget(tenant_id)
        return replace(settings, adaptation=adapt(_model_of(row), row.searches, row.mean_similarity))

    async def restore_settings(self, tenant_id: UUID, given: Mapping[str, Any], *, actor: str) -> None:
        """Replace the tenant's settings with those of an export; limits above the platform's have no effect.

        Raises InvalidInput, TenantNotFound.
        """
        async with self.database.tenant_session(tenant_id) as session:
            row = await hold_tenant(session)
            _, changed = await store_settings(session, row, given)
            if changed:
                await audit.write_audit(session, actor, "tenant.import", [], {"part": "settings", "fields": changed})
        self.forget(tenant_id)

    async def revoke(self, tenant_id: UUID, revocation: NewRevocation, *, actor: str) -> RevokedToken:
        """Refuse the tenant's tokens with a `jti` until `expires_at`, by default for as long as any can be valid.

        Every process refuses them within the time that it keeps a tenant's context. Raises MaximumReached when the list
        is full.
        """
        token_id, until = revocation.token_id, _end_of(revocation)
        async with self.database.tenant_session(tenant_id) as session:
            await db.lock_revocations(session)
            await db.purge_revocations(session)
            if await db.count_other_revocations(session, token_id) >= MAX_REVOKED:
                raise _full("the tenant")
            revoked = await db.put_revocation(session, token_id, until)
            await audit.write_audit(session, actor, "token.revoke", [], {"token_id": token_id})
        self.forget(tenant_id)
        return revoked

    async def list_revoked(
        self, tenant_id: UUID, *, limit: int = 50, cursor: str | None = None, reader: str | None = None
    ) -> Page[RevokedToken]:
        """List the tenant's revoked tokens that have not expired, newest first; with `reader`, recorded in the trail.

        Raises InvalidInput for a bad cursor.
        """
        wanted = PageRequest.read(limit, cursor)
        async with self.database.tenant_session(tenant_id) as session:
            found = await db.list_revocations(session, wanted.after, wanted.reach)
            await self.trail.note_read(session, reader, "token.list")
        return wanted.cut(found, _position)


MAX_REVOKED = 1_000
"""Most revoked tokens of one tenant, and of the platform; each process keeps all of them in memory."""

_PLATFORM = "platform"


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

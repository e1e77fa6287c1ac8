"""Administration: a tenant's statistics, callers and audit trail, and the tenants of the platform."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, Field, ValidationInfo, WithJsonSchema

from app.contract.fields import MAX_TOKEN_ID_CHARACTERS, ZonedMoment
from app.contract.models import ModelInfo, ModelUse
from app.contract.text import STORABLE, is_storable
from app.contract.validation import Described, request, require

MAX_CALLERS = 100
"""Callers that a list shows."""


@dataclass(frozen=True, slots=True)
class LimitUse:
    """The usage of a limit, and the limit; null means unlimited."""

    used: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """Background work of one kind."""

    kind: str
    queued: int
    running: int
    oldest: Annotated[datetime | None, Field(description="When the oldest queued job became due.")]


@dataclass(frozen=True, slots=True)
class Hour:
    """The searches of one hour (UTC)."""

    hour: datetime
    searches: int
    fallbacks: int
    without_results: int
    p50_ms: int
    p95_ms: int


@dataclass(frozen=True, slots=True)
class Estimates(Described):
    """How `estimated_matches` compared with the ranked lists, in the last 1,000 searches of the last 24 hours."""

    searches: int
    truncated: Annotated[int, Field(description="Searches whose ranked list ended before all matching entries.")]
    ranked_share: float
    """Mean share of `estimated_matches` that the ranked list had; 1 if every list was complete."""


@dataclass(frozen=True, slots=True)
class RecordUse(Described):
    """Records of one kind, and their bound; null means unlimited."""

    rows: int
    bytes: Annotated[int, Field(description="Approximate, without indexes.")]
    limit: int | None
    """Over it the oldest are removed; no record is refused except a saved search."""


@dataclass(frozen=True, slots=True)
class Stats(Described):
    """Statistics of the caller's tenant."""

    entries: int
    entries_by_type: Mapping[str, int]
    entries_by_language: Mapping[str, int]
    assets_by_status: Mapping[str, int]
    pending_embeddings: int
    flagged_entries: Mapping[str, int]
    """Entries with each flag of suspicious content; an entry can have several."""
    quarantined_entries: int
    jobs: int
    model: ModelInfo
    passages: int
    indexed: bool
    searches_24h: int
    searches_without_results_24h: int
    fallback_rate_24h: float
    estimates: Estimates
    searches_by_hour: Sequence[Hour]
    """The last 24 hours. Hours without searches are omitted; the first and the last hour are partial."""
    models: Annotated[Sequence[ModelUse], Field(description="The model that searches use comes first.")]
    backlog: Sequence[Backlog]
    limits: Mapping[str, LimitUse]
    """Limits by name. Requests and searches are those of this instance; the other counts are exact."""
    records: Mapping[str, RecordUse]
    """`receipts`, `feedback`, `audit`, `saved_searches`, `deliveries` and `former_versions`."""


MAX_USAGE_DAYS = 400
"""Days of which the usage is kept."""


@dataclass(frozen=True, slots=True)
class DayUsage(Described):
    """What the tenant used on a day (UTC)."""

    day: date
    searches: int
    writes: int
    """Entries and assets that were written or deleted."""
    embedded_tokens: int
    """Tokens that were embedded, also of queries, estimated as for the limit."""
    entries: int
    """Stored at the end of the day, or now; so are `files` and `bytes`."""
    files: int
    bytes: int
    """Of texts and files, as for the limit."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a tenant by day, the oldest first."""

    items: Sequence[DayUsage]


@dataclass(frozen=True, slots=True)
class CallerUse:
    """What a caller did in the last 24 hours. Limits are those of the tenant; single callers have none."""

    subject: Annotated[str, Field(description="The `sub` of its tokens.")]
    searches: int
    without_results: int
    p95_ms: Annotated[int | None, Field(description="Of its searches; null without any.")]
    changes: int
    refused: Annotated[int, Field(description="Refused requests that the audit trail has.")]
    last_at: datetime


@dataclass(frozen=True, slots=True)
class CallerList:
    """The most active callers first, at most 100."""

    items: Sequence[CallerUse]


AuditOutcome = Literal["done", "refused"]

AuditAction = Literal[
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
    "key.create",
    "key.list",
    "key.revoke",
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

PlatformAction = Literal[
    "access",
    "model.add",
    "model.calibrate",
    "tenant.create",
    "tenant.delete",
    "tenant.health",
    "tenant.limits",
    "tenant.list",
    "token.list",
    "token.revoke",
]
"""The actions in the platform's audit trail; `tests/api/acts.py` performs each of them."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An action: its actor, subjects, time and outcome."""

    id: UUID
    at: datetime
    actor: str
    action: str
    subject_ids: Sequence[UUID]
    outcome: AuditOutcome
    detail: Mapping[str, Any]


def _check_period(before: datetime, info: ValidationInfo) -> datetime:
    after = info.data.get("after")
    if after is not None and after >= before:
        raise ValueError("must be later than after")
    return before


@request
class AuditFilter:
    """Which rows of the audit trail are wanted; None: any. `after` is the earliest time, `before` is excluded."""

    actor: Annotated[str, require(is_storable, f"must be a text, {STORABLE}")] | None = None
    action: AuditAction | None = None
    outcome: AuditOutcome | None = None
    after: ZonedMoment | None = None
    before: Annotated[ZonedMoment, AfterValidator(_check_period)] | None = None


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant."""

    id: UUID
    slug: str
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PlatformLimit:
    """One limit of a tenant; null means unlimited, or for `used` that the database does not count it.

    Attributes:
        allowed: the platform's limit for the tenant.
        default: the platform's limit for tenants without a limit of their own.
        own: the limit that the tenant's admin has set.
    """

    allowed: int | None
    default: int | None
    own: int | None
    used: int | None


@dataclass(frozen=True, slots=True)
class PlatformLimits:
    """All limits of one tenant, by name."""

    id: UUID
    slug: str
    limits: Mapping[str, PlatformLimit]


SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
MAX_TENANT_NAME = 200
Slug = Annotated[
    str,
    require(
        lambda slug: SLUG.fullmatch(slug) is not None, "must be 1 to 63 of a-z, 0-9 and -, and must not start with -"
    ),
    WithJsonSchema({"type": "string", "pattern": f"^{SLUG.pattern}$"}),
]


def _trim_name(name: str) -> str:
    if not name.strip() or not is_storable(name):
        raise ValueError(f"must have 1 to {MAX_TENANT_NAME} characters, {STORABLE}")
    return name.strip()


@request(schema={"examples": [{"slug": "acme", "name": "Acme"}]})
class NewTenant:
    """A tenant to create."""

    slug: Slug
    """Unique short name: 1 to 63 characters of a-z, 0-9 and -, not starting with -."""
    name: Annotated[str, Field(min_length=1, max_length=MAX_TENANT_NAME), AfterValidator(_trim_name)] | None = None


LONGEST = timedelta(days=3660)
"""The longest validity of a token that this service creates."""


def check_end(expires_at: datetime) -> datetime:
    """Raise ValueError unless a credential can end then."""
    now = datetime.now(UTC)
    if not now < expires_at <= now + 2 * LONGEST:
        raise ValueError("must be a time in the future, at most 20 years from now")
    return expires_at


@request(schema={"examples": [{"token_id": "3f0e7f2e-5d5c-4f57-9a3c-0c5a1f6c7b11"}]})
class NewRevocation:
    """A token to refuse from now on, by its `jti`."""

    token_id: Annotated[
        str,
        Field(min_length=1, max_length=MAX_TOKEN_ID_CHARACTERS),
        require(is_storable, f"must have 1 to {MAX_TOKEN_ID_CHARACTERS} characters, {STORABLE}"),
    ]
    expires_at: Annotated[AwareDatetime, AfterValidator(check_end)] | None = None
    """When the token expires by itself; by default, as late as any token can."""


@dataclass(frozen=True, slots=True)
class RevokedToken:
    """A token that is refused until it expires."""

    token_id: str
    revoked_at: datetime
    expires_at: datetime

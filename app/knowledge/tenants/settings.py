"""Settings of a tenant, which its admin can change, and its limits, stored under its lock."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from typing import Any, get_args

import orjson

from app.contract.search import Weights
from app.contract.vocabulary import MAX_LIMIT, EntryType, Fusion, SuspiciousContent
from app.db.principals import SERVICE
from app.db.queries.knowledge import versions
from app.db.queries.search import feedback
from app.db.queries.tenants import audit
from app.db.queries.tenants import tenants as db
from app.db.session import TenantSession
from app.errors import FieldError, InvalidInput, PreconditionFailed, TenantNotFound

GREATEST = 10**15
"""Within the integers that all JSON parsers represent exactly."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one tenant; 0 means unlimited.

    Attributes:
        requests_per_minute: requests over HTTP and MCP in each instance; a burst can use all of them at once.
        concurrent_searches: simultaneous searches in each instance; further ones wait briefly for their turn.
        entries: stored entries, including chunks.
        bytes: bytes of uploaded files, plus one for each character of entries' text (two for a title's).
        receipts: records of searches; the oldest are removed.
        embedding_tokens_per_day: tokens of texts and queries, with four bytes of text per token; days are in UTC.
    """

    requests_per_minute: int = 0
    concurrent_searches: int = 0
    entries: int = 0
    bytes: int = 0
    receipts: int = 0
    embedding_tokens_per_day: int = 0

    def replaced(self, given: Mapping[str, int]) -> Limits:
        """These limits, overridden by the platform's limits for one tenant."""
        known = {name: value for name, value in given.items() if name in NAMES}
        return Limits(**{**asdict(self), **known})

    def lowered(self, own: Mapping[str, int | None]) -> Limits:
        """These limits, overridden by the tenant's own where those are lower; a tenant cannot raise a limit."""
        lowest = {
            name: min(value, getattr(self, name) or value)
            for name, value in own.items()
            if name in NAMES and value
        }
        return Limits(**{**asdict(self), **lowest})

    def as_mapping(self) -> dict[str, int]:
        """The limits by name."""
        return asdict(self)


NAMES = tuple(f.name for f in fields(Limits))


def check_limits(given: Any, least: int, prefix: str = "limits") -> list[FieldError]:
    """Return what is wrong with given limits; None, which removes a limit, is valid."""
    if not isinstance(given, Mapping):
        return [FieldError(prefix, "must be an object")]
    errors: list[FieldError] = []
    for name, value in given.items():
        if name not in NAMES:
            errors.append(FieldError(f"{prefix}.{name}", f"unknown; allowed are {', '.join(NAMES)}"))
        elif value is not None and (type(value) is not int or not least <= value <= GREATEST):
            errors.append(
                FieldError(f"{prefix}.{name}", f"must be an integer between {least} and {GREATEST}")
            )
    return errors


def require_lower(own: Mapping[str, Any], allowed: Limits) -> None:
    """Raise InvalidInput for a tenant's own limits that exceed the platform's."""
    errors = [
        FieldError(f"limits.{name}", f"must be at most {most}, the platform's limit for this tenant")
        for name, value in own.items()
        if value is not None and 0 < (most := getattr(allowed, name)) < value
    ]
    if errors:
        raise InvalidInput(errors)


TYPE_WEIGHTS: Mapping[str, float] = {"decision": 2.0, "lesson": 2.0, "summary": 0.5, "temp_note": 0.3}
"""Factors of `boost: ["type"]`; all other types have 1.0."""

PAGE_LIMITS = ("default_limit", "max_limit")
MIN_FACTOR, MAX_FACTOR = 0.01, 100
"""Bounds of the weight of an entry type and of the boost of verified entries. A factor of 0 would make all their
scores 0, and so lose their order."""

MAX_PURGE_DAYS = 36_500
MAX_KEPT_DAYS = 3_650
WHOLE_NUMBERS = (
    ("default_limit", 1, MAX_LIMIT),
    ("max_limit", 1, MAX_LIMIT),
    ("purge_expired_after_days", 0, MAX_PURGE_DAYS),
    ("keep_versions_days", 0, MAX_KEPT_DAYS),
)
"""Settings that are integers, with their minimum and maximum."""


@dataclass(frozen=True, slots=True)
class TunedWeights:
    """Weights that the service has found on the tenant's judged queries, and applies while `auto_tune` is on.

    Attributes:
        fusion: the fusion that they are for.
        former: the weights that were in force before.
        queries: number of judged queries.
        gain, low, high: gain in nDCG@10 over `former`, and its 99 % interval.
    """

    fusion: Fusion
    weights: Weights
    former: Weights
    queries: int
    gain: float
    low: float
    high: float

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> TunedWeights:
        """Parse stored values. Raises ValueError, TypeError or KeyError if they are not such."""
        weights, former = (
            Weights(float(given[name]["semantic"]), float(given[name]["keyword"]))
            for name in ("weights", "former")
        )
        if given["fusion"] not in get_args(Fusion):
            raise ValueError("not weights of a fusion")
        numbers = (float(given[name]) for name in ("gain", "low", "high"))
        return cls(given["fusion"], weights, former, int(given["queries"]), *numbers)


@dataclass(frozen=True, slots=True)
class TenantSettings:
    """A tenant's settings; None means the service's default.

    Attributes:
        weights: default weights of the legs.
        auto_tune: whether the service may choose weights by feedback where `weights` is not set.
        tuned: the weights that it has chosen; no caller can set them.
        type_weights: factors of the `type` boost.
        similarity_threshold: minimum cosine of a passage in the semantic leg.
        fusion: default fusion.
        verified_boost: factor of the `verified` boost.
        rerank: whether the reranker orders the first candidates; False forbids it, None: if the service has one.
        keep_query_text: whether receipts of searches contain the query's text.
        default_limit, max_limit: default and largest number of hits per page.
        purge_expired_after_days: days after expiry when entries are removed; None: never.
        keep_versions_days: days for which former versions of entries are kept after they end; 0: none are.
        suspicious_content: what happens to texts with invisible characters, secrets or instructions to language models.
        limits: all fields of `Limits`, None if not set; they apply where they are below the platform's limits.
    """

    weights: Weights | None = None
    type_weights: Mapping[str, float] = field(default_factory=lambda: dict(TYPE_WEIGHTS))
    similarity_threshold: float | None = None
    fusion: Fusion = "score"
    verified_boost: float = 1.5
    rerank: bool | None = None
    keep_query_text: bool = False
    default_limit: int | None = None
    max_limit: int | None = None
    purge_expired_after_days: int | None = None
    keep_versions_days: int = 0
    suspicious_content: SuspiciousContent = "flag"
    limits: Mapping[str, int | None] = field(default_factory=lambda: dict.fromkeys(NAMES))
    auto_tune: bool = True
    tuned: TunedWeights | None = None

    def weights_of(self, fusion: Fusion) -> Weights | None:
        """The tenant's weights for a fusion: those that its admin has set, else those that the service has tuned."""
        if self.weights is not None:
            return self.weights
        tuned = self.tuned if self.auto_tune else None
        return tuned.weights if tuned is not None and tuned.fusion == fusion else None

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> TenantSettings:
        """Parse settings from plain values. Raises InvalidInput with all invalid fields."""
        errors: list[FieldError] = []
        known = {f.name for f in fields(cls)}
        errors += [
            FieldError(name, f"unknown; allowed are {', '.join(sorted(known))}")
            for name in sorted(set(given) - known)
        ]
        values = {name: value for name, value in given.items() if name in known}
        if "weights" in values:
            values["weights"] = _weights(values["weights"], errors)
        if "type_weights" in values:
            values["type_weights"] = {**TYPE_WEIGHTS, **_type_weights(values["type_weights"], errors)}
        for name, low, high in (("similarity_threshold", 0, 1), ("verified_boost", MIN_FACTOR, MAX_FACTOR)):
            if name in values and not _is_number(values[name], low, high):
                errors.append(FieldError(name, f"must be a number between {low} and {high}"))
        if values.get("fusion", "score") not in get_args(Fusion):
            errors.append(FieldError("fusion", "must be rrf or score"))
        if values.get("suspicious_content", "flag") not in get_args(SuspiciousContent):
            errors.append(
                FieldError("suspicious_content", f"must be one of {', '.join(get_args(SuspiciousContent))}")
            )
        for name in ("keep_query_text", "auto_tune"):
            if not isinstance(values.get(name, False), bool):
                errors.append(FieldError(name, "must be true or false"))
        if not isinstance(values.get("rerank"), bool | None):
            errors.append(FieldError("rerank", "must be true or false"))
        if "tuned" in values:
            values["tuned"] = _tuned(values["tuned"], errors)
        for name, least, most in WHOLE_NUMBERS:
            if name in values and (type(values[name]) is not int or not least <= values[name] <= most):
                errors.append(FieldError(name, f"must be an integer between {least} and {most}"))
        if "limits" in values:
            errors += check_limits(values["limits"], least=1)
        if errors:
            raise InvalidInput(errors)
        if "limits" in values:
            values["limits"] = {**dict.fromkeys(NAMES), **values["limits"]}
        return cls(**values)


def version_of(settings: TenantSettings) -> int:
    """A number of at most 18 digits, as the versions of ETags are, from a hash: other settings have another one."""
    written = orjson.dumps(asdict(settings), option=orjson.OPT_SORT_KEYS)
    return int.from_bytes(sha256(written).digest()[:8]) % 10**18


def check_page_limits(changes: Mapping[str, Any], greatest: int) -> None:
    """Raise InvalidInput for changes of `default_limit` and `max_limit` that exceed the service's maximum."""
    errors = [
        FieldError(name, f"must be between 1 and {greatest}, the service's limit")
        for name in PAGE_LIMITS
        if type(value := changes.get(name)) is int and value > greatest
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


def _is_number(value: Any, low: float, high: float) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and low <= value <= high
    )


def _weights(value: Any, errors: list[FieldError]) -> Weights | None:
    if not isinstance(value, Mapping) or set(value) != {"semantic", "keyword"}:
        errors.append(FieldError("weights", "must have semantic and keyword"))
        return None
    if not all(_is_number(v, 0, 1) for v in value.values()):
        errors.append(FieldError("weights", "each weight must be a number between 0 and 1"))
        return None
    try:
        return Weights(float(value["semantic"]), float(value["keyword"]))
    except InvalidInput as error:
        errors += [FieldError("weights", each.message) for each in error.errors]
        return None


def _tuned(value: Any, errors: list[FieldError]) -> TunedWeights | None:
    try:
        return TunedWeights.from_mapping(value)
    except (InvalidInput, ValueError, TypeError, KeyError):
        errors.append(FieldError("tuned", "is set by the service"))
        return None


def _type_weights(value: Any, errors: list[FieldError]) -> dict[str, float]:
    allowed = get_args(EntryType)
    if not isinstance(value, Mapping) or not all(
        k in allowed and _is_number(v, MIN_FACTOR, MAX_FACTOR) for k, v in value.items()
    ):
        errors.append(
            FieldError(
                "type_weights",
                f"must map any of {', '.join(allowed)} to numbers between {MIN_FACTOR} and {MAX_FACTOR}",
            )
        )
        return {}
    return {k: float(v) for k, v in value.items()}


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
    if versions is not None and version_of(TenantSettings.from_mapping(row.settings)) not in versions:
        raise PreconditionFailed("the settings have changed since they were read")


def apply_changes(
    stored: Mapping[str, Any], changes: Mapping[str, Any], *, allowed: Limits, max_limit: int
) -> tuple[Mapping[str, Any], TenantSettings]:
    """Merge changes into stored settings, which stay as they are: the values to store, and the settings they make.

    None resets a setting, and one of the `limits`. `allowed` are the platform's limits, and `max_limit` the service's
    largest number of hits per page. Raises InvalidInput.
    """
    check_page_limits(changes, max_limit)
    if changes.get("tuned") is not None:
        raise InvalidInput.of("tuned", "is set by the service")
    if isinstance(own := changes.get("limits"), dict):
        if not check_limits(own, least=1):
            require_lower(own, allowed)
        changes = {**changes, "limits": {**stored.get("limits", {}), **own}}
    given = _tidy({**stored, **changes})
    settings = TenantSettings.from_mapping(given)
    require_default_within(settings, changes)
    return given, settings


async def store_settings(
    session: TenantSession, row: db.OwnTenant, given: Mapping[str, Any]
) -> tuple[TenantSettings, list[str]]:
    """Replace all settings, without those that are None; return the settings and the names of those that changed."""
    stored = _tidy(given)
    settings = TenantSettings.from_mapping(stored)
    changed = sorted(n for n in row.settings.keys() | stored if row.settings.get(n) != stored.get(n))
    if changed:
        await db.update_settings(session, orjson.dumps(stored).decode())
    if "keep_versions_days" in changed:
        former = row.settings.get("keep_versions_days", 0)
        await versions.keep(session, former, settings.keep_versions_days)
    if row.settings.get("keep_query_text"):
        async with session.acting_as(SERVICE):  # those of all callers
            await feedback.erase_queries(session)
    return settings, changed


async def store_tuned(session: TenantSession, tuned: TunedWeights) -> bool:
    """Apply weights that the service has found, unless the settings on which they depend have changed since.

    Raises TenantNotFound.
    """
    row = await hold_tenant(session)
    settings = TenantSettings.from_mapping(row.settings)
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

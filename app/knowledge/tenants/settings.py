"""Check and store a tenant's settings and limits. A change locks the tenant."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any

import orjson

from app.contract.settings import Limits, SettingsPatch, StoredSettings, TenantSettings, TunedWeights
from app.contract.validation import validate
from app.db.principals import SERVICE
from app.db.queries import audit, feedback, versions
from app.db.queries import tenants as db
from app.db.session import TenantSession
from app.errors import FieldError, InvalidInput, PreconditionFailed, TenantNotFound

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
    written = orjson.dumps(asdict(settings), option=orjson.OPT_SORT_KEYS)
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
            await feedback.erase_queries(session)
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

"""Administration: statistics, settings, audit trail and tokens of the tenant, and the platform's tenants.

The first need the role `tenant_admin`, the tenants `platform_admin`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import partial
from typing import Any, Unpack

from knowledge_client.exchange import Exchange
from knowledge_client.fields import Id, NewModelChange
from knowledge_client.models import (
    ApiKey,
    ApiKeyPage,
    ApiKeyWithSecret,
    AuditPage,
    AuditRecord,
    FeedbackReport,
    ModelChange,
    RevokedToken,
    RevokedTokenPage,
    SearchReceipt,
    Statistics,
    Tenant,
    TenantLimits,
    TenantPage,
    TenantSettings,
    Usage,
)
from knowledge_client.pages import Pages, follow
from knowledge_client.reading import ask, get, path_of, post
from knowledge_client.transport import Request

SETTINGS = "/admin/settings"
KEYS = "/admin/keys"
REEMBED = "/admin/reembed"
TENANTS = "/admin/tenants"


def get_statistics() -> Exchange[Statistics]:
    """Counts of entries and assets, the backlog, the model, the use of limits, and the searches of the last day."""
    return get("/admin/stats", Statistics)


def get_usage(*, first: date | None = None, last: date | None = None) -> Exchange[Usage]:
    """What the tenant used on each day from `first` to `last` (UTC), by default of the last 30 days."""
    return get("/admin/usage", Usage, {"from": first, "to": last})


def get_settings() -> Exchange[TenantSettings]:
    """The tenant's settings, including defaults."""
    return get(SETTINGS, TenantSettings)


def change_settings(changes: Mapping[str, Any]) -> Exchange[TenantSettings]:
    """Change some settings; None restores the service's default. Raises InvalidInput."""
    return ask(Request("PATCH", SETTINGS, json=dict(changes)), TenantSettings)


def list_audit(*, limit: int | None = None, cursor: str | None = None) -> Exchange[AuditPage]:
    """A page of 1 to 200 records (50 by default) of the audit trail, newest first."""
    return get("/admin/audit", AuditPage, {"limit": limit, "cursor": cursor})


def iterate_audit(*, limit: int | None = None) -> Pages[AuditRecord]:
    """The audit trail, newest first, fetched in pages of `limit`."""
    return follow(partial(list_audit, limit=limit))


def get_search_receipt(search_id: Id) -> Exchange[SearchReceipt]:
    """The receipt of a search of the last 24 hours: its settings, and the ranks of every candidate. Raises NotFound."""
    return get(path_of("searches", search_id, root="/admin"), SearchReceipt)


def get_feedback_report() -> Exchange[FeedbackReport]:
    """Searches without results and disliked hits of the last 30 days."""
    return get("/admin/feedback", FeedbackReport)


def revoke_token(token_id: str, *, expires_at: datetime | None = None) -> Exchange[RevokedToken]:
    """Refuse a token of the tenant, which its `jti` names, before it expires. Raises Conflict."""
    body: dict[str, Any] = {"token_id": token_id}
    if expires_at is not None:
        body["expires_at"] = expires_at
    return post("/admin/revoked-tokens", body, RevokedToken)


def list_revoked_tokens(*, limit: int | None = None, cursor: str | None = None) -> Exchange[RevokedTokenPage]:
    """A page of 1 to 200 revoked tokens (50 by default) that have not expired, newest first."""
    return get("/admin/revoked-tokens", RevokedTokenPage, {"limit": limit, "cursor": cursor})


def iterate_revoked_tokens(*, limit: int | None = None) -> Pages[RevokedToken]:
    """All revoked tokens that have not expired, newest first, fetched in pages of `limit`."""
    return follow(partial(list_revoked_tokens, limit=limit))


def create_key(
    name: str, *, role: str, groups: Sequence[str] = (), expires_at: datetime | None = None
) -> Exchange[ApiKeyWithSecret]:
    """Create an API key; only this answer has it. Raises Conflict for a name in use; it is sent once."""
    body: dict[str, Any] = {"name": name, "role": role, "groups": list(groups)}
    if expires_at is not None:
        body["expires_at"] = expires_at
    return ask(Request("POST", KEYS, json=body, repeatable=False), ApiKeyWithSecret)


def list_keys(*, limit: int | None = None, cursor: str | None = None) -> Exchange[ApiKeyPage]:
    """A page of 1 to 200 API keys (50 by default) with their last use, newest first."""
    return get(KEYS, ApiKeyPage, {"limit": limit, "cursor": cursor})


def iterate_keys(*, limit: int | None = None) -> Pages[ApiKey]:
    """All API keys, newest first, fetched in pages of `limit`."""
    return follow(partial(list_keys, limit=limit))


def revoke_key(key_id: Id) -> Exchange[None]:
    """Refuse an API key from now on. Raises NotFound."""
    yield Request("DELETE", path_of("keys", key_id, root="/admin"))


def start_model_change(**wanted: Unpack[NewModelChange]) -> Exchange[ModelChange]:
    """Move to another embedding model, or rebuild the vectors of the model in use by naming it. Raises Conflict."""
    return post(REEMBED, wanted, ModelChange)


def get_model_change() -> Exchange[ModelChange]:
    """The progress of the model change. Raises NotFound if there is none."""
    return get(REEMBED, ModelChange)


def switch_model(*, back: bool = False) -> Exchange[ModelChange]:
    """Use the new model for searches, or the old one again. Raises NotFound and Conflict."""
    return ask(Request("POST", f"{REEMBED}/switch{'-back' if back else ''}"), ModelChange)


def end_model_change() -> Exchange[None]:
    """Keep the model in use, and remove the vectors of the other one. Raises NotFound."""
    yield Request("DELETE", REEMBED)


def create_tenant(slug: str, *, name: str | None = None) -> Exchange[Tenant]:
    """Create a tenant. Raises Conflict if the slug is in use; it is sent once, so that a repetition is noticed."""
    body = {"slug": slug} if name is None else {"slug": slug, "name": name}
    return ask(Request("POST", TENANTS, json=body, repeatable=False), Tenant)


def list_tenants(*, limit: int | None = None, cursor: str | None = None) -> Exchange[TenantPage]:
    """A page of 1 to 200 tenants (50 by default), oldest first."""
    return get(TENANTS, TenantPage, {"limit": limit, "cursor": cursor})


def iterate_tenants(*, limit: int | None = None) -> Pages[Tenant]:
    """All tenants, oldest first, fetched in pages of `limit`."""
    return follow(partial(list_tenants, limit=limit))


def change_tenant_limits(tenant_id: Id, limits: Mapping[str, int | None]) -> Exchange[TenantLimits]:
    """Set limits of a tenant: 0 means unlimited, None restores the default. Raises NotFound."""
    path = path_of("tenants", tenant_id, root="/admin")
    return ask(Request("PATCH", path, json={"limits": dict(limits)}), TenantLimits)


def delete_tenant(tenant_id: Id) -> Exchange[None]:
    """Delete a tenant with all its data. Raises NotFound."""
    yield Request("DELETE", path_of("tenants", tenant_id, root="/admin"))

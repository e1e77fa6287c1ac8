"""Every page of the console and the roles that may open it."""

from uuid import uuid4

from app.auth.principal import Role

READ = frozenset({Role.READER, Role.CREATOR, Role.TENANT_ADMIN})
WRITE = frozenset({Role.CREATOR, Role.TENANT_ADMIN})
ADMINISTER = frozenset({Role.TENANT_ADMIN})
PLATFORM = frozenset({Role.PLATFORM_ADMIN})
PAGES: dict[str, frozenset[Role]] = {
    "GET /console": READ,
    "POST /console": READ,
    "POST /console/feedback": READ,
    "GET /console/why-not": READ,
    "POST /console/why-not": READ,
    "GET /console/related/{entry_id}": READ,
    "GET /console/compare": READ,
    "POST /console/compare": READ,
    "GET /console/entries": READ,
    "GET /console/entries/{entry_id}": READ,
    "GET /console/entries/{entry_id}/versions": READ,
    "GET /console/entries/new": WRITE,
    "POST /console/entries": WRITE,
    "GET /console/entries/{entry_id}/edit": WRITE,
    "POST /console/entries/{entry_id}/edit": WRITE,
    "GET /console/entries/{entry_id}/delete": WRITE,
    "POST /console/entries/{entry_id}/delete": WRITE,
    "POST /console/entries/{entry_id}/release": ADMINISTER,
    "GET /console/assets": READ,
    "POST /console/assets": WRITE,
    "GET /console/assets/progress": READ,
    "GET /console/assets/{asset_id}": READ,
    "GET /console/assets/{asset_id}/chunks": READ,
    "GET /console/assets/{asset_id}/versions": READ,
    "GET /console/assets/{asset_id}/content": READ,
    "GET /console/assets/{asset_id}/edit": WRITE,
    "POST /console/assets/{asset_id}/edit": WRITE,
    "POST /console/assets/{asset_id}/retry": WRITE,
    "GET /console/assets/{asset_id}/delete": WRITE,
    "POST /console/assets/{asset_id}/delete": WRITE,
    "GET /console/saved-searches": READ,
    "POST /console/saved-searches": READ,
    "GET /console/saved-searches/{saved_search_id}/run": READ,
    "GET /console/saved-searches/{saved_search_id}/delete": READ,
    "POST /console/saved-searches/{saved_search_id}/delete": READ,
    "POST /console/saved-searches/{saved_search_id}/subscription/confirmation": READ,
    "GET /console/health": ADMINISTER,
    "GET /console/settings": ADMINISTER,
    "POST /console/settings": ADMINISTER,
    "POST /console/settings/preview": ADMINISTER,
    "GET /console/receipts": ADMINISTER,
    "GET /console/receipts/{search_id}": ADMINISTER,
    "POST /console/receipts/{search_id}/replay": ADMINISTER,
    "GET /console/usage": ADMINISTER,
    "GET /console/usage/days.csv": ADMINISTER,
    "GET /console/quarantine": ADMINISTER,
    "POST /console/quarantine/release": ADMINISTER,
    "GET /console/erasures": ADMINISTER,
    "GET /console/erasures/{erasure_id}": ADMINISTER,
    "GET /console/feedback": ADMINISTER,
    "GET /console/sources": ADMINISTER,
    "GET /console/sources/{name}": ADMINISTER,
    "GET /console/access": ADMINISTER,
    "GET /console/access/entries/{entry_id}": ADMINISTER,
    "GET /console/access/assets/{asset_id}": ADMINISTER,
    "GET /console/access/sources/{name}": ADMINISTER,
    "GET /console/access/subject": ADMINISTER,
    "GET /console/keys": ADMINISTER,
    "POST /console/keys": ADMINISTER,
    "POST /console/keys/{key_id}/revoke": ADMINISTER,
    "GET /console/access/change": ADMINISTER,
    "POST /console/access/change": ADMINISTER,
    "POST /console/everything": ADMINISTER,
    "GET /console/audit": ADMINISTER,
    "GET /console/model": ADMINISTER,
    "POST /console/model": ADMINISTER,
    "GET /console/platform": PLATFORM,
    "POST /console/platform/tenants": PLATFORM,
}
OPEN = {
    "GET /console/sign-in",
    "GET /console/sign-in/callback",
    "GET /console/sign-in/once",
    "GET /console/sign-in/provider",
    "POST /console/sign-in",
    "POST /console/sign-out",
}
IDS = ("entry_id", "asset_id", "saved_search_id", "key_id", "search_id", "erasure_id", "name")


def path_of(page: str, ids: dict[str, str] | None = None) -> tuple[str, str]:
    """Method and path, with unknown ids or the given ones."""
    method, path = page.split(" ")
    return method, path.format(**{name: str(uuid4()) for name in IDS} | (ids or {}))

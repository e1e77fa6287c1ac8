"""Every endpoint of the API: its roles, a request, and the expected status."""

from typing import Any
from uuid import uuid4

from app.auth.principal import Role
from tests.fixtures.http.callers import Caller

READ = frozenset({Role.READER, Role.CREATOR, Role.TENANT_ADMIN})
WRITE = frozenset({Role.CREATOR, Role.TENANT_ADMIN})
ADMINISTER = frozenset({Role.TENANT_ADMIN})
PLATFORM = frozenset({Role.PLATFORM_ADMIN})
UNKNOWN = str(uuid4())
# Each endpoint: who may call it, a request, and the status for permitted callers.
TABLE: dict[str, tuple[frozenset[Role], dict[str, Any], int]] = {
    "POST /knowledge/search": (READ, {"json": {"query": "word"}}, 200),
    "POST /knowledge/search/why-not": (READ, {"json": {"entry_id": UNKNOWN, "request": {"query": "word"}}}, 200),
    "POST /knowledge/search/batch": (READ, {"json": {"searches": [{"query": "word"}]}}, 200),
    "POST /knowledge/entries": (WRITE, {"json": {"content": "the entry"}}, 200),
    "POST /knowledge/entries/bulk": (WRITE, {"json": {"entries": [{"content": "the entry"}]}}, 200),
    "GET /knowledge/entries": (READ, {}, 200),
    "GET /knowledge/entries/{entry_id}": (READ, {}, 200),
    "PATCH /knowledge/entries/{entry_id}": (WRITE, {"json": {"title": "T"}}, 200),
    "DELETE /knowledge/entries/{entry_id}": (WRITE, {}, 204),
    "GET /knowledge/entries/{entry_id}/related": (READ, {}, 200),
    "GET /knowledge/entries/{entry_id}/versions": (READ, {}, 200),
    "GET /knowledge/assets/{asset_id}/versions": (READ, {}, 200),
    "GET /knowledge/tags": (READ, {}, 200),
    "POST /knowledge/assets": (WRITE, {"files": {"file": ("a.txt", b"the asset", "text/plain")}}, 200),
    "GET /knowledge/assets": (READ, {}, 200),
    "GET /knowledge/assets/{asset_id}": (READ, {}, 200),
    "GET /knowledge/assets/{asset_id}/text": (READ, {}, 409),
    "GET /knowledge/assets/{asset_id}/content": (READ, {}, 200),
    "PATCH /knowledge/assets/{asset_id}": (WRITE, {"json": {"tags": ["new"]}}, 200),
    "POST /knowledge/assets/{asset_id}/retry": (WRITE, {}, 409),
    "DELETE /knowledge/assets/{asset_id}": (WRITE, {}, 204),
    "PUT /knowledge/sources/{name}": (WRITE, {"json": {"items": []}}, 200),
    "GET /knowledge/sources": (READ, {}, 200),
    "GET /knowledge/sources/{name}": (READ, {}, 200),
    "GET /knowledge/sources/{name}/items": (READ, {}, 200),
    "DELETE /knowledge/sources/{name}": (WRITE, {}, 204),
    "POST /knowledge/saved-searches": (READ, {"json": {"name": "N", "request": {"query": "word"}}}, 200),
    "GET /knowledge/saved-searches": (READ, {}, 200),
    "GET /knowledge/saved-searches/{saved_search_id}": (READ, {}, 200),
    "POST /knowledge/saved-searches/{saved_search_id}/run": (READ, {}, 200),
    "POST /knowledge/saved-searches/{saved_search_id}/subscription": (
        READ,
        {"json": {"url": "https://example.com/hook"}},
        200,
    ),
    "GET /knowledge/saved-searches/{saved_search_id}/subscription": (READ, {}, 200),
    "POST /knowledge/saved-searches/{saved_search_id}/subscription/confirmation": (READ, {}, 202),
    "DELETE /knowledge/saved-searches/{saved_search_id}/subscription": (READ, {}, 204),
    "DELETE /knowledge/saved-searches/{saved_search_id}": (READ, {}, 204),
    "POST /knowledge/feedback": (READ, {"json": {"search_id": UNKNOWN, "entry_id": UNKNOWN, "relevant": True}}, 404),
    "PATCH /knowledge/access": (WRITE, {"json": {"where": {"tags": ["x"]}, "readers": {"set": None}}}, 200),
    "GET /admin/access/entries/{entry_id}": (ADMINISTER, {}, 200),
    "GET /admin/access/assets/{asset_id}": (ADMINISTER, {}, 200),
    "GET /admin/access/sources/{name}": (ADMINISTER, {}, 200),
    "GET /admin/access/subject": (ADMINISTER, {"params": {"subject": "jane"}}, 200),
    "GET /admin/feedback": (ADMINISTER, {}, 200),
    "GET /admin/subscriptions": (ADMINISTER, {}, 200),
    "DELETE /admin/subscriptions/{saved_search_id}": (ADMINISTER, {}, 204),
    "GET /admin/stats": (ADMINISTER, {}, 200),
    "GET /admin/usage": (ADMINISTER, {}, 200),
    "GET /admin/callers": (ADMINISTER, {}, 200),
    "GET /admin/settings": (ADMINISTER, {}, 200),
    "PATCH /admin/settings": (ADMINISTER, {"json": {"fusion": "rrf"}}, 200),
    "GET /admin/audit": (ADMINISTER, {}, 200),
    "GET /admin/quarantine": (ADMINISTER, {}, 200),
    "POST /admin/quarantine/release": (ADMINISTER, {"json": {"entry_ids": [UNKNOWN]}}, 200),
    "GET /admin/searches": (ADMINISTER, {}, 200),
    "GET /admin/searches/{search_id}": (ADMINISTER, {}, 404),
    "POST /admin/erasures": (ADMINISTER, {"json": {"subject": "nobody"}}, 201),
    "GET /admin/erasures": (ADMINISTER, {}, 200),
    "GET /admin/erasures/{erasure_id}": (ADMINISTER, {}, 404),
    "POST /admin/searches/{search_id}/replay": (ADMINISTER, {"json": {}}, 404),
    "POST /admin/reembed": (ADMINISTER, {"json": {"model": "unheard-of"}}, 422),
    "GET /admin/reembed": (ADMINISTER, {}, 404),
    "POST /admin/reembed/switch": (ADMINISTER, {}, 404),
    "POST /admin/reembed/switch-back": (ADMINISTER, {}, 404),
    "DELETE /admin/reembed": (ADMINISTER, {}, 404),
    "POST /admin/revoked-tokens": (ADMINISTER, {"json": {"token_id": "unheard-of"}}, 200),
    "GET /admin/revoked-tokens": (ADMINISTER, {}, 200),
    "POST /admin/keys": (ADMINISTER, {"json": {"name": "import", "role": "reader"}}, 201),
    "GET /admin/keys": (ADMINISTER, {}, 200),
    "DELETE /admin/keys/{key_id}": (ADMINISTER, {}, 404),
    "POST /admin/platform/revoked-tokens": (PLATFORM, {"json": {"token_id": "unheard-of"}}, 200),
    "GET /admin/platform/revoked-tokens": (PLATFORM, {}, 200),
    "GET /admin/tenants": (PLATFORM, {}, 200),
    "POST /admin/tenants": (PLATFORM, {"json": {"slug": "Not A Slug"}}, 422),
    "PATCH /admin/tenants/{tenant_id}": (PLATFORM, {"json": {"limits": {}}}, 404),
    "GET /admin/tenants/{tenant_id}/usage": (PLATFORM, {}, 404),
    "DELETE /admin/tenants/{tenant_id}": (PLATFORM, {}, 404),
}
OPEN = {"GET /healthz", "GET /readyz"}
# Outside the API: callers on this machine, browsers, and agents, whose tools have tests of their own.
UNDESCRIBED = {
    "GET /metrics",
    "GET /docs",
    "GET /problems",
    "GET /problems/{name}",
    "GET /openapi.json",
    "ANY /mcp",
    "GET /.well-known/oauth-protected-resource",
    "GET /.well-known/oauth-protected-resource/mcp",
    "HEAD /.well-known/oauth-protected-resource",
    "HEAD /.well-known/oauth-protected-resource/mcp",
}


async def save_search(caller: Caller) -> str:
    """The id of a saved search of the caller that has a subscription."""
    answer = await caller.post("/knowledge/saved-searches", {"name": "N", "request": {"query": "word"}})
    saved = str(answer.json()["id"])
    await caller.post(f"/knowledge/saved-searches/{saved}/subscription", {"url": "https://example.com/hook"})
    return saved

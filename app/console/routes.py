"""The routes of all pages."""

from app.console.pages import (
    access,
    assets,
    audit,
    entries,
    erasures,
    health,
    keys,
    platform,
    receipts,
    saved_searches,
    searching,
    settings,
    signing_in,
    sources,
)

ROUTERS = (
    signing_in.router,
    searching.router,
    entries.writers,
    entries.admins,
    entries.readers,
    assets.writers,
    assets.readers,
    saved_searches.router,
    health.router,
    settings.router,
    sources.router,
    access.router,
    receipts.router,
    erasures.router,
    audit.router,
    keys.router,
    platform.router,
)
ROUTES = [route for router in ROUTERS for route in router.routes]
"""All pages, in the order in which a path is looked up."""

"""The routes of the API, as part of the service or as an application of their own."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, cast

from fastapi import FastAPI

from app.api import access, administration, assets, entries, operations, saved_searches, search, sources
from app.auth.tokens import TokenVerifier
from app.web.access import Parts
from app.web.layer import HttpLayer
from app.web.problems import install_handlers

if TYPE_CHECKING:
    from app.composition.platform import Platform
    from app.composition.services import Services


def install_routes(app: FastAPI) -> None:
    """Add all routes of the API."""
    for router in (
        search.router,
        entries.readers,
        entries.writers,
        assets.reading,
        assets.writers,
        sources.readers,
        sources.writers,
        entries.tags_router,
        saved_searches.router,
        search.feedback_router,
        saved_searches.admin_router,
        search.feedback_report_router,
        administration.tenant_admins,
        access.writers,
        access.tenant_admins,
        search.receipts_router,
        administration.erasures_router,
        administration.quarantine_router,
        administration.platform_admins,
        administration.platform_revocations,
        operations.router,
        operations.problem_router,
    ):
        # `include_router` would build each route and its validators again, for each application.
        app.router.routes += router.routes


def create_private_api(services: Services | Platform, *, max_upload_bytes: int) -> FastAPI:
    """The API for commands of this process, which `app.web.insiders` lets in; no token is accepted.

    Over a Platform, only the paths that need no embedding model work.
    """
    app = FastAPI(redirect_slashes=False, docs_url=None, redoc_url=None)
    install_routes(app)
    install_handlers(app)
    app.add_middleware(HttpLayer, max_upload_bytes=max_upload_bytes)
    app.state.parts = Parts(cast("Services", services), TokenVerifier(secret=secrets.token_hex(32)))
    return app

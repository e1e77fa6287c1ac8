"""Counts of all tenants, for platform admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Query, Request, Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Principal, Role
from app.composition.services import Services
from app.console.forms import errors_at
from app.console.rendering import render
from app.console.session import PLATFORM, console_router
from app.contract.administration import NewTenant
from app.errors import Conflict, FieldError, InvalidInput
from app.web.access import CurrentPrincipal, CurrentServices

router = console_router(Role.PLATFORM_ADMIN)


@router.get("/platform")
async def show_tenants(
    request: Request,
    principal: CurrentPrincipal,
    services: CurrentServices,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    created: str = "",
) -> Response:
    """Show a page of tenants, oldest first, and a form for a new one."""
    return await _show_page(request, principal, services, page, created=created)


@router.post("/platform/tenants")
async def create_tenant(
    request: Request,
    principal: CurrentPrincipal,
    services: CurrentServices,
    slug: Annotated[str, Form()] = "",
    name: Annotated[str, Form()] = "",
) -> Response:
    """Create a tenant."""
    try:
        tenant = await services.tenants.create(NewTenant(slug.strip(), name.strip() or None), actor=principal.subject)
    except (InvalidInput, Conflict) as error:
        errors = error.errors if isinstance(error, InvalidInput) else (FieldError("slug", str(error)),)
        status = 422 if isinstance(error, InvalidInput) else 409
        texts = {"slug": slug, "name": name}
        return await _show_page(request, principal, services, 1, texts=texts, errors=errors_at(errors), status=status)
    return RedirectResponse(f"{PLATFORM}?created={tenant.slug}", 303)


async def _show_page(
    request: Request,
    principal: Principal,
    services: Services,
    number: int,
    *,
    created: str = "",
    texts: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    page = await services.platform.tenants(number, reader=principal.subject)
    return render(
        request,
        "pages/platform.html",
        status=status,
        page=page,
        created=created,
        texts=texts or {"slug": "", "name": ""},
        errors=errors or {},
    )

"""Counts of all tenants, for platform admins."""

from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Principal, Role
from app.composition.services import Services
from app.console.forms import Form, read_texts, refusal_at, show_form
from app.console.rendering import render
from app.console.session import PLATFORM, console_router
from app.contract.administration import NewTenant
from app.contract.validation import validate
from app.errors import Conflict, InvalidInput
from app.web.access import CurrentPrincipal, CurrentServices

router = console_router(Role.PLATFORM_ADMIN)

BLANK = show_form(NewTenant, {})


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
async def create_tenant(request: Request, principal: CurrentPrincipal, services: CurrentServices) -> Response:
    """Create a tenant."""
    form = BLANK.fill(await read_texts(request))
    try:
        new = validate(NewTenant, {"slug": form.text("slug").strip()} | form.changes(BLANK))
        tenant = await services.tenants.create(new, actor=principal.subject)
    except (InvalidInput, Conflict) as error:
        errors, status = refusal_at(error, form, "slug")
        return await _show_page(request, principal, services, 1, form=form, errors=errors, status=status)
    return RedirectResponse(f"{PLATFORM}?created={tenant.slug}", 303)


async def _show_page(
    request: Request,
    principal: Principal,
    services: Services,
    number: int,
    *,
    created: str = "",
    form: Form = BLANK,
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    page = await services.platform.tenants(number, reader=principal.subject)
    return render(
        request, "pages/platform.html", status=status, page=page, created=created, form=form, errors=errors or {}
    )

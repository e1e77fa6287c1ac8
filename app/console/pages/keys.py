"""The API keys of a tenant, for its admins."""

from uuid import UUID

from fastapi import Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Role
from app.console.forms import Form, read_texts, refusal_at, show_form
from app.console.rendering import PAGE_SIZE, CurrentVisit, Visit, page_links
from app.console.session import console_router
from app.contract.keys import ApiKeyWithSecret, NewKey
from app.contract.validation import validate
from app.errors import Conflict, InvalidInput
from app.web.rendering import PageCursor

router = console_router(Role.TENANT_ADMIN)

LIST = "/console/keys"

BLANK = show_form(NewKey, {"role": "reader"})


@router.get("/keys")
async def show_keys(visit: CurrentVisit, cursor: PageCursor = "", done: str = "") -> Response:
    """Show the keys, newest first, and a form for a new one."""
    return await _show(visit, cursor=cursor, done=done)


@router.post("/keys")
async def create_key(visit: CurrentVisit) -> Response:
    """Create a key, and show it this once: its page cannot be opened again."""
    form = BLANK.fill(await read_texts(visit.request))
    try:
        new = validate(NewKey, {"name": form.text("name"), "role": form.text("role")} | form.changes(BLANK))
        made = await visit.services.keys.create(visit.tenant_id, new, actor=visit.subject)
    except (InvalidInput, Conflict) as error:
        errors, status = refusal_at(error, form, "name")
        return await _show(visit, form=form, errors=errors, status=status)
    return await _show(visit, made=made)


@router.post("/keys/{key_id}/revoke")
async def revoke_key(visit: CurrentVisit, key_id: UUID) -> Response:
    """Revoke a key."""
    await visit.services.keys.revoke(visit.tenant_id, key_id, actor=visit.subject)
    return RedirectResponse(f"{LIST}?done=revoked", 303)


async def _show(
    visit: Visit,
    *,
    cursor: str = "",
    done: str = "",
    form: Form = BLANK,
    errors: dict[str, str] | None = None,
    made: ApiKeyWithSecret | None = None,
    status: int = 200,
) -> Response:
    page = await visit.services.keys.list_keys(
        visit.tenant_id, limit=PAGE_SIZE, cursor=cursor or None, reader=visit.subject
    )
    return visit.render(
        "pages/admin/keys.html",
        status=status,
        page=page,
        form=form,
        errors=errors or {},
        made=made,
        is_revoked=done == "revoked",
        links=page_links(LIST, page, cursor, {}),
    )

"""The model change of a tenant, for its admins: its progress, comparison and decision, and what can be done."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Form, Request, Response
from fastapi.responses import RedirectResponse

from app.auth.principal import Role
from app.console.rendering import render
from app.console.session import console_router
from app.errors import ModelChangeNotFound
from app.knowledge.reembedding.account import explain_change
from app.web.access import CurrentCaller, CurrentServices

router = console_router(Role.TENANT_ADMIN)

PAGE = "/console/model"

Action = Literal["start", "rebuild", "switch", "back", "end"]


@router.get("/model")
async def show_model_change(request: Request, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Show the model change in progress, or forms to start one."""
    try:
        change = await services.reembedding.status(caller.tenant_id, reader=caller.subject)
    except ModelChangeNotFound:
        change = None
    model = (await services.tenants.context(caller.tenant_id)).model
    lines = [] if change is None else explain_change(change)
    return render(request, "pages/admin/model.html", change=change, model=model, lines=lines)


@router.post("/model")
async def act_on_model_change(
    caller: CurrentCaller, services: CurrentServices, action: Annotated[Action, Form()]
) -> Response:
    """Start, switch or end a model change, or start a rebuild."""
    service, tenant_id, actor = services.reembedding, caller.tenant_id, caller.subject
    match action:
        case "start":
            await service.start(tenant_id, actor=actor)
        case "rebuild":
            await service.rebuild(tenant_id, actor=actor)
        case "switch" | "back":
            await service.switch(tenant_id, back=action == "back", actor=actor)
        case "end":
            await service.end(tenant_id, actor=actor)
    return RedirectResponse(PAGE, 303)

"""The settings of a tenant: a change is previewed on recent queries, and saved in a second step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import FormData

from app.auth.principal import Role
from app.console.parts.admin import LABELS, Changed, SettingsForm, errors_by_name
from app.console.parts.forms import read_texts, read_version
from app.console.parts.search.comparison import SideBySide, compare
from app.console.rendering import render
from app.console.session import console_router
from app.contract.fields import MAX_QUERY_LENGTH
from app.contract.settings import TenantSettings
from app.contract.vocabulary import Fusion, SuspiciousContent
from app.errors import InvalidInput, PreconditionFailed
from app.knowledge.administration.replay import QUERIES, SettingsPreview
from app.knowledge.tenants.settings import version_of
from app.web.access import CurrentCaller, CurrentServices

router = console_router(Role.TENANT_ADMIN)

PAGE = "/console/settings"
SIDES = ("the present order", "the new order")
SHOWN = 5
"""First hits of a query that a preview shows."""


@dataclass(frozen=True, slots=True)
class ShownPreview:
    """A preview for its page: the changed fields, and each query with its hits before and after."""

    preview: SettingsPreview
    changed: Sequence[Changed]
    queries: Sequence[tuple[str, SideBySide]]

    @property
    def summary(self) -> str:
        """What the change does to the queries, in a sentence."""
        if not self.preview.ranks:
            return "These settings do not change which results a search finds, or their order."
        if not self.queries:
            return "No query was compared."
        differing = sum(bool(sides.moved) for _, sides in self.queries)
        moved = sum(sides.moved for _, sides in self.queries)
        if not differing:
            return f"The first results of all {len(self.queries)} queries stay the same."
        return f"{differing} of {len(self.queries)} queries change; {moved} results move, come or go."


@router.get("/settings")
async def show_settings(request: Request, caller: CurrentCaller, services: CurrentServices, done: str = "") -> Response:
    """Show the tenant's settings."""
    stored = await services.tenants.read_settings(caller.tenant_id, reader=caller.subject)
    return _show(request, SettingsForm.of_settings(stored), stored, is_saved=done == "saved")


@router.post("/settings/preview")
async def preview_settings(request: Request, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Show what a change would do to recent queries; nothing is saved."""
    sent = await read_texts(request)
    form, version = SettingsForm.read(sent), read_version(sent.get("version"), "the settings")
    stored = await services.tenants.read_settings(caller.tenant_id)
    queries = _read_queries(sent)
    if version != version_of(stored):
        return _show(request, form, stored, queries=queries, is_stale=True, status=412)
    try:
        changes = form.changes(stored)
        preview = await services.previews.preview(
            caller.tenant_id, changes, queries=queries.split("\n") if queries else (), reader=caller.subject
        )
    except InvalidInput as error:
        return _show(request, form, stored, queries=queries, errors=errors_by_name(error.errors), status=422)
    shown = ShownPreview(
        preview,
        form.differences(stored),
        [(found.query, compare((found.before, found.after), SIDES)) for found in preview.queries],
    )
    return _show(request, form, stored, queries=queries, preview=shown)


@router.post("/settings")
async def save_settings(request: Request, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Save a previewed change, unless the settings have changed since the form was shown."""
    sent = await read_texts(request)
    form, version = SettingsForm.read(sent), read_version(sent.get("version"), "the settings")
    stored = await services.tenants.read_settings(caller.tenant_id)
    try:
        await services.tenants.change_settings(
            caller.tenant_id, form.changes(stored), if_version={version}, actor=caller.subject
        )
    except InvalidInput as error:
        return _show(request, form, stored, errors=errors_by_name(error.errors), status=422)
    except PreconditionFailed:
        services.tenants.forget(caller.tenant_id)
        stored = await services.tenants.read_settings(caller.tenant_id)
        return _show(request, form, stored, is_stale=True, status=412)
    return RedirectResponse(f"{PAGE}?done=saved", 303)


def _read_queries(form: FormData) -> str:
    """The queries to try, one a line, at most QUERIES."""
    text = form.get("queries")
    lines = text.splitlines() if isinstance(text, str) else []
    kept = [line.strip()[:MAX_QUERY_LENGTH] for line in lines if line.strip() and "\x00" not in line]
    return "\n".join(kept[:QUERIES])


def _show(
    request: Request,
    form: SettingsForm,
    stored: TenantSettings,
    *,
    queries: str = "",
    preview: ShownPreview | None = None,
    errors: Mapping[str, str] | None = None,
    is_stale: bool = False,
    is_saved: bool = False,
    status: int = 200,
) -> Response:
    return render(
        request,
        "pages/admin/settings.html",
        status=status,
        form=form,
        stored=stored,
        version=version_of(stored),
        queries=queries,
        preview=preview,
        errors=errors or {},
        is_stale=is_stale,
        is_saved=is_saved,
        changed=form.differences(stored) if is_stale else (),
        labels=LABELS,
        fusions=get_args(Fusion),
        treatments=get_args(SuspiciousContent),
        most_queries=QUERIES,
        shown=SHOWN,
    )

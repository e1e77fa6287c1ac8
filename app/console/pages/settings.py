"""The settings of a tenant: a change is previewed on recent queries, and saved in a second step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from fastapi import Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import FormData

from app.auth.principal import Role
from app.console.comparison import SideBySide, compare
from app.console.forms import Form, errors_at, read_texts, read_version, show_form
from app.console.rendering import CurrentVisit, Visit
from app.console.session import console_router
from app.contract.fields import MAX_QUERY_LENGTH
from app.contract.settings import TYPE_WEIGHTS, SettingsPatch, TenantSettings
from app.contract.validation import validate
from app.contract.vocabulary import EntryType
from app.errors import InvalidInput, PreconditionFailed
from app.knowledge.administration.service import QUERIES, SettingsPreview
from app.knowledge.tenants.directory import version_of

router = console_router(Role.TENANT_ADMIN)

PAGE = "/console/settings"
SIDES = ("the present order", "the new order")
SHOWN = 5
"""First hits of a query that a preview shows."""


EMPTY = "default"
"""Shown for a field without a text: the service's default applies."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A field that differs, as shown to people."""

    label: str
    before: str
    after: str


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
async def show_settings(visit: CurrentVisit, done: str = "") -> Response:
    """Show the tenant's settings."""
    stored = await visit.services.tenants.read_settings(visit.tenant_id, reader=visit.subject)
    return _show(visit, form_of(stored), stored, is_saved=done == "saved")


@router.post("/settings/preview")
async def preview_settings(visit: CurrentVisit) -> Response:
    """Show what a change would do to recent queries; nothing is saved."""
    sent = await read_texts(visit.request)
    version = read_version(sent.get("version"), "the settings")
    stored = await visit.services.tenants.read_settings(visit.tenant_id)
    form = form_of(stored).fill(sent)
    queries = _read_queries(sent)
    if version != version_of(stored):
        return _show(visit, form, stored, queries=queries, is_stale=True, status=412)
    try:
        changes = read_changes(form, stored)
        preview = await visit.services.replays.preview(
            visit.tenant_id, changes, queries=queries.split("\n") if queries else (), reader=visit.subject
        )
    except InvalidInput as error:
        return _show(visit, form, stored, queries=queries, errors=errors_at(error.errors, form), status=422)
    shown = ShownPreview(
        preview,
        _list_changes(form, stored),
        [(found.query, compare((found.before, found.after), SIDES)) for found in preview.queries],
    )
    return _show(visit, form, stored, queries=queries, preview=shown)


@router.post("/settings")
async def save_settings(visit: CurrentVisit) -> Response:
    """Save a previewed change, unless the settings have changed since the form was shown."""
    sent = await read_texts(visit.request)
    version = read_version(sent.get("version"), "the settings")
    stored = await visit.services.tenants.read_settings(visit.tenant_id)
    form = form_of(stored).fill(sent)
    try:
        await visit.services.tenants.change_settings(
            visit.tenant_id, read_changes(form, stored), if_version={version}, actor=visit.subject
        )
    except InvalidInput as error:
        return _show(visit, form, stored, errors=errors_at(error.errors, form), status=422)
    except PreconditionFailed:
        visit.services.tenants.forget(visit.tenant_id)
        stored = await visit.services.tenants.read_settings(visit.tenant_id)
        return _show(visit, form, stored, is_stale=True, status=412)
    return RedirectResponse(f"{PAGE}?done=saved", 303)


def form_of(settings: TenantSettings) -> Form:
    """The form of stored settings."""
    weights = dict.fromkeys(get_args(EntryType), 1.0) | dict(settings.type_weights)
    return show_form(SettingsPatch, replace(settings, type_weights=weights))


def read_changes(form: Form, stored: TenantSettings) -> SettingsPatch:
    """The changes to the stored settings; null resets one. Raises InvalidInput."""
    given = form.changes(form_of(stored))
    if weights := given.get("type_weights"):
        given["type_weights"] = {n: w for n, w in weights.items() if w != TYPE_WEIGHTS.get(n, 1.0)} or None
    return validate(SettingsPatch, given)


def _list_changes(form: Form, stored: TenantSettings) -> Sequence[Changed]:
    """The fields that differ from the stored settings."""
    shown = form_of(stored)
    return [
        Changed(each.label, each.say(shown.values[each.name]) or EMPTY, each.say(form.values[each.name]) or EMPTY)
        for each in map(form.inputs.__getitem__, form.changed(shown))
    ]


def _read_queries(form: FormData) -> str:
    """The queries to try, one a line, at most QUERIES."""
    text = form.get("queries")
    lines = text.splitlines() if isinstance(text, str) else []
    kept = [line.strip()[:MAX_QUERY_LENGTH] for line in lines if line.strip() and "\x00" not in line]
    return "\n".join(kept[:QUERIES])


def _show(
    visit: Visit,
    form: Form,
    stored: TenantSettings,
    *,
    queries: str = "",
    preview: ShownPreview | None = None,
    errors: Mapping[str, str] | None = None,
    is_stale: bool = False,
    is_saved: bool = False,
    status: int = 200,
) -> Response:
    return visit.render(
        "pages/admin/settings.html",
        status=status,
        form=form,
        stored=stored,
        version=version_of(stored),
        queries=queries,
        preview=preview,
        errors=errors or {},
        differing=form.changed(form_of(stored)),
        is_stale=is_stale,
        is_saved=is_saved,
        changed=_list_changes(form, stored) if is_stale else (),
        most_queries=QUERIES,
        shown=SHOWN,
    )

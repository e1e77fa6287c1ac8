"""Documents: upload with progress, status, and the text with its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, get_args
from uuid import UUID

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import FormData

from app.auth.principal import Role
from app.console.parts.document_text import make_blocks, mark_chunks
from app.console.parts.entries import PAGE_SIZE, page_links
from app.console.parts.forms import AssetForm, errors_at, read_fields, read_texts, render_asset_form
from app.console.parts.uploads import TEXTS, Outcome, size_of, store_files
from app.console.rendering import render
from app.console.session import console_router
from app.contract.vocabulary import Audience
from app.errors import Conflict, InvalidInput, PreconditionFailed, Quarantined
from app.knowledge.entries.reading import DOCUMENT_PART
from app.web.access import CurrentCaller, CurrentServices
from app.web.rendering import PageCursor, attachment

readers = console_router(Role.READER)
writers = console_router(Role.CREATOR)

LIST = "/console/assets"
PART = 20_000
"""Maximum number of characters of a text per page."""
FOLLOWED = 50
"""Maximum number of documents whose status one request updates."""
CODE = frozenset({"text/x-source", "application/json", "application/x-ndjson"})
"""Media types whose line breaks and spaces are shown as they are."""
STATUSES = ("pending", "processing", "indexed", "failed")
DONE = {
    "changed": "The changes have been saved; its passages have them too.",
    "same": "This file is already stored; it was not processed again.",
    "deleted": "The document and its passages have been deleted.",
    "retried": "The document is being processed again.",
}


@readers.get("/assets")
async def show_assets(
    request: Request,
    caller: CurrentCaller,
    services: CurrentServices,
    status: str = "",
    cursor: PageCursor = "",
    done: str = "",
) -> Response:
    """Show the newest documents, optionally of one status, and the upload form."""
    return await _show_list(request, caller, services, status=status, cursor=cursor, done=done)


@writers.post("/assets")
async def upload_asset(request: Request, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Upload files; if a part of the page was requested, the response is a message for each."""
    is_part = bool(request.headers.get("hx-request"))
    form = FormData()
    try:
        async with request.form() as form, services.admission.storing(caller.tenant, size_of(form)):
            outcomes = await store_files(form, services.assets, caller)
    except InvalidInput as error:
        errors = errors_at(error.errors)
        if is_part:
            return render(request, "parts/upload_refusal.html", status=422, errors=errors)
        return await _show_list(request, caller, services, errors=errors, form=form, http_status=422)
    if is_part:
        response = render(request, "parts/upload_taken.html", outcomes=outcomes)
        response.headers["HX-Trigger"] = "assets-changed"
        return response
    if len(outcomes) == 1 and (asset := outcomes[0].asset):
        return RedirectResponse(f"{LIST}/{asset.id}{'' if outcomes[0].is_new else '?done=same'}", 303)
    return await _show_list(request, caller, services, outcomes=outcomes)


@readers.get("/assets/progress")
async def show_progress(
    request: Request,
    caller: CurrentCaller,
    services: CurrentServices,
    asset_id: Annotated[list[UUID], Query(max_length=FOLLOWED)],
) -> Response:
    """Show the indexing progress of these documents; the part polls until all are done."""
    found = await services.assets.find(caller.tenant_id, asset_id)
    return render(request, "parts/asset_progress.html", assets=found)


@readers.get("/assets/{asset_id}")
async def show_asset(
    request: Request,
    asset_id: UUID,
    caller: CurrentCaller,
    services: CurrentServices,
    start: int = 0,
    chunk: int | None = None,
    done: str = "",
) -> Response:
    """Show a part of a document: with the character `start`, or with a chunk, which is marked."""
    tenant_id = caller.tenant_id
    asset = await services.assets.get(tenant_id, asset_id)
    passage = None if chunk is None else await services.inspection.find_chunk(tenant_id, asset_id, chunk)
    part, held = None, False
    try:
        part = await services.inspection.document_part(
            tenant_id,
            asset_id,
            passage[0] if passage else start,
            passage,
            include_quarantined=caller.sees_quarantined,
        )
    except Quarantined:
        held = True
    return render(
        request,
        "pages/asset.html",
        asset=asset,
        part=part,
        held=held,
        blocks=make_blocks(part, is_code=asset.media_type in CODE, is_markdown=asset.media_type == "text/markdown")
        if part
        else [],
        size=DOCUMENT_PART,
        top=min((heading.level for heading in part.contents), default=1) if part else 1,
        done=DONE.get(done),
    )


@readers.get("/assets/{asset_id}/chunks")
async def show_chunks(
    request: Request,
    asset_id: UUID,
    caller: CurrentCaller,
    services: CurrentServices,
    start: int = 0,
    chunk: int | None = None,
) -> Response:
    """Show where the chunks of a document begin and end: from `start`, or the part with the given chunk."""
    tenant_id = caller.tenant_id
    asset = await services.assets.get(tenant_id, asset_id)
    if chunk is not None:
        start = (await services.inspection.find_chunk(tenant_id, asset_id, chunk))[0] // PART * PART
    part, held = None, False
    try:
        part = await services.inspection.text_part(
            tenant_id, asset_id, start, PART, include_quarantined=caller.sees_quarantined
        )
    except Quarantined:
        held = True
    return render(
        request,
        "pages/asset_chunks.html",
        asset=asset,
        part=part,
        held=held,
        stretches=mark_chunks(part) if part else [],
        size=PART,
        chosen=None if chunk is None else chunk + 1,
    )


@writers.get("/assets/{asset_id}/edit")
async def edit_asset(request: Request, asset_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Show the form for a document's title, tags, audience, metadata and permissions."""
    asset = await services.assets.get(caller.tenant_id, asset_id)
    return render_asset_form(request, AssetForm.of_asset(asset), asset, {})


@writers.post("/assets/{asset_id}/edit")
async def change_asset(request: Request, asset_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Store the changes, unless the document has changed since the form was shown."""
    stored = await services.assets.get(caller.tenant_id, asset_id)
    form = AssetForm.read(await read_texts(request), stored)
    try:
        await services.assets.change(
            caller.tenant_id, asset_id, form.changes(stored), if_version=[form.version], actor=caller.subject
        )
    except InvalidInput as error:
        return render_asset_form(request, form, stored, errors_at(error.errors), status=422)
    except PreconditionFailed:
        stored = await services.assets.get(caller.tenant_id, asset_id)
        return render_asset_form(request, form, stored, {}, status=412)
    return RedirectResponse(f"{LIST}/{asset_id}?done=changed", 303)


@readers.get("/assets/{asset_id}/content")
async def download_asset(asset_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Download the original file."""
    content = await services.assets.content(caller.tenant_id, asset_id, include_quarantined=caller.sees_quarantined)
    return attachment(content, services.assets.read_content(caller.tenant_id, content))


@writers.post("/assets/{asset_id}/retry")
async def retry_asset(request: Request, asset_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Process a failed document again; other documents are unchanged."""
    try:
        asset = await services.assets.retry(caller.tenant_id, asset_id, actor=caller.subject)
    except Conflict:
        asset = await services.assets.get(caller.tenant_id, asset_id)
    if request.headers.get("hx-request"):
        return render(request, "parts/asset_progress.html", assets=[asset])
    return RedirectResponse(f"{LIST}/{asset_id}?done=retried", 303)


@writers.get("/assets/{asset_id}/delete")
async def ask_before_deletion(
    request: Request, asset_id: UUID, caller: CurrentCaller, services: CurrentServices
) -> Response:
    """Ask for confirmation before a document is deleted."""
    return render(
        request,
        "pages/asset_deletion.html",
        asset=await services.assets.get(caller.tenant_id, asset_id),
    )


@writers.post("/assets/{asset_id}/delete")
async def delete_asset(asset_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Delete the document and its chunks."""
    await services.assets.delete(caller.tenant_id, asset_id, actor=caller.subject)
    return RedirectResponse(f"{LIST}?done=deleted", 303)


async def _show_list(
    request: Request,
    caller: CurrentCaller,
    services: CurrentServices,
    *,
    status: str = "",
    cursor: str = "",
    done: str = "",
    errors: dict[str, str] | None = None,
    form: FormData | None = None,
    outcomes: Sequence[Outcome] = (),
    http_status: int = 200,
) -> Response:
    if status and status not in STATUSES:
        raise InvalidInput.of("status", f"must be one of {', '.join(STATUSES)}")
    page = await services.assets.list_assets(
        caller.tenant_id, limit=PAGE_SIZE, cursor=cursor or None, status=status or None
    )
    given = {"status": status} if status else {}
    return render(
        request,
        "pages/assets.html",
        status=http_status,
        page=page,
        chosen=status,
        links=page_links(LIST, page, cursor, given),
        statuses=STATUSES,
        all_roles=get_args(Audience),
        limit=services.assets.max_bytes,
        errors=errors or {},
        texts=read_fields(form or FormData(), TEXTS),
        outcomes=outcomes,
        done=DONE.get(done),
    )

"""Documents: upload with progress, status, and the text with its chunks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import FormData, UploadFile

from app.auth.principal import Role
from app.console.document_text import make_blocks, mark_chunks
from app.console.forms import Form, errors_at, read_texts, read_version, show_form
from app.console.rendering import PAGE_SIZE, CurrentVisit, Visit, page_links
from app.console.session import console_router
from app.console.words import name_reason
from app.contract.assets import Asset, AssetPatch, Upload
from app.contract.validation import validate
from app.errors import Conflict, InvalidInput, KnowledgeError, PreconditionFailed, Quarantined
from app.knowledge.entries.reading import DOCUMENT_PART
from app.web.bodies import name_of
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
MOST_FILES = 50
"""Files of one form; a script sends each in a request of its own."""
UPLOAD = show_form(Upload, {"roles": ["all"]}, without=("name", "data", "declared_type"))
"""The upload form without its files."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an upload: the document, `is_new` unless it was stored already, or the reason of the refusal."""

    name: str
    asset: Asset | None
    is_new: bool = False
    refusal: str = ""


@readers.get("/assets")
async def show_assets(visit: CurrentVisit, status: str = "", cursor: PageCursor = "", done: str = "") -> Response:
    """Show the newest documents, optionally of one status, and the upload form."""
    return await _show_list(visit, status=status, cursor=cursor, done=done)


@writers.post("/assets")
async def upload_asset(visit: CurrentVisit) -> Response:
    """Upload files; if a part of the page was requested, the response is a message for each."""
    is_part = visit.wants_part
    form = FormData()
    try:
        async with visit.request.form() as form, visit.services.admission.storing(visit.caller.tenant, _size_of(form)):
            outcomes = await _store_files(form, visit)
    except InvalidInput as error:
        errors = errors_at(error.errors, UPLOAD.fill(form))
        if is_part:
            return visit.render("parts/upload_refusal.html", status=422, errors=errors)
        return await _show_list(visit, errors=errors, form=UPLOAD.fill(form), http_status=422)
    if is_part:
        response = visit.render("parts/upload_taken.html", outcomes=outcomes)
        response.headers["HX-Trigger"] = "assets-changed"
        return response
    if len(outcomes) == 1 and (asset := outcomes[0].asset):
        return RedirectResponse(f"{LIST}/{asset.id}{'' if outcomes[0].is_new else '?done=same'}", 303)
    return await _show_list(visit, outcomes=outcomes)


@readers.get("/assets/progress")
async def show_progress(visit: CurrentVisit, asset_id: Annotated[list[UUID], Query(max_length=FOLLOWED)]) -> Response:
    """Show the indexing progress of these documents; the part polls until all are done."""
    found = await visit.services.assets.find(visit.tenant_id, asset_id)
    return visit.render("parts/asset_progress.html", assets=found)


@readers.get("/assets/{asset_id}")
async def show_asset(
    visit: CurrentVisit, asset_id: UUID, start: int = 0, chunk: int | None = None, done: str = ""
) -> Response:
    """Show a part of a document: with the character `start`, or with a chunk, which is marked."""
    tenant_id = visit.tenant_id
    asset = await visit.services.assets.get(tenant_id, asset_id)
    passage = None if chunk is None else await visit.services.reading.find_chunk(tenant_id, asset_id, chunk)
    part, held = None, False
    try:
        part = await visit.services.reading.document_part(
            tenant_id,
            asset_id,
            passage[0] if passage else start,
            passage,
            include_quarantined=visit.caller.sees_quarantined,
        )
    except Quarantined:
        held = True
    return visit.render(
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
async def show_chunks(visit: CurrentVisit, asset_id: UUID, start: int = 0, chunk: int | None = None) -> Response:
    """Show where the chunks of a document begin and end: from `start`, or the part with the given chunk."""
    tenant_id = visit.tenant_id
    asset = await visit.services.assets.get(tenant_id, asset_id)
    if chunk is not None:
        start = (await visit.services.reading.find_chunk(tenant_id, asset_id, chunk))[0] // PART * PART
    part, held = None, False
    try:
        part = await visit.services.reading.text_part(
            tenant_id, asset_id, start, PART, include_quarantined=visit.caller.sees_quarantined
        )
    except Quarantined:
        held = True
    return visit.render(
        "pages/asset_chunks.html",
        asset=asset,
        part=part,
        held=held,
        stretches=mark_chunks(part) if part else [],
        size=PART,
        chosen=None if chunk is None else chunk + 1,
    )


@writers.get("/assets/{asset_id}/edit")
async def edit_asset(visit: CurrentVisit, asset_id: UUID) -> Response:
    """Show the form for a document's title, tags, audience, metadata and permissions."""
    asset = await visit.services.assets.get(visit.tenant_id, asset_id)
    return _show_form(visit, show_form(AssetPatch, asset), asset, asset.version)


@writers.post("/assets/{asset_id}/edit")
async def change_asset(visit: CurrentVisit, asset_id: UUID) -> Response:
    """Store the changes, unless the document has changed since the form was shown."""
    sent = await read_texts(visit.request)
    version = read_version(sent.get("version"), "the page of the document")
    stored = await visit.services.assets.get(visit.tenant_id, asset_id)
    shown = show_form(AssetPatch, stored)
    form = shown.fill(sent)
    try:
        patch = validate(AssetPatch, form.changes(shown))
        await visit.services.assets.change(visit.tenant_id, asset_id, patch, if_version=[version], actor=visit.subject)
    except InvalidInput as error:
        return _show_form(visit, form, stored, version, errors=errors_at(error.errors, form), status=422)
    except PreconditionFailed:
        stored = await visit.services.assets.get(visit.tenant_id, asset_id)
        return _show_form(visit, form, stored, stored.version, status=412)
    return RedirectResponse(f"{LIST}/{asset_id}?done=changed", 303)


@readers.get("/assets/{asset_id}/content")
async def download_asset(visit: CurrentVisit, asset_id: UUID) -> Response:
    """Download the original file."""
    content = await visit.services.assets.content(
        visit.tenant_id, asset_id, include_quarantined=visit.caller.sees_quarantined
    )
    return attachment(content, visit.services.assets.read_content(visit.tenant_id, content))


@writers.post("/assets/{asset_id}/retry")
async def retry_asset(visit: CurrentVisit, asset_id: UUID) -> Response:
    """Process a failed document again; other documents are unchanged."""
    try:
        asset = await visit.services.assets.retry(visit.tenant_id, asset_id, actor=visit.subject)
    except Conflict:
        asset = await visit.services.assets.get(visit.tenant_id, asset_id)
    if visit.wants_part:
        return visit.render("parts/asset_progress.html", assets=[asset])
    return RedirectResponse(f"{LIST}/{asset_id}?done=retried", 303)


@writers.get("/assets/{asset_id}/delete")
async def ask_before_deletion(visit: CurrentVisit, asset_id: UUID) -> Response:
    """Ask for confirmation before a document is deleted."""
    return visit.render("pages/asset_deletion.html", asset=await visit.services.assets.get(visit.tenant_id, asset_id))


@writers.post("/assets/{asset_id}/delete")
async def delete_asset(visit: CurrentVisit, asset_id: UUID) -> Response:
    """Delete the document and its chunks."""
    await visit.services.assets.delete(visit.tenant_id, asset_id, actor=visit.subject)
    return RedirectResponse(f"{LIST}?done=deleted", 303)


async def _show_list(
    visit: Visit,
    *,
    status: str = "",
    cursor: str = "",
    done: str = "",
    errors: dict[str, str] | None = None,
    form: Form = UPLOAD,
    outcomes: Sequence[Outcome] = (),
    http_status: int = 200,
) -> Response:
    if status and status not in STATUSES:
        raise InvalidInput.of("status", f"must be one of {', '.join(STATUSES)}")
    page = await visit.services.assets.list_assets(
        visit.tenant_id, limit=PAGE_SIZE, cursor=cursor or None, status=status or None
    )
    given = {"status": status} if status else {}
    return visit.render(
        "pages/assets.html",
        status=http_status,
        page=page,
        chosen=status,
        links=page_links(LIST, page, cursor, given),
        statuses=STATUSES,
        limit=visit.services.assets.max_bytes,
        errors=errors or {},
        form=form,
        outcomes=outcomes,
        done=DONE.get(done),
    )


def _size_of(form: FormData) -> int:
    """The bytes of all files of the form."""
    return sum(part.size or 0 for _, part in form.multi_items() if isinstance(part, UploadFile))


async def _store_files(form: FormData, visit: Visit) -> list[Outcome]:
    """Store the files of the form, one after another.

    Raises what the service raises for a single file. Of several, those that are refused are among the outcomes, and
    InvalidInput is raised for the fields that they share.
    """
    files = _read_files(form)
    filled = UPLOAD.fill(form)
    given = filled.changes(UPLOAD)
    if not filled.chosen("roles"):
        # The form shows the default audience: an existing document keeps its own.
        given.pop("roles", None)
    if len(files) > 1 and given.get("external_id"):
        raise InvalidInput.of("external_id", "belongs to one file: choose one, or leave it empty")
    outcomes: list[Outcome] = []
    for file in files:
        try:
            visit.services.assets.check_size(file.size or 0)
            upload = await _read_upload(file, given)
            asset, work = await visit.services.assets.upload(visit.tenant_id, upload, actor=visit.subject)
        except KnowledgeError as error:
            if len(files) == 1:
                raise
            outcomes.append(Outcome(name_of(file), None, refusal=name_reason(str(error))))
        else:
            outcomes.append(Outcome(asset.name, asset, is_new=work))
    return outcomes


def _read_files(form: FormData) -> Sequence[UploadFile]:
    files = [file for file in form.getlist("file") if isinstance(file, UploadFile) and file.filename]
    if not files:
        raise InvalidInput.of("file", "choose a file")
    if len(files) > MOST_FILES:
        raise InvalidInput.of("file", f"choose at most {MOST_FILES} files")
    return files


async def _read_upload(file: UploadFile, given: Mapping[str, Any]) -> Upload:
    return validate(
        Upload, {"name": name_of(file), "data": await file.read(), "declared_type": file.content_type, **given}
    )


def _show_form(
    visit: Visit, form: Form, asset: Asset, version: int, *, errors: Mapping[str, str] | None = None, status: int = 200
) -> Response:
    """The page with the form. After 412 it overwrites the version that is stored now."""
    return visit.render(
        "pages/asset_form.html",
        status=status,
        form=form,
        asset=asset,
        errors=errors or {},
        version=version,
        is_stale=status == 412,
    )

"""Assets: upload, status, change, text, original bytes, retry, delete."""

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from fastapi import File, Form, Query, Request, Response, UploadFile
from fastapi.responses import PlainTextResponse, StreamingResponse
from pydantic import BeforeValidator, WithJsonSchema
from starlette.datastructures import UploadFile as FormFile

from app.auth.principal import Role
from app.contract.assets import Asset, AssetPatch, AssetStatus, Upload
from app.contract.entries import FormerVersion
from app.contract.fields import WHITE, Page
from app.contract.validation import UNSET
from app.contract.vocabulary import AssetSort
from app.errors import FieldError, InvalidInput
from app.knowledge.paging import NEWEST_FIRST
from app.web.access import CurrentCaller, CurrentServices, secured_router
from app.web.bodies import name_of, read_metadata
from app.web.problems import problems
from app.web.rendering import (
    ETAG,
    LOCATION,
    PAGE_SIZE,
    SORT_TEXT,
    UPLOAD_LIMIT,
    IfMatch,
    PageCursor,
    PageSize,
    attachment,
    page_response,
    read_versions,
    versioned_response,
)

LISTS = {"tags", "roles", "readers", "writers"}
FIELDS = LISTS | {"file", "external_id", "source", "run", "metadata"}
"""Fields of the form. Other fields are refused, because their values would be lost."""

TEXT_BYTES = 32 * 1024 * 1024
"""Text of an asset, of which so many bytes count as in progress."""


def _require_file(value: Any) -> Any:
    """Refuse a text field before FastAPI does, whose message names its own types."""
    if not isinstance(value, FormFile):
        raise ValueError("must be a file")
    return value


TEXT = WithJsonSchema({"type": "string", "example": ""})
NO_JSON = rf"^[{WHITE}]*([^{WHITE}\[]|$)"
"""A text that is not a list in JSON, which some clients send instead of repeating a field."""
TEXTS = WithJsonSchema({"type": "array", "items": {"type": "string", "pattern": NO_JSON}, "example": []})
"""Optional fields of the form. Swagger UI fills a form with the examples, and an empty field counts as omitted."""

reading = secured_router(Role.READER, "/knowledge/assets", "assets")
writers = secured_router(Role.CREATOR, "/knowledge/assets", "assets")


@writers.post(
    "",
    status_code=202,
    response_model=Asset,
    responses=problems(
        404,
        409,
        413,
        415,
        others={
            200: {"model": Asset, "description": "The same bytes are already stored", "headers": ETAG | LOCATION},
            202: {"headers": ETAG | LOCATION},
        },
    ),
)
async def upload_asset(
    request: Request,
    caller: CurrentCaller,
    services: CurrentServices,
    file: Annotated[
        UploadFile,
        BeforeValidator(_require_file),
        WithJsonSchema({"type": "string", "format": "binary"}),
        File(
            description="Text and markup, HTML, SVG, PDF, files of Office and OpenDocument, EPUB, e-mail, notebooks,"
            " captions, CSV, JSON, source code, or a ZIP of these: at most 50 MiB (KB_MAX_UPLOAD_BYTES), and 20,000,000"
            " characters of text."
        ),
    ],
    external_id: Annotated[
        str | None, TEXT, Form(description="The same id with other bytes creates a new version.")
    ] = None,
    source: Annotated[
        str | None, TEXT, Form(description="The file's source; `external_id` is then an item of its manifest.")
    ] = None,
    run: Annotated[str | None, TEXT, Form(description="Required with `source`: the run of the manifest.")] = None,
    tags: Annotated[list[str] | None, TEXTS, Form(description="Repeated, or separated by commas.")] = None,
    roles: Annotated[
        list[str] | None, TEXTS, Form(description="pm, dev, qa or all; repeated, or separated by commas. Default: all.")
    ] = None,
    metadata: Annotated[str | None, TEXT, Form(description="A JSON object.")] = None,
    readers: Annotated[
        list[str] | None,
        TEXTS,
        Form(description="Who may read it: group:NAME and user:SUB, repeated. Default: all readers."),
    ] = None,
    writers: Annotated[
        list[str] | None,
        TEXTS,
        Form(description="Who of its readers may change it, in the same form. Default: all creators of them."),
    ] = None,
) -> Response:
    """Upload a file. The service parses it, cuts it into chunks and indexes them in the background; `status` shows the
    progress.

    The same bytes again return the existing asset with 200, changed where `tags`, `roles`, `metadata`, `readers` or
    `writers` differ; omitted or empty fields keep their value, also in a new version. The same bytes under another
    `external_id`, or with other readers, are an asset of their own, whose `duplicate_of` names the first.

    With `source` and `run`, the file belongs to a source (`PUT /knowledge/sources/{name}`). The answer is 404 if there
    is no such source, and 409 if another run has begun or the manifest has no such item or other bytes. A file that is
    too large or in an unsupported format is refused, and the source's item keeps the reason.
    """
    form = await request.form()
    if len(form.getlist("file")) > 1:
        raise InvalidInput.of("file", "send one file per request")
    if unknown := sorted(form.keys() - FIELDS):
        raise InvalidInput([FieldError(name, "unknown field") for name in unknown])
    services.assets.check_size(file.size or 0)
    async with services.admission.storing(caller.tenant, file.size or 0):
        fields: dict[str, Any] = {
            "tags": _listed("tags", tags) or UNSET,
            "roles": _listed("roles", roles) or UNSET,
            "metadata": read_metadata(metadata),
            "readers": [reader for reader in readers or () if reader] or UNSET,
            "writers": [writer for writer in writers or () if writer] or UNSET,
        }
        upload = Upload(
            name=name_of(file),
            data=await file.read(),
            declared_type=file.content_type,
            external_id=external_id or None,
            **fields,
        )
        if source or run:
            asset, work = await services.sources.upload(
                caller.tenant_id, source or "", _read_run(source, run), upload, actor=caller.subject
            )
        else:
            asset, work = await services.assets.upload(caller.tenant_id, upload, actor=caller.subject)
    return _asset_response(asset, 202 if work else 200, {"Location": f"/knowledge/assets/{asset.id}"})


@reading.get("", response_model=Page[Asset], responses=problems(others={200: {"headers": UPLOAD_LIMIT}}))
async def list_assets(
    caller: CurrentCaller,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
    status: AssetStatus | None = None,
    sort: Annotated[AssetSort, Query(description=SORT_TEXT.format("Names"))] = NEWEST_FIRST,
) -> Response:
    """List the assets, by default newest first."""
    response = page_response(
        await services.assets.list_assets(caller.tenant_id, limit=limit, cursor=cursor, status=status, sort=sort)
    )
    response.headers["Upload-Limit"] = f"max-size={services.assets.max_bytes}"
    return response


@reading.get("/{asset_id}", response_model=Asset, responses=problems(404, others={200: {"headers": ETAG}}))
async def get_asset(asset_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Get an asset with its ETag and its indexing progress."""
    return _asset_response(await services.assets.get(caller.tenant_id, asset_id))


@writers.patch(
    "/{asset_id}", response_model=Asset, responses=problems(404, 409, 412, 413, 415, others={200: {"headers": ETAG}})
)
async def change_asset(
    asset_id: UUID, patch: AssetPatch, caller: CurrentCaller, services: CurrentServices, if_match: IfMatch = None
) -> Response:
    """Change the given fields of an asset and, in the same transaction, of its chunks: a search sees all of the change
    or nothing. With another title the chunks are embedded again in the background."""
    changed = await services.assets.change(
        caller.tenant_id, asset_id, patch, if_version=read_versions(if_match), actor=caller.subject
    )
    return _asset_response(changed)


@reading.get("/{asset_id}/text", response_class=PlainTextResponse, responses=problems(404, 409))
async def get_asset_text(asset_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Get the extracted text. A chunk's char_start and char_end are offsets in characters (Unicode code points). A
    reader gets a 403 response while a chunk is in quarantine."""
    async with services.admission.answering(caller.tenant, TEXT_BYTES):
        text = await services.assets.text(caller.tenant_id, asset_id, include_quarantined=caller.sees_quarantined)
        return PlainTextResponse(text)


@reading.get(
    "/{asset_id}/content",
    response_class=StreamingResponse,
    responses=problems(
        404,
        others={
            200: {
                "content": {
                    kind: {"schema": {"type": "string", "format": "binary"}}
                    for kind in ("application/octet-stream", "*/*")
                },
                "description": "The bytes, as an attachment of the file's type",
                "headers": ETAG,
            }
        },
    ),
)
async def get_asset_content(asset_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Get the bytes of the current version as they were uploaded. They are kept as long as the asset exists.

    The answer is an attachment that no browser opens as a page: HTML and SVG have the type application/octet-stream. If
    the asset is deleted or replaced in the meantime, the connection ends early. A reader gets a 403 response while a
    chunk is in quarantine.
    """
    content = await services.assets.content(caller.tenant_id, asset_id, include_quarantined=caller.sees_quarantined)
    return attachment(content, services.assets.read_content(caller.tenant_id, content))


@reading.get("/{asset_id}/versions", response_model=Page[FormerVersion], responses=problems(404))
async def list_asset_versions(
    asset_id: UUID,
    caller: CurrentCaller,
    services: CurrentServices,
    limit: PageSize = PAGE_SIZE,
    cursor: PageCursor | None = None,
) -> Response:
    """List the former versions of the chunks of an asset, the latest first, with the times between which they were
    valid; `id` is that of the chunk. The asset may be deleted. Chunks that ended together, as those of a replaced file
    do, have the same `valid_until`. A search with `as_of` and `asset_id` finds those of one time. A reader does not see
    versions in quarantine, nor those of chunks that are quarantined now. A page has fewer than `limit` when its text
    reaches 2 MiB."""
    page = await services.versions.list_versions(
        caller.tenant_id, asset_id, "asset", limit=limit, cursor=cursor, include_quarantined=caller.sees_quarantined
    )
    return page_response(page)


@writers.post("/{asset_id}/retry", status_code=202, response_model=Asset, responses=problems(404, 409))
async def retry_asset(asset_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Parse a failed asset again."""
    asset = await services.assets.retry(caller.tenant_id, asset_id, actor=caller.subject)
    return _asset_response(asset, 202)


@writers.delete("/{asset_id}", status_code=204, responses=problems(404))
async def delete_asset(asset_id: UUID, caller: CurrentCaller, services: CurrentServices) -> Response:
    """Delete an asset and its chunks."""
    await services.assets.delete(caller.tenant_id, asset_id, actor=caller.subject)
    return Response(status_code=204)


def _asset_response(asset: Asset, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return versioned_response(asset, asset.version, status, headers)


def _read_run(source: str | None, run: str | None) -> int:
    if not source:
        raise InvalidInput.of("source", "is required with run")
    if not run or not run.isascii() or not run.isdigit() or len(run) > 18:
        raise InvalidInput.of("run", "must be the number of the source's run")
    return int(run)


def _listed(field: str, values: list[str] | None) -> list[str]:
    if any(value.lstrip().startswith("[") for value in values or ()):
        raise InvalidInput.of(field, "must be repeated or separated by commas")
    return [part.strip() for value in values or () for part in value.split(",") if part.strip()]

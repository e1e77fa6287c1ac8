"""Entries and documents as resources, which clients list and read by their URIs."""

from __future__ import annotations

import re
from uuid import UUID

from mcp_types import Annotations, ListResourcesResult, Resource, ResourceTemplate, TextResourceContents

from app.db.queries.knowledge.assets import Asset
from app.errors import InvalidInput
from app.mcp.answers.entries import answer_entry
from app.mcp.answers.reading import answer_part
from app.mcp.links import DOCUMENT, ENTRY, document_uri
from app.mcp.tools.tool import Call
from app.web.rendering import PAGE_SIZE

MEDIA_TYPE = "text/plain"

TEMPLATES = (
    ResourceTemplate(
        name="entry",
        title="An entry",
        uri_template=f"{ENTRY}{{entry_id}}{{?start}}",
        description="The text of an entry or passage, as kb_get returns it; `start` is the first character.",
        mime_type=MEDIA_TYPE,
    ),
    ResourceTemplate(
        name="document",
        title="A document",
        uri_template=f"{DOCUMENT}{{asset_id}}{{?start}}",
        description="The text of a document, as kb_read_document returns it; `start` is the first character.",
        mime_type=MEDIA_TYPE,
    ),
    ResourceTemplate(
        name="page",
        title="A page of a document",
        uri_template=f"{DOCUMENT}{{asset_id}}/pages/{{page}}",
        description="The text of a page or slide of a document.",
        mime_type=MEDIA_TYPE,
    ),
)

_ID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NUMBER = "[0-9]{1,9}"
_ENTRY = re.compile(rf"{ENTRY}({_ID})(?:\?start=({_NUMBER}))?")
_DOCUMENT = re.compile(rf"{DOCUMENT}({_ID})(?:/pages/({_NUMBER})|\?start=({_NUMBER}))?")
_ALLOWED = f"must be {ENTRY}ID, {DOCUMENT}ID or {DOCUMENT}ID/pages/NUMBER"


async def list_resources(call: Call, cursor: str | None) -> ListResourcesResult:
    """A page of the indexed documents, the newest first. Raises InvalidInput for a bad cursor."""
    page = await call.services.assets.list_assets(
        call.tenant_id, limit=PAGE_SIZE, cursor=cursor, status="indexed"
    )
    return ListResourcesResult(resources=[_describe(a) for a in page.items], next_cursor=page.next_cursor)


async def read_resource(call: Call, uri: str) -> TextResourceContents:
    """Read an entry, a document or one of its pages: the same text as that of the tools.

    Raises InvalidInput, EntryNotFound, AssetNotFound, TextNotReady and Quarantined.
    """
    if match := _ENTRY.fullmatch(uri):
        answer = answer_entry(await call.read_entry(UUID(match[1])), int(match[2] or 0))
    elif match := _DOCUMENT.fullmatch(uri):
        answer = answer_part(
            *await call.read_document(UUID(match[1]), page=_number(match[2]), start=_number(match[3]))
        )
    else:
        raise InvalidInput.of("uri", _ALLOWED)
    return TextResourceContents(uri=uri, mime_type=MEDIA_TYPE, text=answer.text)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _describe(asset: Asset) -> Resource:
    pages = "" if asset.total_pages is None else f", {asset.total_pages} pages"
    flags = f", SUSPICIOUS: {', '.join(asset.flags)}" if asset.flags else ""
    return Resource(
        uri=document_uri(asset.id),
        name=asset.name,
        title=asset.title or asset.name,
        description=f"{asset.media_type}{pages}, {asset.chunks} chunks{flags}",
        mime_type=MEDIA_TYPE,
        annotations=Annotations(last_modified=asset.updated_at.isoformat()),
    )

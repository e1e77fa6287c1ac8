"""Uploads of one or several files with one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import FormData, UploadFile

from app.console.parts.forms import read_fields, read_roles, read_tags
from app.console.parts.words import LISTS, name_reason, read_lists
from app.contract.assets import Asset, Upload
from app.contract.validation import UNSET
from app.errors import InvalidInput, KnowledgeError
from app.knowledge.ingestion.assets import AssetService
from app.web.access import Caller
from app.web.bodies import read_metadata

DEFAULT_ROLES = ("all",)
TEXTS = ("external_id", "tags", "metadata", *LISTS)
"""Texts of the upload form."""

MOST_FILES = 50
"""Files of one form; a script sends each in a request of its own."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an upload: the document, `is_new` unless it was stored already, or the reason of the refusal."""

    name: str
    asset: Asset | None
    is_new: bool = False
    refusal: str = ""


def size_of(form: FormData) -> int:
    """The bytes of all files of the form."""
    return sum(part.size or 0 for _, part in form.multi_items() if isinstance(part, UploadFile))


async def store_files(form: FormData, assets: AssetService, caller: Caller) -> list[Outcome]:
    """Store the files of the form, one after another.

    Raises what the service raises for a single file. Of several, those that are refused are among the outcomes, and
    InvalidInput is raised for the fields that they share.
    """
    files = _read_files(form)
    texts = read_fields(form, TEXTS)
    if len(files) > 1 and texts["external_id"].strip():
        raise InvalidInput.of("external_id", "belongs to one file: choose one, or leave it empty")
    lists = read_lists(texts)
    outcomes: list[Outcome] = []
    for file in files:
        try:
            assets.check_size(file.size or 0)
            upload = await _read_upload(file, form, lists)
            asset, work = await assets.upload(caller.tenant_id, upload, actor=caller.subject)
        except KnowledgeError as error:
            if len(files) == 1:
                raise
            outcomes.append(Outcome(file.filename or "", None, refusal=name_reason(str(error))))
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


async def _read_upload(file: UploadFile, form: FormData, lists: Mapping[str, Sequence[str] | None]) -> Upload:
    texts = read_fields(form, TEXTS)
    roles = read_roles(form)
    fields: dict[str, Any] = {
        "tags": read_tags(texts["tags"]) or UNSET,
        # The form shows the default audience: an existing document keeps its own.
        "roles": UNSET if roles in ([], list(DEFAULT_ROLES)) else roles,
        "metadata": read_metadata(texts["metadata"].strip()) or UNSET,
        # Empty lists keep the lists of an existing document.
        **{name: given for name, given in lists.items() if given is not None},
    }
    return Upload(
        name=file.filename or "",
        data=await file.read(),
        declared_type=file.content_type,
        external_id=texts["external_id"].strip() or None,
        **fields,
    )

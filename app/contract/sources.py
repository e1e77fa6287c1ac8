"""Sources: manifests of what an origin has, and the states of their items."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic.config import JsonDict

from app.contract.assets import MAX_NAME
from app.contract.entries import MAX_EXTERNAL_ID, Principals
from app.contract.fields import MAX_PRINCIPALS, PRINCIPAL_SCHEMA, RULE, Moment, YesOrNo, is_principal_list
from app.contract.text import MOMENT, STORABLE, is_moment, is_storable
from app.contract.validation import UNSET, Described, Items, Unset, request, require
from app.errors import FieldError, InvalidInput

MAX_ITEMS = 100_000
MAX_DIGEST = 200
MAX_ORIGIN = 2_000
MAX_SIZE = 2**63 - 1
MOST_ERRORS = 20
ITEM_FIELDS = frozenset({"external_id", "digest", "name", "size", "readers"})
SOURCE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
NAME_RULE = "must be 1 to 63 of a-z, 0-9, '.', '_' and '-', and start with a letter or a digit"

ItemState = Literal["indexed", "pending", "failed", "refused", "missing"]
AssetsFate = Literal["keep", "delete"]
"""What becomes of the assets of a deleted source."""


def check_name(name: str) -> str:
    """The name of a source. Raises ValueError."""
    if not SOURCE_NAME.fullmatch(name):
        raise ValueError(NAME_RULE)
    return name


@dataclass(frozen=True, slots=True)
class ManifestItem:
    """A file of the origin. Equal digests mean equal bytes; `size` is in bytes, if it is known.

    `readers` are those that the origin has for it; None: those of the source.
    """

    external_id: str
    digest: str
    name: str
    size: int | None = None
    readers: Sequence[str] | None = None


ITEM: JsonDict = {
    "type": "object",
    "title": "ManifestItem",
    "additionalProperties": False,
    "required": ["external_id", "digest"],
    "properties": {
        "external_id": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_EXTERNAL_ID,
            "description": "Identifies the file in this source, for example its path. It is a label: the service opens"
            " nothing by this name.",
        },
        "digest": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_DIGEST,
            "description": "Identifies the content: equal digests must mean equal bytes. With the form sha256:HEX the"
            " service compares uploads with it.",
        },
        "name": {
            "anyOf": [{"type": "string", "maxLength": MAX_NAME}, {"type": "null"}],
            "description": "The file name, whose ending helps to recognise the format. Default: the last part of"
            " external_id.",
        },
        "size": {
            "anyOf": [{"type": "integer", "minimum": 0, "maximum": MAX_SIZE}, {"type": "null"}],
            "description": "Bytes. A file above the limit of uploads is refused without being uploaded.",
        },
        "readers": {
            "anyOf": [
                {"type": "array", "items": PRINCIPAL_SCHEMA, "minItems": 1, "maxItems": MAX_PRINCIPALS},
                {"type": "null"},
            ],
            "description": "Who may read the file: group:NAME and user:SUB. The source's writers, which it must then"
            " have, are added. Default: the source's readers.",
        },
    },
}
EXAMPLE: dict[str, Any] = {
    "origin": "git@example.com:handbook.git main",
    "run": 0,
    "items": [
        {"external_id": "guide/backup.md", "digest": "git:9daeafb9864cf43055ae93beb0afd6c7d144bfa4", "size": 812},
        {"external_id": "guide/restore.md", "digest": "git:8ab686eafeb1f44702738c8b0f24f2567c36da6d"},
    ],
}


def read_items(items: Sequence[Any]) -> list[ManifestItem]:
    """Check the items of a manifest, which may be parsed JSON. Raises InvalidInput with the first errors.

    A hundred thousand of them take a while: call it in a thread.
    """
    errors: list[FieldError] = []
    found: dict[str, ManifestItem] = {}
    for number, given in enumerate(items):
        item = given if isinstance(given, ManifestItem) else _read_item(given)
        wrong = item if isinstance(item, FieldError) else _find_error(item)
        if wrong is None and not isinstance(item, FieldError):
            if item.external_id in found:
                wrong = FieldError("external_id", "is in the manifest twice")
            found[item.external_id] = item
        if wrong is not None:
            errors.append(FieldError(f"items.{number}.{wrong.field}".rstrip("."), wrong.message))
            if len(errors) == MOST_ERRORS:
                break
    if errors:
        raise InvalidInput(errors)
    return list(found.values())


def _read_item(given: Any) -> ManifestItem | FieldError:
    if not isinstance(given, Mapping):
        return FieldError("", "must be an object")
    if unknown := given.keys() - ITEM_FIELDS:
        return FieldError(str(min(unknown)), "unknown field")
    external_id, digest = given.get("external_id"), given.get("digest")
    if not isinstance(external_id, str):
        return FieldError("external_id", "must be a text")
    if not isinstance(digest, str):
        return FieldError("digest", "must be a text")
    name, size = given.get("name"), given.get("size")
    if name is not None and not isinstance(name, str):
        return FieldError("name", "must be a text or null")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        return FieldError("size", "must be a number of bytes or null")
    return ManifestItem(external_id, digest, name or name_of(external_id), size, given.get("readers"))


def name_of(external_id: str) -> str:
    """The name of a file without its folders."""
    return external_id.rstrip("/").rpartition("/")[2].strip() or external_id


def _find_error(item: ManifestItem) -> FieldError | None:
    for field, text, most in (
        ("external_id", item.external_id, MAX_EXTERNAL_ID),
        ("digest", item.digest, MAX_DIGEST),
        ("name", item.name, MAX_NAME),
    ):
        if not 1 <= len(text) <= most or not is_storable(text):
            return FieldError(field, f"must be 1 to {most} characters, {STORABLE}")
    if item.readers is not None and not is_principal_list(item.readers):
        return FieldError("readers", RULE)
    if "/" in item.name or "\\" in item.name or item.name != item.name.strip():
        return FieldError("name", "must not contain folders, or start or end with white space")
    return None


def _check_number(items: list[Any]) -> tuple[Any, ...]:
    if len(items) > MAX_ITEMS:
        raise ValueError(f"must be at most {MAX_ITEMS:,} items")
    return tuple(items)


@request(schema={"examples": [EXAMPLE]})
class Manifest:
    """What the origin of a source has."""

    items: Annotated[
        Items[Any],
        AfterValidator(_check_number),
        WithJsonSchema({"type": "array", "maxItems": MAX_ITEMS, "items": ITEM}),
    ]
    """All files of the origin."""
    origin: (
        Annotated[
            str,
            Field(min_length=1, max_length=MAX_ORIGIN),
            require(is_storable, f"must be 1 to {MAX_ORIGIN:,} characters, {STORABLE}"),
        ]
        | None
    ) = None
    """Describes where the files come from. User and password are removed from URLs. Default: the former description."""
    run: Annotated[int, Field(strict=True, ge=0, le=MAX_SIZE)] | None = None
    """The run that the source had when the listing began, 0 for a new source. If another run has begun since, the
    answer is 409. Default: no check."""
    listed_at: Annotated[Moment, require(is_moment, f"must be {MOMENT}")] | None = None
    """When the listing began, with a time zone. Default, and latest: the arrival of the request."""
    confirm_deletions: YesOrNo = False
    """Whether more assets may be deleted than the share KB_SOURCE_MAX_DELETIONS. Default: false."""
    allow_empty: YesOrNo = False
    """Whether an empty manifest may delete all assets of the source. Default: false."""
    retry: YesOrNo = False
    """Whether unchanged files that were refused or failed become `missing`, to be uploaded again. Default: false."""
    readers: Annotated[Principals | Unset | None, Field(examples=[["group:finance"]])] = UNSET
    """Who may see the source and read those of its assets whose item has no readers. Its writers are added. Null: all
    readers of the tenant. Default: as before; for a new source null."""
    writers: Annotated[Principals | Unset | None, Field(examples=[["user:crawler"]])] = UNSET
    """Who may send manifests and files, and change the assets, with the role creator; they see all items. Null: all
    creators that see the source. Default: as before; for a new source null."""


@dataclass(frozen=True, slots=True)
class Source(Described):
    """A source."""

    name: Annotated[str, Field(examples=["handbook"])]
    origin: Annotated[str | None, Field(examples=["git@example.com:handbook.git main"])]
    run: Annotated[int, Field(description="The number of its last manifest.", examples=[7])]
    items: Annotated[int, Field(examples=[212])]
    """Items of the last manifest; for callers who are not among its writers, those that they may read."""
    listed_at: Annotated[datetime, Field(description="When the listing of the origin for the last manifest began.")]
    agreed_at: datetime | None
    """When the origin was listed with the content that the source's assets then got: the last time at which both
    agreed. Null: never."""
    agrees: Annotated[bool, Field(examples=[True])]
    """Whether all items of the last manifest are settled, and none of their assets was deleted since."""
    readers: Sequence[str] | None
    """Who may see the source and read its assets; null: all readers of the tenant."""
    writers: Sequence[str] | None
    """Who may send manifests and files; null: all creators that see the source."""
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SourceStatus(Source):
    """A source with the number of its items in each state; they add up to `items`."""

    indexed: Annotated[int, Field(description="Items whose assets have their content and are indexed.", examples=[210])]
    pending: Annotated[int, Field(description="Items whose assets are being ingested.", examples=[0])]
    failed: Annotated[int, Field(description="Items whose files could not be ingested.", examples=[1])]
    refused: Annotated[int, Field(examples=[1])]
    """Items whose files are too large or in an unsupported format."""
    missing: Annotated[int, Field(examples=[0])]
    """Items to upload, and items whose assets were deleted since the last manifest."""


@dataclass(frozen=True, slots=True)
class Accepted(SourceStatus):
    """A source after a manifest, and what the manifest changed."""

    added: Annotated[int, Field(description="Items with a new external_id.", examples=[2])]
    changed: Annotated[int, Field(description="Items with another digest or name, or tried again.", examples=[1])]
    moved: int
    """Items with another external_id and the same bytes, which keep their assets."""
    removed: Annotated[int, Field(description="Deleted assets.", examples=[0])]


@dataclass(frozen=True, slots=True)
class SourceItem:
    """An item of the last manifest and its state."""

    external_id: Annotated[str, Field(examples=["guide/backup.md"])]
    name: Annotated[str, Field(examples=["backup.md"])]
    digest: Annotated[str, Field(examples=["git:9daeafb9864cf43055ae93beb0afd6c7d144bfa4"])]
    asset_id: UUID | None
    state: ItemState
    reason: Annotated[str | None, Field(description="Why it was refused or has failed.", examples=[None])]

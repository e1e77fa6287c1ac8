"""Requests and responses of the source endpoints."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema

from app.contract.entries import MAX_EXTERNAL_ID
from app.contract.principals import MAX_PRINCIPALS, PRINCIPAL, Principal
from app.contract.text import Moment
from app.knowledge.sources.manifest import MAX_DIGEST, MAX_ITEMS, MAX_NAME, MAX_ORIGIN, NAME_RULE, SOURCE_NAME
from app.knowledge.sources.service import Manifest
from app.web.models.requests import RequestBody

ITEM = {
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
            "anyOf": [{"type": "integer", "minimum": 0, "maximum": 2**63 - 1}, {"type": "null"}],
            "description": "Bytes. A file above the limit of uploads is refused without being uploaded.",
        },
        "readers": {
            "anyOf": [
                {
                    "type": "array",
                    "items": {"type": "string", "pattern": f"^{PRINCIPAL.pattern}$"},
                    "minItems": 1,
                    "maxItems": MAX_PRINCIPALS,
                },
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
        {
            "external_id": "guide/backup.md",
            "digest": "git:9daeafb9864cf43055ae93beb0afd6c7d144bfa4",
            "size": 812,
        },
        {"external_id": "guide/restore.md", "digest": "git:8ab686eafeb1f44702738c8b0f24f2567c36da6d"},
    ],
}


def _check_name(name: str) -> str:
    if not SOURCE_NAME.fullmatch(name):
        raise ValueError(NAME_RULE)
    return name


SourceName = Annotated[
    str,
    AfterValidator(_check_name),
    Path(
        json_schema_extra={"pattern": f"^{SOURCE_NAME.pattern}$"},
        description="1 to 63 of a-z, 0-9, '.', '_' and '-'; the first is a letter or a digit.",
        examples=["handbook"],
    ),
]


class ManifestBody(RequestBody):
    """What the origin of a source has."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    items: Annotated[list[Any], WithJsonSchema({"type": "array", "maxItems": MAX_ITEMS, "items": ITEM})] = (
        Field(description="All files of the origin.")
    )
    origin: str | None = Field(
        None,
        min_length=1,
        max_length=MAX_ORIGIN,
        description="Describes where the files come from. User and password are removed from URLs. Default: the former"
        " description.",
    )
    run: Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)] | None = Field(
        None,
        description="The run that the source had when the listing began, 0 for a new source. If another run has begun"
        " since, the answer is 409. Default: no check.",
    )
    listed_at: Moment | None = Field(
        None,
        description="When the listing began, with a time zone. Default, and latest: the arrival of the request.",
    )
    confirm_deletions: Annotated[bool, Field(strict=True)] = Field(
        False,
        description="Whether more assets may be deleted than the share KB_SOURCE_MAX_DELETIONS. Default: false.",
    )
    allow_empty: Annotated[bool, Field(strict=True)] = Field(
        False, description="Whether an empty manifest may delete all assets of the source. Default: false."
    )
    retry: Annotated[bool, Field(strict=True)] = Field(
        False,
        description="Whether unchanged files that were refused or failed become `missing`, to be uploaded again."
        " Default: false.",
    )

    readers: list[Principal] | None = Field(
        None,
        min_length=1,
        max_length=MAX_PRINCIPALS,
        description="Who may see the source and read those of its assets whose item has no readers. Its writers are"
        " added. Null: all readers of the tenant. Default: as before; for a new source null.",
        examples=[["group:finance"]],
    )
    writers: list[Principal] | None = Field(
        None,
        min_length=1,
        max_length=MAX_PRINCIPALS,
        description="Who may send manifests and files, and change the assets, with the role creator; they see all"
        " items. Null: all creators that see the source. Default: as before; for a new source null.",
        examples=[["user:crawler"]],
    )

    def manifest(self) -> Manifest:
        """The manifest for the service, which checks the items."""
        return Manifest(**{name: getattr(self, name) for name in self.model_fields_set})

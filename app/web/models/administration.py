"""Requests and responses of the administration endpoints."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, WithJsonSchema

from app.web.models.requests import RequestBody


class NewTenant(RequestBody):
    """A tenant to create."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"slug": "acme", "name": "Acme"}]})

    slug: Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"})] = Field(
        description="Unique short name: 1 to 63 characters of a-z, 0-9 and -, not starting with -."
    )
    name: str | None = Field(None, min_length=1, max_length=200)

"""Requests and responses for tokens that are refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, ConfigDict, Field

from app.web.models.requests import RequestBody


class NewRevocation(RequestBody):
    """A token to refuse from now on, by its `jti`."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"token_id": "3f0e7f2e-5d5c-4f57-9a3c-0c5a1f6c7b11"}]}
    )

    token_id: Annotated[str, Field(min_length=1, max_length=255)]
    expires_at: Annotated[
        AwareDatetime | None,
        Field(description="When the token expires by itself; by default, as late as any token can."),
    ] = None

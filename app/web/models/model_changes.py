"""Requests and responses for the change of a tenant's embedding model."""

from __future__ import annotations

from typing import Annotated, cast

from pydantic import ConfigDict, Field

from app.knowledge.reembedding.comparison import DEFAULT_OVERLAP
from app.knowledge.reembedding.machine import Terms
from app.web.models.requests import RequestBody


class NewModelChange(RequestBody):
    """The new embedding model. Omitted fields are taken from the only registered model that matches. The model in use
    means: rebuild its vectors."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"provider": "openai", "model": "text-embedding-3-small", "rate": 600}]
        },
    )

    provider: Annotated[str, Field(min_length=1, max_length=50)] | None = None
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None, description="A model that the operator has registered (`knowledge model add`) and configured."
    )
    dimensions: Annotated[int, Field(strict=True, ge=1, le=4000)] | None = None
    rate: Annotated[int, Field(strict=True, ge=1, le=10_000_000)] | None = Field(
        None,
        description="Entries to embed per minute; null means as many as the provider accepts.",
    )
    switch_at_overlap: Annotated[float, Field(strict=True, ge=0, le=1)] | None = Field(
        DEFAULT_OVERLAP,
        description="Switch automatically when the semantic legs of both models share at least this fraction of their"
        f" first hits ({DEFAULT_OVERLAP} unless set). Feedback decides instead where there is enough; too little"
        " evidence never switches. Null means wait for a switch on request.",
    )

    def terms(self) -> Terms:
        """The terms that the caller set."""
        given = self.model_dump(include={"rate", "switch_at_overlap"}, exclude_unset=True)
        return cast(Terms, given)

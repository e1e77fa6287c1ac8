"""Parts of a search's response that it has only on request: passages of documents, and facets."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field, WithJsonSchema

FacetName = Annotated[
    str,
    WithJsonSchema(
        {"type": "string", "pattern": r"^(tags|entry_type|roles|scope|source|asset_id|metadata\..{1,100})$"}
    ),
]


class HitOriginModel(BaseModel):
    """The source of a hit's asset."""

    source: str = Field(examples=["handbook"])
    agreed_at: datetime | None = Field(
        description="When the source last agreed with its origin: the text was then the origin's. Null: not yet."
    )


class PassageModel(BaseModel):
    """A further passage of a hit's asset."""

    id: UUID
    score: float
    chunk_index: int | None
    page: int | None = Field(description="The page that it starts on, if the asset has pages.")
    title: str | None = Field(description="The headings above it, as in the title of a hit.")
    snippet: str


class PassageGroupModel(BaseModel):
    """The passages of a hit's asset."""

    total: int = Field(description="Ranked passages of the asset, with the hit itself.", examples=[7])
    further: list[PassageModel] = Field(description="The best of the others, at most three.")


class ValidityModel(BaseModel):
    """When the version of an entry was valid that a search with `as_of` found."""

    valid_from: datetime
    valid_until: datetime | None = Field(
        description="The version ended just before; null if it is still valid."
    )


class FacetValueModel(BaseModel):
    """A value of a field."""

    value: str | int | float | bool = Field(examples=["backup"])
    count: int = Field(description="Matches that have it.", examples=[12])


class FacetModel(BaseModel):
    """The values of a field among all matches."""

    values: list[FacetValueModel] = Field(
        description="The most frequent first, at most 50, and of at most 200 characters. An entry counts once for each"
        " of its values; an item of a list in metadata is a value."
    )
    other: int = Field(description="The sum of the counts of all other values.")
    missing: int = Field(description="Matches without a value.")
    exact: bool = Field(description="Whether every match was counted; if not, the counts are lower bounds.")

"""The outcomes of several searches in one request."""

from __future__ import annotations

from pydantic import BaseModel, Field

from app.contract.results import SearchResult
from app.web.problems import Problem


class SearchProblem(Problem):
    """The problem of one search of a batch, with the values that would be headers."""

    retry_after: int | None = Field(None, description="For 429 and 503: seconds to wait before trying again.")


class SearchOutcome(BaseModel):
    """The outcome of one search of a batch: its result, or its problem."""

    index: int = Field(description="The position in the request, from 0.")
    status: int = Field(description="The status of the same search as a single request.", examples=[200])
    result: SearchResult | None
    error: SearchProblem | None


class SearchBatchResponse(BaseModel):
    """One outcome for each search, in the order of the request."""

    results: list[SearchOutcome]

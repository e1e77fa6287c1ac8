"""A bulk write of entries, over HTTP and MCP; each item has its own outcome."""

from __future__ import annotations

from pydantic import ValidationError

from app.composition.services import Services
from app.contract.entries import BulkResult
from app.contract.validation import invalid_input
from app.errors import FieldError
from app.knowledge.entries.drafts import EntryDraft
from app.web.access import Caller
from app.web.models.entries import BulkRequest, NewEntry


async def write_entries(body: BulkRequest, caller: Caller, services: Services) -> list[BulkResult]:
    """Store the valid entries; return one result for each, in order. Raises DatabaseUnavailable."""
    results: dict[int, BulkResult] = {}
    valid: dict[int, EntryDraft] = {}
    for index, item in enumerate(body.entries):
        try:
            valid[index] = NewEntry.model_validate(item).draft()
        except ValidationError as error:
            first = invalid_input(error).errors[0]
            if not error.errors(include_input=False)[0]["loc"]:
                first = FieldError("entry", first.message)
            results[index] = BulkResult(index, None, "failed", str(first))
    if valid:
        places = list(valid)
        for result in await services.entries.create_many(
            caller.tenant_id, list(valid.values()), actor=caller.subject
        ):
            index = places[result.index]
            results[index] = BulkResult(index, result.id, result.status, result.error)
    return [results[index] for index in range(len(body.entries))]

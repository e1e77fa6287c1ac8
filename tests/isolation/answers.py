"""Answers to compare: without the id that was given and what differs in every call."""

import re
from typing import Any

import httpx

from tests.fixtures.http.callers import Caller
from tests.isolation.holdings import Holdings
from tests.isolation.places import Place

CHANGING = re.compile(
    rb'"(request_id|search_id|next_cursor|id|at|created_at|updated_at|\w+_ms)\\?": ?(\\?"[^"]*"|[0-9.]+)'
)
"""Response fields that differ in every call: ids that are generated for the response, cursors with them, and times."""

CHANGING_HEADERS = {"x-request-id", "date", "location", "content-length"}


def normalise(answer: httpx.Response, given: str) -> tuple[Any, ...]:
    """The whole response, without the requested id and the fields that differ in every call."""
    body = CHANGING.sub(rb'"\1":0', answer.content.replace(given.encode(), b"<id>"))
    headers = sorted((k, v) for k, v in answer.headers.items() if k not in CHANGING_HEADERS)
    return answer.status_code, headers, body


async def call(caller: Caller, place: Place, value: str, own: Holdings) -> tuple[Any, ...]:
    """Call with a value at a place; whatever the call creates is removed again."""
    path, options = place.fill(value, own.ids)
    answer = await caller.request(place.method, path, **options)
    if answer.status_code == 201 and "id" in answer.json():
        removed = await caller.delete(f"{path}/{answer.json()['id']}")
        assert removed.status_code == 204, f"{place} made something that cannot be removed"
    return normalise(answer, value)

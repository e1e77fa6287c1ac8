"""Changes of permissions of many items, page after page."""

from typing import Any

from tests.fixtures.http.callers import Caller

PATH = "/knowledge/access"


async def change(caller: Caller, where: dict[str, Any], **given: Any) -> dict[str, Any]:
    """Change all pages; the sums, and all that was refused."""
    found: dict[str, Any] = {"matched": 0, "changed": 0, "refused": []}
    headers, cursor = given.pop("headers", {}), None
    while True:
        body = {"where": where, "cursor": cursor, **given}
        answer = await caller.patch(PATH, body, headers=headers)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        for name in found:
            found[name] += page[name]
        cursor = page["next_cursor"]
        if cursor is None:
            return found

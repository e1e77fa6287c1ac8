"""Looks for a word in all that a caller can learn."""

from fastapi import FastAPI

from tests.fixtures.http.callers import Caller
from tests.isolation.places import make_valid

CANARY = "bluebird"
NEAR = ("bluebi", "bluebirt", "bluebork", "bluebrid", "bluebir", '"blue bird"', "blue", "bluebIrt harbour")
"""Words similar to the canary: the input of spelling corrections and suggestions."""


async def look_everywhere(caller: Caller, app: FastAPI, entry_id: str) -> list[str]:
    """All that the caller can learn from every endpoint, and from searches for words similar to the canary."""
    document, told = app.openapi(), []
    for word in NEAR:
        for mode in ("keyword", "hybrid", "semantic"):
            found = await caller.post("/knowledge/search", {"query": word, "mode": mode, "explain": True, "tags": None})
            told.append(found.text)
        why = {"entry_id": entry_id, "request": {"query": word, "explain": True}}
        told.append((await caller.post("/knowledge/search/why-not", why)).text)
        found = await caller.post("/knowledge/search", {"query": word, "tags": ["nothing has it"]})
        told.append(found.text)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            body = make_valid(document, content["schema"]) if content else None
            place = path.replace("{tenant_id}", str(caller.tenant_id)).replace("{entry_id}", entry_id)
            if "{" not in place and method != "delete":
                answer = await caller.request(method.upper(), place, json=body)
                assert answer.status_code < 500, (method, place, answer.text)
                told.append(f"{answer.headers} {answer.text}")
    return told

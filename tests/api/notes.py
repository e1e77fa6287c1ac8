"""Entries for tests of searching."""

from tests.fixtures.http.callers import Caller


async def add_notes(admin: Caller, count: int = 25) -> None:
    """Entries that all contain the word harbour, each once more than the one before."""
    entries = [{"content": f"Note {n}: " + "harbour " * n, "tags": [f"n{n % 3}"]} for n in range(1, count + 1)]
    answer = await admin.post("/knowledge/entries/bulk", {"entries": entries})
    assert {result["status"] for result in answer.json()["results"]} == {"created"}

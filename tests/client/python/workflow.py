"""A small program over the client that openapi-python-client generates."""

import os
import sys
from io import BytesIO

from knowledge_generated import AuthenticatedClient
from knowledge_generated.api.assets import upload_asset
from knowledge_generated.api.entries import change_entry, create_entries, create_entry, get_entry, list_entries
from knowledge_generated.api.search import search
from knowledge_generated.models import (
    BulkRequest,
    Entry,
    EntryList,
    EntryPatch,
    NewAsset,
    NewEntry,
    NewEntryEntryTypeType0,
    Problem,
    SearchRequest,
    SearchResponse,
)
from knowledge_generated.types import File

client = AuthenticatedClient(os.environ["KNOWLEDGE_URL"], os.environ["KNOWLEDGE_TOKEN"])

decision = create_entry.sync(
    client=client,
    body=NewEntry(
        content="Ships may enter the harbour from six.",
        external_id="H1",
        entry_type=NewEntryEntryTypeType0.DECISION,
        confidence=0.5,
        is_verified=True,
        tags=["port"],
    ),
)
assert isinstance(decision, Entry), decision


def kept(entry: object) -> tuple[object, ...]:
    """The fields that no later step sends."""
    assert isinstance(entry, Entry), entry
    return entry.entry_type, entry.confidence, entry.is_verified, entry.scope, entry.external_id


patched = change_entry.sync(decision.id, client=client, body=EntryPatch(tags=["hours"]))
assert kept(patched) == kept(decision)
assert patched.content == decision.content
patched = change_entry.sync(decision.id, client=client, body=EntryPatch(content="Ships may enter from seven."))
assert kept(patched) == kept(decision)
assert patched.tags == ["hours"]

again = NewEntry(content="Ships may enter the harbour from eight.", external_id="H1")
written = create_entry.sync(client=client, body=again)
assert kept(written) == kept(decision)
assert (written.id, written.tags) == (decision.id, ["hours"])
bulk = create_entries.sync(client=client, body=BulkRequest(entries=[again, NewEntry(content="The quay is wet.")]))
assert [result.status.value for result in bulk.results] == ["unchanged", "created"]
assert kept(get_entry.sync(decision.id, client=client)) == kept(decision)

found = search.sync(client=client, body=SearchRequest(query="when may ships enter", explain=True))
assert isinstance(found, SearchResponse), found
assert found.results[0].id == decision.id
assert found.debug_info.hits[0].rank == 1

asset = upload_asset.sync(
    client=client,
    body=NewAsset(file=File(BytesIO(b"the quay has nine berths"), "quay.txt", "text/plain"), tags=["quay"]),
)
assert (asset.name, asset.tags) == ("quay.txt", ["quay"]), asset
assert asset.status.value in ("pending", "processing", "indexed"), asset  # a worker may be quick

seen = []
cursor = None
while True:
    page = list_entries.sync(client=client, limit=1, **({"cursor": cursor} if cursor else {}))
    assert isinstance(page, EntryList), page
    seen += [entry.content for entry in page.items if entry.asset_id is None]
    cursor = page.next_cursor
    if cursor is None:
        break
assert seen == ["The quay is wet.", "Ships may enter the harbour from eight."], seen

refused = search.sync(client=client, body=SearchRequest(query="x", limit=51))
assert isinstance(refused, Problem)
assert refused.type_.value == "/problems/invalid-input"
assert refused.errors[0].field == "limit"
stale = change_entry.sync(decision.id, client=client, body=EntryPatch(tags=[]), if_match='"1"')
assert isinstance(stale, Problem)
assert stale.type_.value == "/problems/stale-etag"
sys.stdout.write("ok\n")

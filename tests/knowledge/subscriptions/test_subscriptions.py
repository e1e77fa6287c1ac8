"""Saved searches and their subscriptions."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import numpy as np
import pytest

from app.contract.administration import NewTenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.saved_searches import NewSavedSearch
from app.contract.search import SearchQuery, Weights
from app.contract.settings import AllowedLimits
from app.db.queries import tenants
from app.errors import Conflict, SavedSearchNotFound
from app.knowledge.subscriptions import service as subscriptions
from app.knowledge.subscriptions.service import read_request
from tests.fixtures.database.cluster import connected
from tests.knowledge.subscriptions.subscribing import OWNER, Desk

UNIT = np.eye(16, dtype=np.float32)


async def test_a_new_entry_that_matches_is_sent_with_a_signature(desk: Desk) -> None:
    saved, _ = await desk.services.saved_searches.save(
        desk.tenant.id, OWNER, NewSavedSearch("harbours", {"query": "harbour", "mode": "keyword"})
    )
    made, new = await desk.services.subscriptions.subscribe(desk.tenant.id, OWNER, saved.id, desk.endpoint.url)
    assert (new, made.state, made.waiting) == (True, "active", 0)
    entry = await desk.write("The harbour closes at dusk", tags=["sea"])
    await desk.write("Nothing of the kind")
    await desk.work()
    (received,) = desk.endpoint.received
    assert received.is_signed_with(made.secret)
    message = received.message
    assert message["type"] == "entry.matched"
    assert datetime.fromisoformat(message["timestamp"]).tzinfo is not None
    assert message["data"]["saved_search"] == {"id": str(saved.id), "name": "harbours"}
    assert (message["data"]["sources"], message["data"]["similarity"]) == (["keyword"], None)
    assert message["data"]["entry"]["id"] == str(entry)
    assert message["data"]["entry"]["tags"] == ["sea"]
    after = await desk.services.subscriptions.get(desk.tenant.id, OWNER, saved.id)
    assert (after.waiting, after.failures) == (0, 0)
    assert after.last_delivered_at is not None
    assert not hasattr(after, "secret")
    assert await desk.states() == ["delivered"]
    assert await desk.sql("select count(*) from jobs where kind in ('match_changes', 'deliver_webhooks')") == [0]
    assert await desk.sql("select count(*) from entry_changes") == [0]


async def test_only_direct_matches_are_sent(desk: Desk) -> None:
    desk.provider.default = UNIT[1]
    desk.provider.vectors = {"harbour": UNIT[0], "A quay": UNIT[0], "Port of call": UNIT[0]}
    await desk.subscribe(name="hybrid", query="harbour", tags=["sea"], similarity_threshold=0.5)
    cases = {
        "The harbour": ["sea"], "The harbour inland": ["land"], "A quay": ["sea"], "A road": ["sea"],
    }  # fmt: skip
    for content, tags in cases.items():
        await desk.write(content, tags=tags)
    await desk.work()
    assert sorted(desk.contents) == ["A quay", "The harbour"]
    found = {r.content: r.message["data"] for r in desk.endpoint.received}
    assert found["The harbour"]["sources"] == ["keyword"]
    assert found["A quay"]["sources"] == ["semantic"]
    assert found["A quay"]["similarity"] == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("keyword", {"The harbour"}), ("semantic", {"A quay"}), ("hybrid", {"The harbour", "A quay"})],
)
async def test_each_mode_matches_by_its_own_legs(desk: Desk, mode: str, expected: set[str]) -> None:
    desk.provider.default = UNIT[1]
    desk.provider.vectors = {"harbour": UNIT[0], "A quay": UNIT[0]}
    await desk.subscribe(query="harbour", mode=mode, similarity_threshold=0.5)
    for content in ("The harbour", "A quay", "A road"):
        await desk.write(content)
    await desk.work()
    assert set(desk.contents) == expected


async def test_sent_entries_equal_the_hits_of_the_search(desk: Desk) -> None:
    """With the same entries and the same request."""
    contents = [f"{place} {thing}" for place in ("harbour", "inland", "KNOW-004") for thing in ("lamp", "ship", "law")]
    queries = ["harbour lamp", '"inland ship"', "KNOW-004", "law"]
    for query in queries:
        await desk.subscribe(name=query, query=query, mode="keyword", limit=50)
    for content in contents:
        await desk.write(content)
    await desk.work()
    sent: dict[str, set[str]] = {query: set() for query in queries}
    for received in desk.endpoint.received:
        sent[received.message["data"]["saved_search"]["name"]].add(received.content)
    for saved in (await desk.services.saved_searches.list_saved(desk.tenant.id, OWNER)).items:
        found = await desk.services.search.search(desk.tenant.id, read_request(saved.request))
        assert sent[saved.name] == {hit.content for hit in found}, saved.name
        assert sent[saved.name], saved.name


async def test_compounds_and_incomplete_words_match_as_in_a_search(desk: Desk) -> None:
    for query in ("Datenbanksicherung", "Antrag auf Urlaub", "quokka handb"):
        await desk.subscribe(name=query, query=query, mode="keyword")
    contents = ("Die Sicherung der Datenbank.", "Die Datenbank ist voll.", "Der Urlaubsantrag.", "Das Handbuch.")
    for content in contents:
        await desk.write(content, language="german")
    await desk.work()
    sent = {(r.message["data"]["saved_search"]["name"], r.content) for r in desk.endpoint.received}
    assert sent == {
        ("Datenbanksicherung", contents[0]), ("Antrag auf Urlaub", contents[2]), ("quokka handb", contents[3])
    }  # fmt: skip


async def test_a_change_is_sent_and_a_repetition_is_not(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    entry = await desk.write("The harbour", external_id="h")
    await desk.work()
    await desk.write("The harbour", external_id="h")
    await desk.sql("insert into entry_changes (tenant_id, entry_id) values ($1, $2)", desk.tenant.id, entry)
    await desk.sql(
        "insert into jobs (tenant_id, id, kind, subject) values ($1, $2, 'match_changes', 'entries')",
        desk.tenant.id,
        uuid4(),
    )
    await desk.work()
    assert len(desk.endpoint.received) == 1, "compared again, and not sent again"
    await desk.write("The harbour at night", external_id="h")
    await desk.work()
    await desk.services.entries.change(desk.tenant.id, entry, EntryDraft(tags=["sea"]))
    await desk.work()
    await desk.services.entries.change(desk.tenant.id, entry, EntryDraft(content="The road"))
    await desk.work()
    assert desk.contents == ["The harbour", "The harbour at night", "The harbour at night"]
    assert len({r.headers["webhook-id"] for r in desk.endpoint.received}) == 3


async def rewrite(desk: Desk, entry: UUID, step: Callable[[], Awaitable[None]], *contents: str) -> None:
    """Give the entry each content in turn, with a step of work after each."""
    for content in contents:
        await desk.services.entries.change(desk.tenant.id, entry, EntryDraft(content=content))
        await step()


async def test_an_entry_that_returns_to_earlier_content_is_sent_again(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    entry = await desk.write("The harbour is lit")
    await desk.work()
    await rewrite(
        desk, entry, desk.work, "The harbour is dark", "The harbour is lit", "The harbour is lit", "The harbour is dark"
    )
    assert [content.split()[-1] for content in desk.contents] == ["lit", "dark", "lit", "dark"]
    assert len({r.headers["webhook-id"] for r in desk.endpoint.received}) == 4


async def test_an_entry_whose_message_failed_is_sent_as_a_new_one_after_another(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    desk.endpoint.answer = lambda number: "500 Oh" if number == 1 else "200 OK"
    entry = await desk.write("The harbour is lit")
    await desk.work()
    await rewrite(desk, entry, desk.hasten, "The harbour is dark", "The harbour is lit", "The harbour is dark")
    assert [content.split()[-1] for content in desk.contents] == ["lit", "dark", "lit", "dark"]
    assert len({r.headers["webhook-id"] for r in desk.endpoint.received}) == 4


async def test_an_entry_that_returns_to_what_was_sent_last_is_not_sent_again(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    entry = await desk.write("The harbour is lit")
    await desk.work()
    await rewrite(desk, entry, desk.match, "The harbour is dark", "The harbour is open", "The harbour is lit")
    await desk.hasten()
    await rewrite(desk, entry, desk.hasten, "The harbour is dark", "The harbour is lit")
    assert [content.split()[-1] for content in desk.contents] == ["lit", "dark", "lit"]


async def test_an_unchanged_chunk_of_a_documents_next_version_is_not_sent_again(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    long = b" ".join(b"Ship %d lies in the harbour of town %d." % (n, n * n) for n in range(60))
    first = (
        b"# Harbour\n\nIt closes at dusk. "
        + long
        + b"\n\n# Lamp\n\nThe lamp of the harbour is lit. "
        + long[::-1]
        + b" harbour"
    )
    second = first.replace(b"harbour is lit", b"harbour is out")
    for document in (first, second):
        await desk.services.assets.upload(desk.tenant.id, Upload("a.md", document, "text/markdown", external_id="doc"))
        await desk.hasten()
    sent = " ".join(desk.contents)
    assert (sent.count("closes at dusk"), sent.count("harbour is lit"), sent.count("harbour is out")) == (1, 1, 1)
    assert len(desk.contents) >= 3


async def test_semantic_match_is_evaluated_once_the_vector_exists(desk: Desk) -> None:
    desk.provider.default = UNIT[1]
    desk.provider.vectors = {"harbour": UNIT[0], "A quay": UNIT[0]}
    await desk.subscribe(query="harbour", similarity_threshold=0.5)
    desk.provider.down = True
    await desk.write("A quay")
    await desk.write("The harbour")
    await desk.work()
    assert desk.contents == ["The harbour"], "words do not wait for the provider"
    desk.provider.down = False
    await desk.sql("update embedding_models set paused_until = null")
    await desk.hasten()
    await desk.hasten()
    assert desk.contents == ["The harbour", "A quay"]
    assert await desk.sql("select count(*) from entry_changes") == [0]


async def test_keyword_match_does_not_wait_for_the_daily_token_limit(desk: Desk) -> None:
    desk.provider.default = UNIT[1]
    desk.provider.vectors = {"harbour": UNIT[0], "A quay": UNIT[0]}
    await desk.subscribe(query="harbour", similarity_threshold=0.5)
    await desk.services.tenants.change_limits(desk.tenant.id, AllowedLimits(embedding_tokens_per_day=5), actor="test")
    async with desk.services.database.tenant_session(desk.tenant.id) as session:
        await tenants.add_usage(session, 5)
    await desk.write("A quay")
    await desk.write("The harbour")
    await desk.work()
    assert desk.contents == ["The harbour"]
    await desk.sql("delete from usage_by_day")
    for _ in range(3):
        await desk.hasten()
    assert desk.contents == ["The harbour", "A quay"]


async def test_a_change_committed_during_matching_is_also_matched(desk: Desk) -> None:
    """Two writers share one job: its worker waits for both, or it is queued again."""
    await desk.subscribe(query="harbour", mode="keyword")
    write = "insert into entries (tenant_id, id, entry_type, content, language, content_hash, text_hash)"
    write += " values ($1, gen_random_uuid(), 'fact', $2::text, $3, sha256(convert_to($2::text, 'UTF8')), sha256(''))"
    async with connected(desk.superuser_dsn) as first, connected(desk.superuser_dsn) as second:
        await first.execute(write, desk.tenant.id, "One harbour", "english")
        async with second.transaction():
            await second.execute(write, desk.tenant.id, "Another harbour", "simple")
            await desk.work()
    await desk.work()
    assert sorted(desk.contents) == ["Another harbour", "One harbour"]


async def test_messages_of_an_earlier_request_of_the_search_are_dropped(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    await desk.write("The harbour")
    await desk.match()
    await desk.services.saved_searches.save(
        desk.tenant.id, OWNER, NewSavedSearch("mine", {"mode": "keyword", "query": "harbour"})
    )
    assert await desk.states() == ["waiting"], "the same request"
    await desk.services.saved_searches.save(
        desk.tenant.id, OWNER, NewSavedSearch("mine", {"mode": "keyword", "query": "road"})
    )
    assert await desk.states() == ["given_up"]
    await desk.write("The road")
    await desk.work()
    assert desk.contents == ["The road"]


async def test_a_search_replaced_during_matching_sends_nothing_for_its_old_request(desk: Desk) -> None:
    desk.provider.delay = 0.5
    await desk.subscribe(query="harbour", mode="hybrid")
    await desk.write("The harbour")
    matching = asyncio.create_task(desk.services.worker.run_once(["match_changes"]))
    async with asyncio.timeout(60):
        while "harbour" not in desk.provider.queries:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await desk.services.saved_searches.save(
        desk.tenant.id, OWNER, NewSavedSearch("mine", {"mode": "keyword", "query": "road"})
    )
    assert await matching
    desk.provider.delay = 0.0
    assert await desk.states() == []


async def test_subscribing_again_does_not_shorten_the_pause_of_a_failing_address(desk: Desk) -> None:
    saved = await desk.subscribe(query="harbour", mode="keyword")
    await desk.sql("update subscriptions set failures = 3, retry_at = now() + interval '1 hour'")
    for url, waits in ((desk.endpoint.url, True), (f"{desk.endpoint.url}&other", False)):
        await desk.services.subscriptions.subscribe(desk.tenant.id, OWNER, saved, url)
        assert await desk.sql("select retry_at is not null from subscriptions") == [waits]
        assert await desk.sql("select failures from subscriptions") == [0]


async def test_changes_are_not_recorded_without_a_subscription(desk: Desk) -> None:
    await desk.services.saved_searches.save(desk.tenant.id, OWNER, NewSavedSearch("n", {"query": "harbour"}))
    await desk.write("The harbour")
    assert await desk.sql("select count(*) from entry_changes") == [0]
    saved = await desk.subscribe(query="harbour")
    await desk.write("Another harbour")
    assert await desk.sql("select count(*) from entry_changes") == [1]
    await desk.services.subscriptions.delete(desk.tenant.id, saved, actor=OWNER, owner=OWNER)
    assert await desk.sql("select count(*) from entry_changes") == [0]
    await desk.work()
    assert desk.endpoint.received == []


async def test_another_tenants_entries_are_not_sent(desk: Desk) -> None:
    other_tenant = await desk.services.tenants.create(NewTenant("others"), actor="test")
    await desk.subscribe(query="harbour")
    await desk.services.entries.create(other_tenant.id, EntryDraft(content="The harbour of others"))
    await desk.write("The own harbour")
    await desk.work()
    assert desk.contents == ["The own harbour"]


async def test_entries_hidden_or_changed_before_sending_are_not_sent(desk: Desk) -> None:
    await desk.subscribe(query="harbour", mode="keyword")
    entries = [await desk.write(f"The harbour {n}") for n in range(4)]
    await desk.match()
    past = datetime.now(UTC) - timedelta(seconds=1)
    changes: list[EntryDraft] = [
        EntryDraft(expires_at=past), EntryDraft(superseded_by_id=entries[3]), EntryDraft(content="A road"),
    ]  # fmt: skip
    for entry, change in zip(entries[:3], changes, strict=True):
        await desk.services.entries.change(desk.tenant.id, entry, change)
    await desk.work()
    assert desk.contents == ["The harbour 3"]
    assert sorted(await desk.states()) == ["delivered", "overtaken", "overtaken", "overtaken"]


REQUEST = {
    "query": " harbour ",
    "limit": 3,
    "weights": {"semantic": 0.5, "keyword": 0.5},
    "asset_id": ["0198c5a2-7d1e-7a60-8d0b-3d5f0a4c9e11"],
    "metadata": {"port": 1},
    "tags": ["sea"],
}


async def test_a_saved_search_is_visible_only_to_its_owner(desk: Desk) -> None:
    service, tenant = desk.services.saved_searches, desk.tenant.id
    other = await desk.services.tenants.create(NewTenant("other"), actor="test")
    saved, new = await service.save(tenant, "anna", NewSavedSearch(" harbours ", REQUEST))
    assert (new, saved.name, saved.request, saved.subscribed) == (
        True,
        "harbours",
        REQUEST | {"query": "harbour"},
        False,
    )
    assert await service.get(tenant, "anna", saved.id) == saved
    for tenant_id, owner in ((tenant, "berta"), (other.id, "anna")):
        with pytest.raises(SavedSearchNotFound):
            await service.get(tenant_id, owner, saved.id)
        with pytest.raises(SavedSearchNotFound):
            await service.delete(tenant_id, owner, saved.id)
        assert (await service.list_saved(tenant_id, owner)).items == []
    await service.delete(tenant, "anna", saved.id)
    with pytest.raises(SavedSearchNotFound):
        await service.get(tenant, "anna", saved.id)


async def test_the_same_name_again_replaces_the_request_and_keeps_the_id(desk: Desk) -> None:
    service, tenant = desk.services.saved_searches, desk.tenant.id
    first, _ = await service.save(tenant, "anna", NewSavedSearch("n", {"query": "harbour"}))
    await service.save(tenant, "berta", NewSavedSearch("n", {"query": "lamp"}))
    second, new = await service.save(tenant, "anna", NewSavedSearch("n", {"query": "ship"}))
    assert (new, second.id, second.request) == (False, first.id, {"query": "ship"})
    assert [s.request["query"] for s in (await service.list_saved(tenant, "berta")).items] == ["lamp"]


async def test_lists_are_paged_newest_first(desk: Desk) -> None:
    service, tenant = desk.services.saved_searches, desk.tenant.id
    for name in "abcde":
        await service.save(tenant, "anna", NewSavedSearch(name, {"query": name}))
    names: list[str] = []
    cursor = None
    while True:
        page = await service.list_saved(tenant, "anna", limit=2, cursor=cursor)
        names += [s.name for s in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert names == list("edcba")


async def test_the_number_of_saved_searches_of_an_owner_is_limited(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_SAVED", 1)
    service, tenant = desk.services.saved_searches, desk.tenant.id
    await service.save(tenant, "anna", NewSavedSearch("a", {"query": "harbour"}))
    with pytest.raises(Conflict, match="1 saved searches are the maximum"):
        await service.save(tenant, "anna", NewSavedSearch("b", {"query": "harbour"}))
    await service.save(tenant, "anna", NewSavedSearch("a", {"query": "lamp"}))
    await service.save(tenant, "berta", NewSavedSearch("b", {"query": "harbour"}))


async def test_changes_and_refusals_are_audited(desk: Desk) -> None:
    service, tenant = desk.services.saved_searches, desk.tenant.id
    saved, _ = await service.save(tenant, "anna", NewSavedSearch("n", {"query": "the secret harbour"}))
    with pytest.raises(SavedSearchNotFound):
        await service.delete(tenant, "berta", saved.id)
    await service.delete(tenant, "anna", saved.id)
    trail = (await desk.services.administration.audit(tenant)).items
    assert [(r.actor, r.action, r.outcome, list(r.subject_ids)) for r in trail] == [
        ("anna", "saved_search.delete", "done", [saved.id]),
        ("berta", "saved_search.delete", "refused", [saved.id]),
        ("anna", "saved_search.write", "done", [saved.id]),
    ]
    assert "secret" not in str(trail)


def test_a_stored_request_becomes_the_same_search() -> None:
    query = read_request(REQUEST)
    assert (query.query, query.limit, query.weights) == ("harbour", 3, Weights(0.5, 0.5))
    assert [str(i) for i in query.asset_id or ()] == REQUEST["asset_id"]
    assert read_request({"query": "x", "role": None}) == SearchQuery(query="x")


async def test_an_unknown_id_is_not_found(desk: Desk) -> None:
    with pytest.raises(SavedSearchNotFound):
        await desk.services.saved_searches.get(desk.tenant.id, "anna", uuid4())

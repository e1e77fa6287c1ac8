"""The queries on which both models are compared."""

from __future__ import annotations

import pytest

from app.contract.entries import EntryDraft
from app.contract.settings import SettingsPatch
from tests.knowledge.reembedding.moving import Move


@pytest.mark.slow
async def test_models_are_compared_on_the_queries_that_the_tenant_keeps(move: Move) -> None:
    await move.services.tenants.change_settings(move.tenant.id, SettingsPatch(keep_query_text=True))
    await move.add(50)
    for query in ("a first question", "a second question", "a second question"):
        await move.search(query, "hybrid")
    await move.services.journal.flush()
    move.new.queries.clear()
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    change = await move.status()
    assert change.comparison is not None
    assert (change.comparison.source, change.comparison.queries) == ("both", 50)
    assert {"a first question", "a second question"} < set(move.new.queries)
    assert len(set(move.new.queries)) == 50
    assert await move.sql("select comparison::text ~ 'question' from model_changes") is False
    await move.services.journal.flush()
    assert await move.sql("select count(*) from searches") == 3, "comparing leaves no receipts"


@pytest.mark.slow
async def test_models_are_compared_on_titles_without_kept_queries(move: Move) -> None:
    await move.services.tenants.change_settings(move.tenant.id, SettingsPatch(similarity_threshold=0.0))
    await move.services.entries.create_many(
        move.tenant.id, [EntryDraft(content=f"text {n}", title=f"Title {n}") for n in range(20)]
    )
    await move.services.embedder.embed_all(move.tenant.id)
    await move.search("not kept")
    await move.services.journal.flush()
    await move.start(switch_at_overlap=None)
    await move.run_jobs()
    change = await move.status()
    assert change.comparison is not None
    assert (change.comparison.source, change.comparison.queries) == ("titles", 20)
    assert {f"Title {n}" for n in range(20)} == set(move.new.queries)

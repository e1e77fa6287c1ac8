"""Generations of tenants in one process."""

from __future__ import annotations

from app.concurrency.part import REMEMBERED, Generations


def test_a_change_of_a_tenant_begins_a_generation_of_this_tenant_only() -> None:
    generations = Generations()
    before, others = generations.current("one"), generations.current("other")
    generations.advance("one")
    after = generations.current("one")
    assert before != after
    generations.advance("one")
    assert generations.current("one") not in (before, after)
    assert generations.current("other") == others


def test_changes_of_more_tenants_than_are_remembered_begin_a_generation_of_all() -> None:
    generations = Generations()
    generations.advance("one")
    seen = {tenant: generations.current(tenant) for tenant in ("one", "other")}
    for number in range(REMEMBERED):
        generations.advance(number)
    assert all(generations.current(tenant) != before for tenant, before in seen.items())
    generations.advance("one")
    assert generations.current("one") > generations.current("other") > seen["one"]

"""What a manifest changes, without a database."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.contract.sources import MAX_ITEMS, Manifest, ManifestItem, name_of, read_items
from app.db.queries.sources import StoredItem
from app.db.rows import new_id
from app.errors import InvalidInput
from app.knowledge.sources.manifest import Plan, plan_manifest

LIMIT = 1_000


def stored(external_id: str, digest: str, **values: object) -> StoredItem:
    fields: dict[str, object] = {
        "asset_id": new_id(),
        "stored_digest": digest,
        "problem": None,
        "failed": False,
    }
    return StoredItem(external_id, digest, name_of(external_id), **(fields | values))  # type: ignore[arg-type]


def wanted(external_id: str, digest: str, size: int | None = None) -> ManifestItem:
    return ManifestItem(external_id, digest, name_of(external_id), size)


def test_moved_file_keeps_its_asset() -> None:
    old = stored("a/x.md", "1")
    plan = plan_manifest([old], [wanted("b/x.md", "1")], max_bytes=LIMIT)
    assert plan.renamed == [(old.asset_id, "b/x.md", "x.md")]
    assert [(c.old_id, c.new_id, c.again) for c in plan.changes] == [("a/x.md", "b/x.md", False)]
    assert (plan.moved, plan.removed_assets, plan.additions) == (1, [], [])


def test_moved_files_with_equal_bytes_keep_their_names_first() -> None:
    old = [stored("a/x.md", "1"), stored("a/y.md", "1")]
    plan = plan_manifest(old, [wanted("b/y.md", "1"), wanted("b/a.md", "1")], max_bytes=LIMIT)
    assert {c.old_id: c.new_id for c in plan.changes} == {"a/y.md": "b/y.md", "a/x.md": "b/a.md"}


def test_moved_file_with_another_ending_is_read_again() -> None:
    plan = plan_manifest([stored("x.md", "1")], [wanted("x.txt", "1")], max_bytes=LIMIT)
    assert [c.again for c in plan.changes] == [True]


@pytest.mark.parametrize("problem", [None, "unsupported"])
def test_file_moved_to_a_place_that_has_no_asset_keeps_its_asset(problem: str | None) -> None:
    old, waiting = (
        stored("x.md", "1"),
        stored("y.md", "2", asset_id=None, stored_digest=None, problem=problem),
    )
    plan = plan_manifest([old, waiting], [wanted("y.md", "1")], max_bytes=LIMIT)
    assert plan.renamed == [(old.asset_id, "y.md", "y.md")]
    assert [(c.old_id, c.new_id) for c in plan.changes] == [("x.md", "y.md")]
    assert (plan.removed_assets, plan.removed_items, plan.additions) == ([], ["y.md"], [])


def test_file_with_a_copy_that_stays_has_not_moved() -> None:
    old = stored("x.md", "1")
    plan = plan_manifest([old], [wanted("x.md", "1"), wanted("y.md", "1")], max_bytes=LIMIT)
    assert (plan.moved, [i.external_id for i in plan.additions]) == (0, ["y.md"])


def test_exchanged_files_are_changed_not_moved() -> None:
    old = [stored("x.md", "1"), stored("y.md", "2")]
    plan = plan_manifest(old, [wanted("x.md", "2"), wanted("y.md", "1")], max_bytes=LIMIT)
    assert (plan.changed, plan.moved, plan.removed_assets) == (2, 0, [])


def test_file_that_becomes_too_large_is_removed_and_refused() -> None:
    old = stored("x.md", "1")
    plan = plan_manifest([old], [wanted("x.md", "2", LIMIT + 1)], max_bytes=LIMIT)
    assert plan.removed_assets == [old.asset_id]
    assert plan.additions[0].problem == "the file is larger than the limit of 1000 bytes"


def test_file_that_becomes_empty_is_removed_and_refused() -> None:
    old = stored("x.md", "1")
    plan = plan_manifest([old], [wanted("x.md", "2", 0), wanted("new.md", "2", 0)], max_bytes=LIMIT)
    assert plan.removed_assets == [old.asset_id]
    assert {i.external_id: i.problem for i in plan.additions} == {"x.md": "the file is empty", "new.md": None}
    refused = stored("x.md", "2", asset_id=None, problem="the file is empty")
    assert not plan_manifest([refused], [wanted("x.md", "2", 0)], max_bytes=LIMIT).changes


def test_refused_file_is_needed_again_when_it_fits_or_on_request() -> None:
    refused = stored("x.md", "1", asset_id=None, problem="the file is larger than the limit of 10 bytes")
    assert plan_manifest([refused], [wanted("x.md", "1", 500)], max_bytes=LIMIT).changes[0].again
    other = replace(refused, problem="unsupported")
    assert not plan_manifest([other], [wanted("x.md", "1", 500)], max_bytes=LIMIT).changes
    assert plan_manifest([other], [wanted("x.md", "1", 500)], max_bytes=LIMIT, retry=True).changes[0].again


paths = st.sampled_from(["a.md", "b.md", "c/a.md", "c/b.md", "d.txt"])
contents = st.dictionaries(paths, st.sampled_from("123"))


@given(contents, contents, st.sets(paths))
def test_plan_turns_the_stored_items_into_the_manifest(
    before: dict[str, str], after: dict[str, str], missing: set[str]
) -> None:
    items = [
        stored(path, digest, **({"asset_id": None, "stored_digest": None} if path in missing else {}))
        for path, digest in sorted(before.items())
    ]
    plan = plan_manifest(items, [wanted(path, digest) for path, digest in after.items()], max_bytes=LIMIT)
    assert apply(plan, items) == after
    held = {i.asset_id: i.stored_digest for i in items}
    names = {i.external_id: i.asset_id for i in items if i.asset_id is not None}
    for change in plan.changes:
        if change.old_id != change.new_id:
            assert change.new_id not in names
            assert change.old_id not in after
            assert held[names[change.old_id]] == change.digest


def apply(plan: Plan, items: list[StoredItem]) -> dict[str, str]:
    removed: set[UUID | str | None] = {*plan.removed_assets, *plan.removed_items}
    rest = {i.external_id: i.digest for i in items if i.asset_id not in removed and i.external_id not in removed}
    for change in plan.changes:
        del rest[change.old_id]
    rest |= {change.new_id: change.digest for change in plan.changes}
    return rest | {item.external_id: item.digest for item in plan.additions}


def test_moves_of_many_equal_files_take_time_in_proportion() -> None:
    items = [stored(f"a/{n}.md", "1") for n in range(20_000)]
    plan = plan_manifest(items, [wanted(f"b/{n}.txt", "1") for n in range(20_000)], max_bytes=LIMIT)
    assert plan.moved == 20_000


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([1], "items.0"),
        ([{"external_id": "a"}], "items.0.digest"),
        ([{"external_id": "", "digest": "1"}], "items.0.external_id"),
        ([{"external_id": "a" * 513, "digest": "1"}], "items.0.external_id"),
        ([{"external_id": "a\x00", "digest": "1"}], "items.0.external_id"),
        ([{"external_id": "a", "digest": 1}], "items.0.digest"),
        ([{"external_id": "a", "digest": "1" * 201}], "items.0.digest"),
        ([{"external_id": "a", "digest": "1", "name": "b/c"}], "items.0.name"),
        ([{"external_id": "a", "digest": "1", "size": -1}], "items.0.size"),
        ([{"external_id": "a", "digest": "1", "size": True}], "items.0.size"),
        ([{"external_id": "a", "digest": "1", "path": "b"}], "items.0.path"),
        ([{"external_id": "a", "digest": "1"}, {"external_id": "a", "digest": "2"}], "items.1.external_id"),
        ([{}] * (MAX_ITEMS + 1), "items"),
    ],
)
def test_invalid_manifest_is_refused(items: list[object], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_items(Manifest(items).items)
    assert refused.value.errors[0].field == field


def test_name_of_an_item_is_the_last_part_of_its_id() -> None:
    names = {"a/b.md": "b.md", "b.md": "b.md", "a/b/": "b", "/": "/"}
    assert {given: name_of(given) for given in names} == names

"""Sources and the plan of a run."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.sources import Manifest, ManifestItem, name_of
from app.db.queries.sources import StoredItem
from app.db.rows import new_id
from app.errors import Conflict, InvalidInput, ItemChanged, RunSuperseded, SourceNotFound
from app.knowledge.sources.manifest import Plan, plan_manifest
from app.knowledge.sources.run import RunOptions
from app.knowledge.sources.service import MAX_SOURCES
from app.origins.origin import OriginUnavailable
from tests.fixtures.workers import run_due
from tests.knowledge.sources.origins import FIVE, Shelf, assets_of, digest, find, run_source

pytestmark = pytest.mark.own_tenants


async def test_run_makes_the_source_agree_and_hits_say_so(services: Services, tenant: Tenant) -> None:
    shelf, began = Shelf(dict(FIVE)), datetime.now(UTC)
    outcome = await run_source(services, tenant, shelf)
    assert (outcome.accepted.run, outcome.accepted.added, outcome.failed) == (1, 5, [])
    status = await services.sources.get(tenant.id, "shelf")
    assert (status.agrees, status.items, status.indexed, status.missing) == (True, 5, 5, 0)
    assert status.agreed_at is not None
    assert began <= status.agreed_at <= datetime.now(UTC)
    (hit,) = await find(services, tenant, "basalt")
    assert hit.origin is not None
    assert (hit.origin.source, hit.origin.agreed_at) == ("shelf", status.agreed_at)
    again = await run_source(services, tenant, shelf)
    assert (again.accepted.added, again.accepted.changed, again.waiting) == (0, 0, {})
    (hit,) = await find(services, tenant, "basalt")
    assert hit.origin is not None
    assert hit.origin.agreed_at is not None
    assert hit.origin.agreed_at > status.agreed_at


async def test_changed_file_is_replaced_moved_file_keeps_its_id_and_removed_file_is_not_found(
    services: Services, tenant: Tenant
) -> None:
    shelf = Shelf(dict(FIVE))
    await run_source(services, tenant, shelf)
    before = await assets_of(services, tenant, "shelf")
    shelf.files["amber.md"] = b"The zircon is here."
    shelf.files["deep/basalt.md"] = shelf.files.pop("basalt.md")
    del shelf.files["copper.md"]
    accepted = (await run_source(services, tenant, shelf)).accepted
    assert (accepted.added, accepted.changed, accepted.moved, accepted.removed) == (0, 1, 1, 1)
    after = await assets_of(services, tenant, "shelf")
    assert after["deep/basalt.md"] == before["basalt.md"]
    assert after["amber.md"] == before["amber.md"]
    found = {word: [h.asset_name for h in await find(services, tenant, word)] for word in ("amber", "zircon", "copper")}
    assert found == {"amber": [], "zircon": ["amber.md"], "copper": []}
    assert (await services.sources.get(tenant.id, "shelf")).agrees


async def test_origin_is_kept_without_user_and_password(services: Services, tenant: Tenant) -> None:
    manifest = Manifest([], origin="https://ada:s@cret@example.com/a and git@example.com:b", allow_empty=True)
    await services.sources.accept(tenant.id, "shelf", manifest)
    assert (await services.sources.get(tenant.id, "shelf")).origin == ("https://example.com/a and git@example.com:b")
    signed = "https://example.com/a?list=2&X-Amz-Signature=abc&access_token=d#part"
    await services.sources.accept(tenant.id, "shelf", Manifest([], origin=signed, allow_empty=True))
    assert (await services.sources.get(tenant.id, "shelf")).origin == (
        "https://example.com/a?list=2&X-Amz-Signature=…&access_token=…#part"
    )


async def test_failed_listing_changes_nothing(services: Services, tenant: Tenant) -> None:
    await run_source(services, tenant, Shelf(dict(FIVE)))
    before = await services.sources.get(tenant.id, "shelf")
    with pytest.raises(OriginUnavailable, match="locked"):
        await run_source(
            services, tenant, Shelf(broken=True), options=RunOptions(confirm_deletions=True, allow_empty=True)
        )
    assert await services.sources.get(tenant.id, "shelf") == before


async def test_second_of_two_runs_at_the_same_time_is_refused(services: Services, tenant: Tenant) -> None:
    first = Manifest([{"external_id": "a.md", "digest": "1"}], run=0)
    accepted, is_new = await services.sources.accept(tenant.id, "shelf", first)
    assert (accepted.run, is_new) == (1, True)
    with pytest.raises(RunSuperseded, match="number 1"):
        await services.sources.accept(tenant.id, "shelf", first)
    await services.sources.accept(tenant.id, "shelf", Manifest(first.items, run=1))
    with pytest.raises(RunSuperseded):
        await services.sources.upload(tenant.id, "shelf", 1, Upload("a.md", b"A", external_id="a.md"))


async def test_upload_must_have_the_digest_of_the_manifest(services: Services, tenant: Tenant) -> None:
    items = [{"external_id": "a.md", "digest": digest(b"The amber is here.")}]
    run = (await services.sources.accept(tenant.id, "shelf", Manifest(items)))[0].run
    with pytest.raises(ItemChanged):
        await services.sources.upload(tenant.id, "shelf", run, Upload("a.md", b"B", external_id="a.md"))
    with pytest.raises(ItemChanged):
        await services.sources.upload(tenant.id, "shelf", run, Upload("b.md", b"B", external_id="b.md"))
    with pytest.raises(SourceNotFound):
        await services.sources.upload(tenant.id, "shed", run, Upload("b.md", b"B", external_id="b.md"))
    with pytest.raises(InvalidInput):
        await services.sources.upload(tenant.id, "shelf", run, Upload("b.md", b"B"))
    assert not await assets_of(services, tenant, "shelf")
    assert (await services.sources.get(tenant.id, "shelf")).missing == 1


@pytest.mark.slow
async def test_equal_paths_and_bytes_of_two_sources_and_a_caller_are_assets_of_their_own(
    services: Services, tenant: Tenant
) -> None:
    data = {"amber.md": b"The amber is here."}
    await run_source(services, tenant, Shelf(dict(data)), "one")
    await run_source(services, tenant, Shelf(dict(data)), "two")
    await services.assets.upload(tenant.id, Upload("amber.md", data["amber.md"]))
    named, new = await services.assets.upload(tenant.id, Upload("amber.md", data["amber.md"], external_id="amber.md"))
    assert new
    ids = [await assets_of(services, tenant, source) for source in ("one", "two", None)]
    assert len({i for found in ids for i in found.values()}) == 3
    await run_source(services, tenant, Shelf(), "one", RunOptions(allow_empty=True))
    assert await assets_of(services, tenant, "two")
    assert (await services.assets.get(tenant.id, named.id)).source is None


@pytest.mark.slow
async def test_file_that_cannot_be_ingested_does_not_prevent_agreement(services: Services, tenant: Tenant) -> None:
    shelf = Shelf({**FIVE, "broken.pdf": b"%PDF-1.7 nothing", "picture.xyz": b"\x00\x01\x02\x03" * 99, "void.md": b""})
    outcome = await run_source(services, tenant, shelf)
    assert [path for path, _ in outcome.refused] == ["picture.xyz", "void.md"]
    status = await services.sources.get(tenant.id, "shelf")
    assert (status.agrees, status.indexed, status.failed, status.refused) == (True, 5, 1, 2)
    for state in ("failed", "refused"):
        items = (await services.sources.list_items(tenant.id, "shelf", state=state)).items
        assert items
        assert all(item.reason for item in items)
    again = await run_source(services, tenant, shelf)
    assert (again.refused, again.waiting) == ([], {})
    retried = await run_source(services, tenant, shelf, options=RunOptions(retry=True))
    assert (len(retried.refused), len(retried.waiting)) == (2, 1)
    assert (await services.sources.get(tenant.id, "shelf")).agrees


async def test_version_that_fails_takes_the_former_text_out_of_the_index(services: Services, tenant: Tenant) -> None:
    shelf = Shelf({**FIVE, "notes.pdf": b"plain amber"})
    shelf.files["notes.json"] = b'{"zircon": 1}'
    await run_source(services, tenant, shelf)
    assert await find(services, tenant, "zircon")
    shelf.files["notes.json"] = b"{}"
    shelf.files["amber.md"] = b"\x00\x01\x02\x03" * 99
    await run_source(services, tenant, shelf)
    assert not await find(services, tenant, "zircon")
    status = await services.sources.get(tenant.id, "shelf")
    assert (status.agrees, status.items) == (True, 7)


async def test_asset_that_a_caller_deletes_comes_back_with_the_next_run(services: Services, tenant: Tenant) -> None:
    shelf = Shelf(dict(FIVE))
    await run_source(services, tenant, shelf)
    ids = await assets_of(services, tenant, "shelf")
    page = await services.assets.list_assets(tenant.id)
    await services.assets.delete(tenant.id, next(a.id for a in page.items if a.external_id == "amber.md"))
    status = await services.sources.get(tenant.id, "shelf")
    (listed,) = (await services.sources.list_sources(tenant.id)).items
    assert (status.missing, status.agrees, listed.agrees) == (1, False, False)
    await run_source(services, tenant, shelf)
    after = await assets_of(services, tenant, "shelf")
    assert after.keys() == ids.keys()
    status = await services.sources.get(tenant.id, "shelf")
    (listed,) = (await services.sources.list_sources(tenant.id)).items
    assert (status.indexed, status.agrees, listed.agrees) == (5, True, True)


async def test_asset_deleted_during_a_run_prevents_agreement(services: Services, tenant: Tenant) -> None:
    items = [{"external_id": n, "digest": digest(d)} for n, d in FIVE.items()]
    run = (await services.sources.accept(tenant.id, "shelf", Manifest(items)))[0].run
    for name, data in FIVE.items():
        await services.sources.upload(tenant.id, "shelf", run, Upload(name, data, external_id=name))
    page = await services.assets.list_assets(tenant.id)
    await services.assets.delete(tenant.id, page.items[0].id)
    await run_due(services.worker)
    status = await services.sources.get(tenant.id, "shelf")
    assert (status.agrees, status.agreed_at, status.missing) == (False, None, 1)


@pytest.mark.slow
async def test_deleted_source_keeps_its_assets_unless_told_otherwise(services: Services, tenant: Tenant) -> None:
    await run_source(services, tenant, Shelf(dict(FIVE)), "one")
    await run_source(services, tenant, Shelf(dict(FIVE)), "two")
    await services.sources.delete(tenant.id, "one")
    assert len(await assets_of(services, tenant, None)) == 5
    assert all(hit.origin is None or hit.origin.source == "two" for hit in await find(services, tenant, "amber"))
    with pytest.raises(Conflict, match=r"amber\.md"):
        await services.sources.delete(tenant.id, "two")
    await services.sources.delete(tenant.id, "two", assets="delete")
    assert (await services.sources.list_sources(tenant.id)).items == []
    assert not await assets_of(services, tenant, "two")
    assert len(await assets_of(services, tenant, None)) == 5
    with pytest.raises(SourceNotFound):
        await services.sources.delete(tenant.id, "two")


async def test_listing_time_in_the_future_counts_as_now(services: Services, tenant: Tenant) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    accepted, _ = await services.sources.accept(tenant.id, "shelf", Manifest([], listed_at=later))
    assert accepted.agreed_at is not None
    assert accepted.agreed_at <= datetime.now(UTC)
    with pytest.raises(InvalidInput):
        await services.sources.accept(tenant.id, "shelf", Manifest([], listed_at=datetime.now()))  # noqa: DTZ005


async def test_lists_have_pages(services: Services, tenant: Tenant) -> None:
    items = [{"external_id": f"{n}.md", "digest": "1"} for n in range(5)]
    for name in ("c", "a", "b"):
        await services.sources.accept(tenant.id, name, Manifest(items))
    first = await services.sources.list_sources(tenant.id, limit=2)
    rest = await services.sources.list_sources(tenant.id, limit=2, cursor=first.next_cursor)
    assert [s.name for s in (*first.items, *rest.items)] == ["a", "b", "c"]
    assert rest.next_cursor is None
    page = await services.sources.list_items(tenant.id, "a", state="missing", limit=4)
    last = await services.sources.list_items(tenant.id, "a", state="missing", limit=4, cursor=page.next_cursor)
    assert [i.external_id for i in (*page.items, *last.items)] == [f"{n}.md" for n in range(5)]
    with pytest.raises(InvalidInput):
        await services.sources.list_items(tenant.id, "a", cursor="?")
    with pytest.raises(SourceNotFound):
        await services.sources.list_items(tenant.id, "none")


async def test_number_of_sources_is_bounded(services: Services, tenant: Tenant) -> None:
    for number in range(MAX_SOURCES):
        await services.sources.accept(tenant.id, f"s{number}", Manifest([]))
    with pytest.raises(Conflict, match="maximum"):
        await services.sources.accept(tenant.id, "one-more", Manifest([]))


LIMIT = 1_000


def stored(external_id: str, digest: str, **values: object) -> StoredItem:
    fields: dict[str, object] = {"asset_id": new_id(), "stored_digest": digest, "problem": None, "failed": False}
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
    old, waiting = (stored("x.md", "1"), stored("y.md", "2", asset_id=None, stored_digest=None, problem=problem))
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


def test_name_of_an_item_is_the_last_part_of_its_id() -> None:
    names = {"a/b.md": "b.md", "b.md": "b.md", "a/b/": "b", "/": "/"}
    assert {given: name_of(given) for given in names} == names

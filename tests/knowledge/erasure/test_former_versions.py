"""The receipt of an erasure names former versions of other items that may have erased texts."""

from __future__ import annotations

from uuid import UUID

import pytest

from app.composition.services import Services
from app.contract.administration import Tenant
from app.contract.assets import Upload
from app.contract.entries import EntryDraft
from app.contract.erasures import Erasure, NewErasure
from app.contract.settings import SettingsPatch
from tests.knowledge.conftest import RunJobs

pytestmark = pytest.mark.own_tenants

LEAVER = "quokka.bird@example.com"


async def add(services: Services, tenant: Tenant, content: str, actor: str = "ada", **fields: object) -> UUID:
    entry, _ = await services.entries.create(tenant.id, EntryDraft(content=content, **fields), actor=actor)  # type: ignore[arg-type]
    return entry.id


async def change(services: Services, tenant: Tenant, entry_id: UUID, actor: str, **fields: object) -> None:
    await services.entries.change(tenant.id, entry_id, EntryDraft(**fields), actor=actor)  # type: ignore[arg-type]


def named(erasure: Erasure) -> list[tuple[object, ...]]:
    """The relation, kind, id and version of each item named for decision."""
    fields = ("relation", "kind", "id", "version")
    return sorted(tuple(dict(each)[name] for name in fields if name in each) for each in erasure.derived)


@pytest.fixture
async def keeper(services: Services, tenant: Tenant) -> Tenant:
    """A tenant that keeps former versions."""
    await services.tenants.change_settings(tenant.id, SettingsPatch(keep_versions_days=30))
    return tenant


async def test_former_versions_with_words_of_a_subject_are_named(services: Services, keeper: Tenant) -> None:
    """Those after the subject's change, as long as its words may be in them; not those before."""
    kept = await add(services, keeper, "Written by ada")
    await change(services, keeper, kept, LEAVER, content="The address of the leaver")
    await change(services, keeper, kept, "ada", tags=["x"])
    await change(services, keeper, kept, "ada", content="Written by ada again")
    gone = await add(services, keeper, "Also written by ada")
    await change(services, keeper, gone, LEAVER, content="The telephone of the leaver")
    await services.entries.delete(keeper.id, gone)
    await change(services, keeper, await add(services, keeper, "By another"), "ada", content="As before")

    erasure = await services.erasures.erase(keeper.id, NewErasure(subject=LEAVER), actor="ada")

    assert named(erasure) == sorted(
        [
            ("changed", "entry", str(kept)),
            *(("changed", "entry_version", str(kept), version) for version in (2, 3)),
            ("changed", "entry_version", str(gone), 2),
        ]
    )
    assert erasure.derived_total == 4
    for entry_id, version in ((kept, 2), (kept, 3), (gone, 2)):
        versions = (await services.versions.list_versions(keeper.id, entry_id)).items
        assert [v for v in versions if v.version == version and "leaver" in v.content]
    assert "former_entries" in [each.place for each in erasure.remains]


async def test_former_versions_of_a_file_are_named_by_its_asset(
    services: Services, keeper: Tenant, run_jobs: RunJobs
) -> None:
    for actor, text in (("ada", b"By ada"), (LEAVER, b"By the leaver"), ("ada", b"By ada again")):
        asset, _ = await services.assets.upload(keeper.id, Upload("a.txt", text, external_id="a"), actor=actor)
        await run_jobs()
    erasure = await services.erasures.erase(keeper.id, NewErasure(subject=LEAVER), actor="ada")
    assert named(erasure) == [
        ("changed", "asset", str(asset.id)),
        ("changed", "asset_versions", str(asset.id)),
    ]


async def test_former_copies_of_an_erased_text_are_named(services: Services, keeper: Tenant) -> None:
    """Copies in former versions of others, and copies of what the erased entry said before."""
    entry = await add(services, keeper, "The origin", external_id="origin")
    copy = await add(services, keeper, "The origin", external_id="copy")
    derived = await add(services, keeper, "The derived", source_ids=[entry])
    await change(services, keeper, copy, "ada", content="Something else")
    await change(services, keeper, derived, "ada", content="Something of its own", source_ids=[])
    await change(services, keeper, entry, "ada", content="The origin today")
    today = await add(services, keeper, "The origin", external_id="later")

    erasure = await services.erasures.erase(keeper.id, NewErasure(entry_id=entry), actor="ada")

    assert named(erasure) == sorted(
        [
            ("derived", "entry_version", str(derived), 1),
            ("same_content", "entry", str(today)),
            ("same_content", "entry_version", str(copy), 1),
        ]
    )
    assert (await services.versions.list_versions(keeper.id, copy)).items[0].content == "The origin"


async def test_former_versions_of_another_tenant_are_not_named(
    services: Services, keeper: Tenant, other_tenant: Tenant
) -> None:
    await services.tenants.change_settings(other_tenant.id, SettingsPatch(keep_versions_days=30))
    theirs = await add(services, other_tenant, "The origin", LEAVER)
    await change(services, other_tenant, theirs, "ada", content="Something else")
    entry = await add(services, keeper, "The origin")
    for erasure in (
        await services.erasures.erase(keeper.id, NewErasure(entry_id=entry), actor="ada"),
        await services.erasures.erase(keeper.id, NewErasure(subject=LEAVER), actor="ada"),
    ):
        assert (named(erasure), erasure.derived_total) == ([], 0)

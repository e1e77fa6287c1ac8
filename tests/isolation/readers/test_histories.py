"""Random histories of writes and changes of readers and writers, against a model that compares sets."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from app.composition.services import Services, build_services
from app.contract.administration import NewTenant
from app.contract.assets import AssetPatch, Upload
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.contract.settings import SettingsPatch
from app.db.database import Database
from app.db.principals import Rights, acting_as, principals_of
from app.embedded import EmbeddedAddress
from app.errors import EntryNotFound, NotAWriter
from tests.fixtures.database.cluster import MODEL, new_database
from tests.fixtures.providers.failing import FailingProvider

GROUPS = ("a", "b", "c")
PEOPLE = {
    "ann": principals_of("ann", ["a"]),
    "ben": principals_of("ben", ["a", "b"]),
    "cleo": principals_of("cleo", ["c"]),
    "dan": principals_of("dan", []),
}
STEPS = 40


Principals = frozenset[str] | None
"""A list of readers or writers; None: all."""


@dataclass
class Item:
    """An entry, or the only chunk of an asset."""

    text: str
    readers: Principals
    writers: Principals
    asset: UUID | None = None


@dataclass
class Model:
    """What exists, by the id of the entry."""

    items: dict[UUID, Item] = field(default_factory=dict)

    def seen_by(self, person: str) -> list[UUID]:
        """The entries that a person may read."""
        return [i for i, item in self.items.items() if passes(item.readers, person)]


def passes(principals: Principals, person: str) -> bool:
    return principals is None or bool(principals & set(PEOPLE[person]))


@pytest.fixture(scope="module")
async def services(cluster: EmbeddedAddress, template: str) -> AsyncIterator[Services]:
    async with new_database(cluster, template=template) as made:
        database = Database(made.service_dsn)
        built = await build_services(database, FailingProvider(MODEL))
        yield built
        await built.close()
        await database.close()


def choose_principals(chance: random.Random, person: str) -> list[str] | None:
    if chance.random() < 0.4:
        return None
    own = chance.choice([p for p in PEOPLE[person] if p != "everyone"])
    others = chance.sample([*(f"group:{g}" for g in GROUPS), "user:dan", "user:ann"], chance.randrange(3))
    return sorted({own, *others})


def listed(principals: list[str] | None) -> Principals:
    return None if principals is None else frozenset(principals)


@dataclass
class Player:
    """Does one step of a history, in the service and in the model."""

    services: Services
    tenant: UUID
    model: Model
    chance: random.Random

    async def add(self, person: str, name: str) -> None:
        readers, writers = (choose_principals(self.chance, person) for _ in range(2))
        draft = EntryDraft(content=f"harbour {name}", readers=readers, writers=writers, tags=[f"t{len(name) % 5}"])
        entry, _ = await self.services.entries.create(self.tenant, draft)
        self.model.items[entry.id] = Item(f"harbour {name}", listed(readers), listed(writers))

    async def upload(self, person: str, name: str) -> None:
        readers, writers = (choose_principals(self.chance, person) for _ in range(2))
        text = f"harbour document {name}"
        file = Upload(f"{name}.md", text.encode(), readers=readers, writers=writers, tags=["t1"])
        asset, _ = await self.services.assets.upload(self.tenant, file)
        while await self.services.worker.run_once():
            pass
        (chunk,) = (await self.services.entries.list_entries(self.tenant, asset_id=asset.id)).items
        self.model.items[chunk.id] = Item(chunk.content, listed(readers), listed(writers), asset.id)

    async def change(self, person: str, name: str) -> None:
        """Change an entry that the person sees, and expect a refusal where it is not one of the writers."""
        entry_id = self.chance.choice(self.model.seen_by(person))
        item, action = (self.model.items[entry_id], self.chance.choice(["readers", "writers", "text", "delete"]))
        principals = choose_principals(self.chance, person)
        if not passes(item.writers, person):
            with pytest.raises(NotAWriter):
                await self._do(action, entry_id, item, principals, name)
            return
        await self._do(action, entry_id, item, principals, name)
        if action == "delete":
            del self.model.items[entry_id]
        elif action == "readers":
            item.readers = listed(principals)
        elif action == "writers":
            item.writers = listed(principals)
        elif item.asset is None:
            item.text = f"harbour again {name}"

    async def _do(self, action: str, entry_id: UUID, item: Item, principals: list[str] | None, name: str) -> None:
        entries, assets = self.services.entries, self.services.assets
        if action == "delete" and item.asset is not None:
            await assets.delete(self.tenant, item.asset)
        elif action == "delete":
            await entries.delete(self.tenant, entry_id)
        elif action == "text" and item.asset is None:
            await entries.change(self.tenant, entry_id, EntryDraft(content=f"harbour again {name}"))
        elif action == "text":
            await entries.change(self.tenant, entry_id, EntryDraft(confidence=self.chance.random()))
        elif item.asset is not None:
            await assets.change(self.tenant, item.asset, AssetPatch(**{action: principals}))  # type: ignore[arg-type]
        else:
            await entries.change(self.tenant, entry_id, EntryDraft(**{action: principals}))  # type: ignore[arg-type]

    async def steal(self, person: str, _: str) -> None:
        hidden = sorted(self.model.items.keys() - set(self.model.seen_by(person)))
        if hidden:
            draft = EntryDraft(readers=None, writers=None)
            with pytest.raises(EntryNotFound):
                await self.services.entries.change(self.tenant, self.chance.choice(hidden), draft)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 30))])
async def test_random_histories_agree_with_the_model(services: Services, seed: int) -> None:
    chance, model = random.Random(seed), Model()  # noqa: S311  # not for secrets
    tenant = (await services.tenants.create(NewTenant(f"history-{seed}"), actor="test")).id
    await services.tenants.change_settings(tenant, SettingsPatch(keep_versions_days=30), actor="test")
    player = Player(services, tenant, model, chance)
    for step in range(STEPS):
        person = chance.choice(list(PEOPLE))
        acts = [player.add, player.add, player.upload, player.steal, *[player.change] * 5]
        act = chance.choice(acts) if model.seen_by(person) else player.add
        with acting_as(PEOPLE[person], Rights.WRITE):
            await act(person, f"{seed}-{step}")
        if step % 8 == 7:
            await compare(services, tenant, model)
    await compare(services, tenant, model)


async def compare(services: Services, tenant: UUID, model: Model) -> None:
    """What each person finds, lists, counts and found in the past is what it may read today."""
    while await services.worker.run_once():
        pass
    for person, principals in PEOPLE.items():
        expected = {model.items[i].text for i in model.seen_by(person)}
        with acting_as(principals, Rights.READ):
            for mode in ("keyword", "semantic", "hybrid"):
                query = SearchQuery(query="harbour", mode=mode, limit=100, similarity_threshold=0)
                found = await services.search.search(tenant, query, subject=person)
                texts = {hit.content for hit in found.results}
                assert texts <= expected, (person, mode)
                if mode != "semantic":
                    assert texts == expected, (person, mode)
            entries = (await services.entries.list_entries(tenant, limit=200)).items
            assert {entry.content for entry in entries} == expected, person
            counted = (await services.reading.list_tags(tenant, limit=50)).items
            assert sum(tag.count for tag in counted) == len(expected), person

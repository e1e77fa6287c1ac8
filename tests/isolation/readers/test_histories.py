"""Random histories of writes and changes of readers, against a model that compares sets."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from app.composition.services import Services, build_services
from app.db.database import Database
from app.db.principals import acting_as, principals_of
from app.embedded import EmbeddedAddress
from app.errors import EntryNotFound
from app.knowledge.entries.drafts import EntryDraft
from app.knowledge.ingestion.assets import Upload
from app.knowledge.ingestion.changes import AssetDraft
from app.knowledge.search.query import SearchQuery
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


@dataclass
class Model:
    """What exists: the readers of each text, by the id of its entry."""

    readers: dict[UUID, frozenset[str] | None] = field(default_factory=dict)
    texts: dict[UUID, str] = field(default_factory=dict)
    assets: dict[UUID, UUID] = field(default_factory=dict)

    def seen_by(self, person: str) -> set[str]:
        """The texts that a person may read."""
        own = set(PEOPLE[person])
        return {self.texts[i] for i, readers in self.readers.items() if readers is None or readers & own}


@pytest.fixture(scope="module")
async def services(cluster: EmbeddedAddress, template: str) -> AsyncIterator[Services]:
    async with new_database(cluster, template=template) as made:
        database = Database(made.service_dsn)
        built = await build_services(database, FailingProvider(MODEL))
        yield built
        await built.close()
        await database.close()


def choose_readers(chance: random.Random, person: str) -> list[str] | None:
    if chance.random() < 0.3:
        return None
    own = chance.choice([p for p in PEOPLE[person] if p != "everyone"])
    others = chance.sample([*(f"group:{g}" for g in GROUPS), "user:dan", "user:ann"], chance.randrange(3))
    return sorted({own, *others})


@pytest.mark.parametrize("seed", range(6))
async def test_random_histories_agree_with_the_model(services: Services, seed: int) -> None:
    chance, model = random.Random(seed), Model()  # noqa: S311  # not for secrets
    tenant = (await services.tenants.create(f"history-{seed}", actor="test")).id
    await services.tenants.change_settings(tenant, {"keep_versions_days": 30}, actor="test")
    for step in range(STEPS):
        person = chance.choice(list(PEOPLE))
        visible = [i for i, r in model.readers.items() if r is None or r & set(PEOPLE[person])]
        hidden = [i for i in model.readers if i not in visible]
        with acting_as(PEOPLE[person]):
            action = chance.choice(["add", "add", "change", "delete", "upload", "move", "steal", "retext"])
            if action == "add":
                readers = choose_readers(chance, person)
                text = f"harbour {seed}-{step} by {person}"
                draft = EntryDraft(content=text, readers=readers, tags=[f"t{step % 5}"])
                entry, _ = await services.entries.create(tenant, draft)
                model.readers[entry.id] = None if readers is None else frozenset(readers)
                model.texts[entry.id] = text
            elif action == "upload":
                readers = choose_readers(chance, person)
                text = f"harbour document {seed}-{step}"
                upload = Upload(f"{step}.md", text.encode(), readers=readers, tags=[f"t{step % 5}"])
                asset, _ = await services.assets.upload(tenant, upload)
                while await services.worker.run_once():
                    pass
                (chunk,) = (await services.entries.list_entries(tenant, asset_id=asset.id)).items
                model.readers[chunk.id] = None if readers is None else frozenset(readers)
                model.texts[chunk.id], model.assets[chunk.id] = chunk.content, asset.id
            elif action in ("change", "move", "retext", "delete") and visible:
                entry_id = chance.choice(visible)
                readers = choose_readers(chance, person)
                now = None if readers is None else frozenset(readers)
                if entry_id in model.assets and action == "delete":
                    await services.assets.delete(tenant, model.assets[entry_id])
                    del model.readers[entry_id]
                elif entry_id in model.assets:
                    await services.assets.change(tenant, model.assets[entry_id], AssetDraft(readers=readers))
                    model.readers[entry_id] = now
                elif action == "delete":
                    await services.entries.delete(tenant, entry_id)
                    del model.readers[entry_id]
                elif action == "retext":
                    model.texts[entry_id] = f"harbour again {seed}-{step}"
                    draft = EntryDraft(content=model.texts[entry_id])
                    await services.entries.change(tenant, entry_id, draft)
                else:
                    await services.entries.change(tenant, entry_id, EntryDraft(readers=readers))
                    model.readers[entry_id] = now
            elif action == "steal" and hidden:
                with pytest.raises(EntryNotFound):
                    await services.entries.change(tenant, chance.choice(hidden), EntryDraft(readers=None))
        if step % 4 == 3:
            await compare(services, tenant, model)
    await compare(services, tenant, model)


async def compare(services: Services, tenant: UUID, model: Model) -> None:
    """What each person finds, lists, counts and found in the past is what it may read today."""
    while await services.worker.run_once():
        pass
    for person, principals in PEOPLE.items():
        expected = model.seen_by(person)
        with acting_as(principals):
            for mode in ("keyword", "semantic", "hybrid"):
                query = SearchQuery(
                    query="harbour", mode=mode, limit=100, max_limit=100, similarity_threshold=0
                )
                found = await services.search.search(tenant, query, subject=person)
                texts = {hit.content for hit in found.results}
                assert texts <= expected, (person, mode)
                if mode != "semantic":
                    assert texts == expected, (person, mode)
            listed = (await services.entries.list_entries(tenant, limit=200)).items
            assert {entry.content for entry in listed} == expected, person
            counted = (await services.tags.list_tags(tenant, limit=50)).items
            assert sum(tag.count for tag in counted) == len(expected), person

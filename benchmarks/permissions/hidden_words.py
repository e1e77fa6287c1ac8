"""Whether the time of a keyword search tells of hidden entries: `python -m benchmarks.permissions.hidden_words`.

A caller searches for a word that only hidden entries have and, in turn, for one that no entry has: in the tenant of
these entries, and in another one in the same hash partition. Both are created in a database under `.bench/`, once.
"""

import argparse
import itertools
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

import numpy as np

from app.cli.execution import run_async
from app.composition.services import Services, open_services
from app.contract.administration import NewTenant
from app.contract.entries import EntryDraft
from app.contract.search import SearchQuery
from app.db.principals import EVERYONE, Rights, acting_as, acting_for_service
from app.db.queries.tenants import create_tenant
from app.db.statements import parse_statement
from app.settings import DatabaseSettings, Settings
from app.settings.groups import EmbeddingSettings
from benchmarks.place import KEPT

SLUG, NEIGHBOUR = "hidden-words", "neighbour"
READABLE, HIDDEN = 10_000, 3_000
"""Entries that all callers may read, and those of another group."""
HIDDEN_WORDS = {"kestrona": 10, "petrelko": 100, "fulmarti": 1_000, "gannetus": HIDDEN}
"""Words that only hidden entries have, and how many of them do."""
ABSENT = "skuarami"
"""A word that no entry has, as long as these."""
BATCH = 500
PARTITION = parse_statement(
    "partition",
    "select min(r) from generate_series(0, 31) r where satisfies_hash_partition('entries'::regclass, 32, r, :id::uuid)",
)


@dataclass(frozen=True, slots=True)
class Told:
    """A hidden word compared with one that no entry has: milliseconds, and the pairs in which it took longer."""

    tenant: str
    entries: int
    pairs: int
    slower: int
    p50: float
    p50_absent: float


async def measure(pairs: int) -> list[Told]:
    """Build the tenants that are missing, and time each hidden word in so many pairs in each of them."""
    settings = Settings(database=DatabaseSettings(data_dir=KEPT / SLUG), embedding=EmbeddingSettings(provider="mock"))
    async with open_services(settings) as services:
        with acting_for_service():
            own = await _find_tenant(services)
            places = {SLUG: own, NEIGHBOUR: await _find_neighbour(services, own)}
        with acting_as((EVERYONE, "user:reader"), Rights.READ):
            return [
                await _compare(services, slug, tenant_id, word, pairs)
                for slug, tenant_id in places.items()
                for word in HIDDEN_WORDS
            ]


async def _find_tenant(services: Services) -> UUID:
    known = {tenant.slug: tenant.id for tenant in await services.tenants.list_tenants()}
    if SLUG in known:
        return known[SLUG]
    tenant = await services.tenants.create(NewTenant(SLUG), actor="benchmark")
    await _fill(services, tenant.id, HIDDEN)
    return tenant.id


async def _find_neighbour(services: Services, tenant_id: UUID) -> UUID:
    """The other tenant, whose entries are in the partition of the first."""
    known = {tenant.slug: tenant.id for tenant in await services.tenants.list_tenants()}
    if NEIGHBOUR in known:
        return known[NEIGHBOUR]
    context = await services.tenants.context(tenant_id)
    async with services.database.platform_session() as session:
        wanted = await session.fetch_value(PARTITION, id=tenant_id)
        neighbour = uuid4()
        while await session.fetch_value(PARTITION, id=neighbour) != wanted:
            neighbour = uuid4()
        await create_tenant(session, neighbour, NEIGHBOUR, NEIGHBOUR, context.space.model_id, "benchmark")
    await _fill(services, neighbour, 0)
    return neighbour


async def _fill(services: Services, tenant_id: UUID, hidden: int) -> None:
    chance = random.Random(1)
    words = [f"{a}{b}{c}" for a, b, c in itertools.product(("bar", "tol", "min", "sef"), ("ka", "lu", "ri"), "dnst")]

    def describe(number: int) -> EntryDraft:
        text = " ".join([*chance.choices(words, k=40), f"number{number}"])
        if number < READABLE:
            return EntryDraft(content=text)
        secret = " ".join(word for word, count in HIDDEN_WORDS.items() if number - READABLE < count)
        return EntryDraft(content=f"{text} {secret}", readers=["group:finance"])

    drafts = [describe(number) for number in range(READABLE + hidden)]
    for start in range(0, len(drafts), BATCH):
        await services.entries.create_many(tenant_id, drafts[start : start + BATCH])
    while await services.worker.run_once():
        pass


async def _compare(services: Services, slug: str, tenant_id: UUID, word: str, pairs: int) -> Told:
    async def search(text: str) -> float:
        began = time.perf_counter()
        found = await services.search.search(tenant_id, SearchQuery(query=text, mode="keyword"))
        ended = time.perf_counter()
        assert not found.results
        return 1000 * (ended - began)

    taken: list[tuple[float, float]] = []
    for pair in range(-20, pairs):
        # Each goes first in every other pair.
        first, second = (word, ABSENT) if pair % 2 else (ABSENT, word)
        times = {first: await search(first), second: await search(second)}
        if pair >= 0:
            taken.append((times[word], times[ABSENT]))
    of_hidden, of_absent = np.array(taken).T
    return Told(
        slug,
        HIDDEN_WORDS[word],
        pairs,
        int((of_hidden > of_absent).sum()),
        float(np.median(of_hidden)),
        float(np.median(of_absent)),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.permissions.hidden_words", description=__doc__)
    parser.add_argument("--pairs", type=int, default=220, help="searches for each hidden word")
    for told in run_async(measure(parser.parse_args(arguments).pairs)):
        ratio = told.p50 / told.p50_absent
        print(
            f"{told.tenant:>12}, in {told.entries:>5} hidden entries: {told.p50:5.2f} ms, a word of none "
            f"{told.p50_absent:5.2f} ms, ratio {ratio:.2f}; slower in {told.slower} of {told.pairs}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

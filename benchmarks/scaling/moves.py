"""Requests of all kinds while shards of a cluster are moved, divided and rebalanced: none may be lost or wrong."""

import itertools
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from app.contract.administration import NewTenant
from tests.citus.load import KINDS, Answered, Load
from tests.citus.moving import administered, change_places, few_shards, served
from tests.fixtures.database.citus import CitusCluster, running_citus

TENANTS = 6
CHANGES = ("move", "division", "rebalance", None)


async def measure_moves(requests: int) -> list[Answered]:
    """Move tenants in one new database after the other, until each kind of request has met changes so often.

    Raises AssertionError for a write that was lost, or a wrong answer. Prints the figures after each database.
    """
    answered: list[Answered] = []
    met: Counter[str] = Counter()
    async with running_citus() as nodes:
        for number in itertools.count():
            if min(met[kind] for kind in KINDS) >= requests:
                break
            load, lost = await _move_tenants(CitusCluster(nodes), f"moves_{number}")
            answered += load.answered
            met = Counter(each.kind for each in answered if each.change is not None)
            print(f"{render_moves(answered)}\n\nrefused: {load.refused}", file=sys.stderr, flush=True)
            assert not load.wrong + lost, load.wrong + lost
    return answered


async def _move_tenants(nodes: CitusCluster, name: str) -> tuple[Load, list[str]]:
    """Each of some tenants goes through all changes, while all are written and searched; also returns what was lost."""
    async with few_shards(nodes, name) as database, served(database) as (services, http):
        tenants = [await services.tenants.create(NewTenant(f"tenant-{n}"), actor="benchmark") for n in range(TENANTS)]
        load = Load(http, [tenant.id for tenant in tenants])
        async with administered(database) as cluster, load.running():
            for tenant in tenants:
                await change_places(database, cluster, load, tenant.slug, tenant.id)
        return load, await load.find_lost()


def render_moves(answered: Sequence[Answered]) -> str:
    """Two tables: by change and by kind, with milliseconds and the seconds of the longest request."""
    by_change = {str(change or "no change"): [e for e in answered if e.change == change] for change in CHANGES}
    by_kind = {kind: [e for e in answered if e.kind == kind and e.change is not None] for kind in KINDS}
    return f"{_render('during', by_change.items())}\n\n{_render('during a change', by_kind.items())}"


def _render(title: str, rows: Iterable[tuple[str, Sequence[Answered]]]) -> str:
    lines = [f"| {title} | requests | fewest of a kind | p50 | p99 | longest |", "|---|---:|---:|---:|---:|---:|"]
    for name, found in rows:
        counts = Counter(each.kind for each in found)
        seconds = [each.seconds for each in found]
        last = statistics.quantiles(seconds, n=100)[-1]
        lines.append(
            f"| {name} | {len(found):,} | {min(counts.values()):,} | {1000 * statistics.median(seconds):.0f} ms "
            f"| {1000 * last:.0f} ms | {max(seconds):.2f} s |"
        )
    return "\n".join(lines)

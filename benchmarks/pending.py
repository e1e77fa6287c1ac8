"""Ranking quality while vectors are missing: `python -m benchmarks.pending [COLLECTION …]`.

A share of the entries, chosen by a seeded generator, waits for vectors, as after an import while the provider is down.
"""

import argparse
import contextlib
import random
import sys
from collections.abc import Sequence

from app.cli.execution import run_async
from app.cli.output.progress import show_progress
from app.composition.services import Services, open_services
from app.db.queries import embeddings
from app.errors import KnowledgeError
from app.evaluation.collection import Collection
from app.evaluation.evaluation import fill_tenant, open_tenant, search_all
from app.evaluation.metrics import Variant, score_rankings
from app.evaluation.report import with_cache
from benchmarks.collections.named import read_collections
from benchmarks.place import COLLECTIONS, KEPT, VECTORS, bench_settings

SHARES = (0.0, 0.1, 0.5, 1.0)
"""Shares of the entries without a vector."""

VARIANTS = (
    Variant("semantic", "rrf"),
    Variant("semantic", "score"),
    Variant("hybrid", "rrf"),
    Variant("hybrid", "score"),
    Variant("keyword"),
)
DEPTH = 10
SEED = 14


async def measure(services: Services, collection: Collection) -> None:
    """Print nDCG@10 of each variant, a line for each share."""
    grades = [query.judgements for query in collection.queries]
    async with open_tenant(services, collection.name) as tenant_id:
        documents = await fill_tenant(services, tenant_id, collection, show_progress)
        order = random.Random(SEED).sample(sorted(documents), len(documents))
        for share in SHARES:
            waiting = order[: round(share * len(order))]
            async with services.database.tenant_session(tenant_id) as session:
                await embeddings.drop_vectors(session, waiting)
                await embeddings.mark_pending(session, waiting)
            services.tenants.forget(tenant_id)
            cells = []
            for variant in VARIANTS:
                rankings, _ = await search_all(
                    services, tenant_id, collection, variant, documents, show_progress, DEPTH
                )
                ndcg = score_rankings(rankings, grades).means["ndcg@10"]
                cells.append(f"{variant.label} {ndcg:.4f}")
            print(f"{collection.name}, {share:.0%} without a vector: {', '.join(cells)}", flush=True)


async def measure_all(collections: Sequence[Collection]) -> None:
    """Measure the collections one after another."""
    async with open_services(bench_settings(KEPT / "quality-data")) as plain, with_cache(plain, VECTORS) as services:
        for collection in collections:
            await measure(services, collection)


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pending", description=__doc__)
    parser.add_argument("collections", nargs="*", default=["scifact", "cranfield"], metavar="COLLECTION")
    names = parser.parse_args().collections
    if not COLLECTIONS.is_dir():
        print(f"The judged collections are not here: {COLLECTIONS} does not exist.")
        return 0
    try:
        with contextlib.suppress(KeyboardInterrupt):
            run_async(measure_all(read_collections(names)))
    except KnowledgeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

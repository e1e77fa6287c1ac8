"""Fills a tenant with the files of a collection, and asks the questions in the default search."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from app.composition.services import Services
from app.contract.assets import Upload
from app.contract.search import SearchQuery
from app.evaluation.evaluation import ShowProgress, finish_upkeep, open_tenant
from benchmarks.documents.packages import Missing, fetch_file
from benchmarks.documents.questions import DocumentFile
from benchmarks.documents.scoring import DEPTH, Found, score_hits


@dataclass(slots=True)
class Figures:
    """What was measured: the metrics of each question by file, the chunks, the seconds until all was searchable."""

    files: Sequence[DocumentFile]
    scores: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    chunks: int = 0
    seconds: float = 0.0
    missing: dict[str, str] = field(default_factory=dict)
    misses: list[str] = field(default_factory=list)


async def measure_collection(
    services: Services, collection: str, files: Sequence[DocumentFile], progress: ShowProgress
) -> Figures:
    """Measure the files that are available here. Raises KnowledgeError."""
    figures = Figures(files)
    uploads: dict[str, tuple[str, bytes]] = {}
    for file in files:
        try:
            uploads[file.name] = await asyncio.to_thread(fetch_file, file)
        except Missing as reason:
            figures.missing[file.name] = str(reason)
    if not uploads:
        return figures
    async with open_tenant(services, f"documents-{collection}") as tenant_id:
        started = time.perf_counter()
        assets = {}
        for name, (filename, data) in uploads.items():
            asset, _ = await services.assets.upload(tenant_id, Upload(filename, data))
            assets[asset.id] = name
        await finish_upkeep(services, tenant_id)
        figures.seconds = time.perf_counter() - started
        services.tenants.forget(tenant_id)
        stats = await services.administration.stats(tenant_id)
        figures.chunks = int(stats.entries)
        for asset_id, name in assets.items():
            if (asset := await services.assets.get(tenant_id, asset_id)).status != "indexed":
                figures.missing[name] = f"it is not indexed: {asset.status}, {asset.error}"
        asked = [file for file in files if file.name not in figures.missing]
        with progress(f"{collection}: questions", len(asked)) as report:
            for number, file in enumerate(asked, 1):
                figures.scores[file.name] = []
                for question in file.questions:
                    result = await services.search.search(
                        tenant_id, SearchQuery(query=question.text, limit=DEPTH, rerank=False)
                    )
                    hits = [Found(assets[hit.asset_id], hit.title, hit.metadata) for hit in result if hit.asset_id]
                    scores = score_hits(question, file.name, hits)
                    figures.scores[file.name].append(scores)
                    if not scores["hit@3"]:
                        figures.misses.append(f"{file.name}: {question.text} — {_describe(hits[:3])}")
                report(number)
    return figures


def _describe(hits: Sequence[Found]) -> str:
    return "; ".join(f"{hit.file} p. {hit.metadata.get('page')} ({hit.title})" for hit in hits) or "no hit"

"""Build the runner of the queue's jobs."""

from __future__ import annotations

from collections.abc import Mapping

from app.db.database import Database
from app.documents.parsed import ParseLimits
from app.embeddings.provider import EmbeddingProvider
from app.knowledge.entries.embedding import EntryEmbedder
from app.knowledge.erasure.work import ErasureWork
from app.knowledge.ingestion.pipeline import ChunkSize, Ingestion
from app.knowledge.queue import JobQueue
from app.knowledge.reembedding.comparison import ModelComparer
from app.knowledge.reembedding.job import ReembeddingJob, VectorRebuild
from app.knowledge.reembedding.machine import ChangeMachine
from app.knowledge.search.journal import SearchJournal
from app.knowledge.search.plan import SearchDefaults
from app.knowledge.search.ranker import Ranker
from app.knowledge.subscriptions.deliveries import DeliveryService
from app.knowledge.subscriptions.matching import ChangeMatcher
from app.knowledge.tenants.directory import TenantDirectory
from app.knowledge.upkeep.growth import Upkeep
from app.knowledge.worker import JobRunner


def build_runner(
    database: Database,
    providers: Mapping[int, EmbeddingProvider],
    tenants: TenantDirectory,
    jobs: JobQueue,
    *,
    embedder: EntryEmbedder,
    upkeep: Upkeep,
    machine: ChangeMachine,
    ranker: Ranker,
    defaults: SearchDefaults,
    deliveries: DeliveryService,
    chunk_size: ChunkSize | None,
    parse_limits: ParseLimits | None,
    journal: SearchJournal,
) -> JobRunner:
    """Build the runner of all kinds of jobs over services that exist already."""
    return JobRunner(
        database,
        Ingestion(database, providers, tenants, limits=parse_limits, chunk_size=chunk_size),
        embedder,
        upkeep,
        ReembeddingJob(
            tenants,
            machine,
            embedder,
            upkeep,
            ModelComparer(database, ranker, defaults),
            VectorRebuild(database, embedder),
        ),
        ChangeMatcher(database, providers, tenants, jobs, defaults),
        deliveries,
        ErasureWork(database, jobs, journal),
    )

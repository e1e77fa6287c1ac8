"""The composition root: build database, providers and services once, from settings or given parts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from app.composition.database import DatabaseAddresses, check_given, make_database, open_database, replicas_of
from app.composition.identity import encryption_keys
from app.composition.platform import default_limits, search_defaults
from app.composition.providers import (
    adopt_empty_tenants,
    build_configured_reranker,
    build_providers,
    find_models,
    searches_per_core,
)
from app.concurrency.part import Part
from app.contract.settings import Limits
from app.db.database import Database
from app.db.principals import EVERYONE, Rights, acting_as
from app.db.schema.owner import register_model
from app.documents.parsed import ParseLimits
from app.documents.process.parsing import log_missing_protections
from app.embeddings.provider import EmbeddingProvider
from app.kernel import count_cores
from app.knowledge.administration.platform import PlatformService
from app.knowledge.administration.service import AdministrationService, ReplayService
from app.knowledge.audit import AuditTrail
from app.knowledge.entries.embedding import EntryEmbedder
from app.knowledge.entries.reading import AccessCounter, ReadingService
from app.knowledge.entries.service import EntryService
from app.knowledge.erasure import ErasureService
from app.knowledge.feedback import FeedbackService, WeightTuner
from app.knowledge.ingestion.assets import AssetService
from app.knowledge.ingestion.pipeline import ChunkSize, Ingestion
from app.knowledge.permissions import AccessService
from app.knowledge.quarantine import QuarantineService
from app.knowledge.queue import JobQueue
from app.knowledge.reembedding.comparison import ModelComparer
from app.knowledge.reembedding.job import ReembeddingJob
from app.knowledge.reembedding.machine import ChangeMachine, ReembeddingService
from app.knowledge.search.journal import SearchJournal
from app.knowledge.search.meter import SimilarityMeter
from app.knowledge.search.plan import SearchDefaults
from app.knowledge.search.ranker import Ranker
from app.knowledge.search.ranking import CANDIDATES, RerankStage
from app.knowledge.search.service import KnowledgeSearchService
from app.knowledge.sources.service import SourceService
from app.knowledge.subscriptions.deliveries import DeliveryService
from app.knowledge.subscriptions.matching import ChangeMatcher
from app.knowledge.subscriptions.service import RIGHTS_LAST, SavedSearchService, SubscriptionService
from app.knowledge.subscriptions.webhooks import PER_MINUTE, SecretSealer, SendPace, Targets, WebhookSender
from app.knowledge.tenants.admission import Admission
from app.knowledge.tenants.directory import PlatformRevocations, TenantDirectory
from app.knowledge.tenants.keys import ApiKeys
from app.knowledge.transfer.tenant import TenantExport, TenantRestoration
from app.knowledge.upkeep import MOST_AUDIT, RecordTrimmer, Sweep, Upkeep
from app.knowledge.versions import VersionService
from app.knowledge.worker import JobRunner, Worker
from app.reranking import Reranker
from app.settings import Settings
from app.settings.groups import parse_ports


@dataclass(frozen=True, slots=True)
class Services:
    """All services that REST, MCP, console and command line use, from any task of one event loop.

    `provider` is the provider of new tenants' model; `providers` has all of them by the id of their model.
    The caller of `build_services` closes the services, and then the providers, the reranker and the database that it
    passed in.
    """

    database: Database
    provider: EmbeddingProvider
    providers: Mapping[int, EmbeddingProvider]
    reranker: Reranker | None
    tenants: TenantDirectory
    platform_revocations: PlatformRevocations
    keys: ApiKeys
    trail: AuditTrail
    admission: Admission
    search: KnowledgeSearchService
    entries: EntryService
    assets: AssetService
    sources: SourceService
    quarantine: QuarantineService
    versions: VersionService
    export: TenantExport
    saved_searches: SavedSearchService
    subscriptions: SubscriptionService
    feedback: FeedbackService
    administration: AdministrationService
    replays: ReplayService
    access: AccessService
    reading: ReadingService
    platform: PlatformService
    ranker: Ranker
    reembedding: ReembeddingService
    erasures: ErasureService
    embedder: EntryEmbedder
    journal: SearchJournal
    similarities: SimilarityMeter
    accesses: AccessCounter
    jobs: JobQueue
    worker: Worker

    @contextlib.asynccontextmanager
    async def acting_in(
        self, tenant: str | UUID, principals: tuple[str, ...] = (EVERYONE,), rights: Rights = Rights.READ
    ) -> AsyncIterator[UUID]:
        """Act in a tenant, by its slug or id, while the block runs; the block gets the tenant's id.

        Transactions that are opened in the block are of the `principals`, by default what all readers of the tenant
        may read, and have these rights. Raises TenantNotFound for an unknown slug.
        """
        tenant_id = tenant if isinstance(tenant, UUID) else (await self.tenants.find(tenant)).id
        with acting_as(principals, rights):
            yield tenant_id

    def restoration(self, tenant_id: UUID, actor: str) -> TenantRestoration:
        """Make the object that restores one export into a tenant."""
        return TenantRestoration(self.database, self.tenants, self.jobs, tenant_id, actor)

    async def close(self) -> None:
        """Finish pending background writes. Leaves `database` and `provider` open."""
        await self.subscriptions.close()
        await self.journal.close()
        await self.similarities.close()
        await self.accesses.close()
        await self.keys.close()


async def build_services(
    database: Database,
    provider: EmbeddingProvider,
    *,
    next_provider: EmbeddingProvider | None = None,
    reranker: Reranker | None = None,
    rerank_candidates: int = CANDIDATES,
    defaults: SearchDefaults | None = None,
    max_upload_bytes: int = 50 * 1024 * 1024,
    source_max_deletions: float = 0.2,
    worker_concurrency: int = 1,
    chunk_size: ChunkSize | None = None,
    parse_limits: ParseLimits | None = None,
    limits: Limits | None = None,
    crowd: int | None = None,
    webhooks: WebhookSender | None = None,
    rights_last: timedelta = RIGHTS_LAST,
    messages_per_minute: int = PER_MINUTE,
    most_audit: int = MOST_AUDIT,
    encryption_keys: Sequence[bytes] = (),
    direct_dsn: str | None = None,
    part: Part | None = None,
) -> Services:
    """Build the services over a given database and provider, for example inside another application.

    `next_provider` serves tenants that change to its model, or have. `reranker` orders the first `rerank_candidates`
    candidates of searches. Subscriptions continue for `rights_last` after their owner's last call, send at most
    `messages_per_minute` to one host, and their secrets are encrypted with the first of `encryption_keys`. Audit trails
    keep their newest `most_audit` rows, at least a million. `direct_dsn` is the database's own address behind a pooler:
    the worker listens there. With `part`, limits hold for all processes.

    Tenants without entries get the model of `provider`. Raises ConfigurationError when a model is not registered, a
    tenant with entries uses neither, or tenants are not isolated."""
    await check_given(database)
    await database.join_cluster()
    defaults = replace(defaults or SearchDefaults(), rerank=reranker is not None)
    given = [provider] if next_provider is None else [provider, next_provider]
    providers = dict(zip(await find_models(database, [p.model for p in given]), given, strict=True))
    await adopt_empty_tenants(database, list(providers))
    jobs = JobQueue()
    trail = AuditTrail(database)
    tenants = TenantDirectory(
        database,
        trail,
        default_model_id=next(iter(providers)),
        default_limits=limits or Limits(),
        max_limit=defaults.max_limit,
        part=part,
    )
    admission = Admission(crowd=crowd, part=part)
    journal = SearchJournal(database, part=part)
    similarities = SimilarityMeter(database)
    accesses = AccessCounter(database)
    embedder = EntryEmbedder(database, providers, tenants)
    webhooks = webhooks or WebhookSender()
    sealer, pace = SecretSealer(encryption_keys), SendPace(database, messages_per_minute)
    deliveries = DeliveryService(database, jobs, webhooks, sealer, pace)
    assets = AssetService(database, trail, jobs, tenants, max_bytes=max_upload_bytes)
    upkeep = Upkeep(database, tenants, jobs, exact_limit=defaults.exact_limit)
    versions = VersionService(database)
    trimmer = RecordTrimmer(database, tenants, versions, most_audit=most_audit)
    machine = ChangeMachine(database, tenants, jobs, providers, exact_limit=defaults.exact_limit)
    stage = RerankStage(journal.meter, reranker, rerank_candidates)
    ranker = Ranker(database, providers, journal.meter, stage)
    tuner = WeightTuner(database, tenants, ranker, defaults)
    search = KnowledgeSearchService(
        database, providers, tenants, journal, ranker, versions, similarities, defaults, admission)  # fmt: skip
    erasures = ErasureService(database, trail, jobs, journal)
    comparer = ModelComparer(database, ranker, defaults)
    runner = JobRunner(
        database,
        Ingestion(database, providers, tenants, parse_limits or ParseLimits(), chunk_size or ChunkSize()),
        embedder,
        upkeep,
        ReembeddingJob(database, tenants, machine, embedder, upkeep, comparer),
        ChangeMatcher(database, providers, tenants, jobs, defaults),
        deliveries,
        erasures,
    )
    sweep = Sweep(database, tenants, upkeep, deliveries, trimmer, tuner)
    worker = Worker(database, jobs, runner, sweep, concurrency=worker_concurrency, direct_dsn=direct_dsn)
    administration = AdministrationService(database, trail, tenants, admission, journal, trimmer.bounds)
    entries = EntryService(database, trail, embedder, jobs, tenants, accesses)
    return Services(
        database=database,
        provider=provider,
        providers=providers,
        reranker=reranker,
        tenants=tenants,
        platform_revocations=PlatformRevocations(database, part=part),
        keys=ApiKeys(database, trail, tenants, part=part),
        trail=trail,
        admission=admission,
        search=search,
        entries=entries,
        assets=assets,
        sources=SourceService(database, trail, tenants, jobs, assets, source_max_deletions),
        access=AccessService(database, trail, entries, assets),
        quarantine=QuarantineService(database, trail),
        versions=versions,
        export=TenantExport(database),
        saved_searches=SavedSearchService(database, trail, search),
        subscriptions=SubscriptionService(database, trail, jobs, sealer, webhooks.targets, rights_last),
        feedback=FeedbackService(database, trail, tenants, journal, accesses),
        administration=administration,
        replays=ReplayService(administration, search, versions),
        reading=ReadingService(database),
        platform=PlatformService(database, tenants),
        ranker=ranker,
        reembedding=ReembeddingService(database, trail, machine, embedder),
        erasures=erasures,
        embedder=embedder,
        journal=journal,
        similarities=similarities,
        accesses=accesses,
        jobs=jobs,
        worker=worker,
    )


@contextlib.asynccontextmanager
async def open_services(
    settings: Settings, *, provider: EmbeddingProvider | None = None, part: Part | None = None
) -> AsyncIterator[Services]:
    """Open the services and their database from the settings.

    A given `provider` replaces the configured ones and is not closed; its model is registered if the administration's
    address is set. With `part`, these are the services of one process of several. Raises ConfigurationError.
    """
    async with open_database(settings) as addresses:
        if provider is not None and addresses.admin is not None:
            await register_model(addresses.admin, provider.model, actor="service")
        async with _services_at(settings, addresses, provider, part) as services:
            yield services


@contextlib.asynccontextmanager
async def _services_at(
    settings: Settings, addresses: DatabaseAddresses, lent: EmbeddingProvider | None, part: Part | None
) -> AsyncIterator[Services]:
    database, direct = make_database(settings, addresses.service, part), settings.database.direct_url
    reranker = build_configured_reranker(settings)
    providers = [lent] if lent is not None else await asyncio.to_thread(build_providers, settings, part)
    try:
        services = await build_services(
            database,
            providers[0],
            next_provider=providers[1] if len(providers) > 1 else None,
            reranker=reranker,
            rerank_candidates=settings.reranker.candidates,
            defaults=search_defaults(settings),
            max_upload_bytes=settings.ingestion.max_upload_bytes,
            source_max_deletions=settings.ingestion.source_max_deletions,
            worker_concurrency=settings.ingestion.files_at_once,
            limits=default_limits(settings),
            crowd=settings.limits.crowd or count_cores() * searches_per_core(settings),
            chunk_size=ChunkSize(overlap=settings.ingestion.chunk_overlap),
            parse_limits=ParseLimits(ocr_seconds=settings.ingestion.ocr_seconds),
            webhooks=WebhookSender(Targets(settings.webhooks.allow_private, parse_ports(settings.webhooks.ports))),
            rights_last=timedelta(days=settings.webhooks.rights_days),
            messages_per_minute=settings.webhooks.host_per_minute,
            most_audit=settings.records.audit_rows,
            encryption_keys=encryption_keys(settings),
            direct_dsn=None if direct is None else direct.get_secret_value(),
            part=part,
        )
        try:
            async with replicas_of(database, settings, part):
                yield services
        finally:
            await services.close()
    finally:
        for provider in providers:
            if provider is not lent:
                await provider.close()
        if reranker is not None:
            await reranker.close()
        await database.close()


@contextlib.asynccontextmanager
async def working(services: Services, *, warns: bool = True) -> AsyncIterator[None]:
    """Run a worker in this process, in addition to others; its failure cancels the block.

    It parses files here, so it warns of the protections that this system lacks, unless the caller does so elsewhere.
    """
    tasks = [asyncio.create_task(services.worker.run())]
    if warns:
        tasks.append(asyncio.create_task(log_missing_protections()))
    current = asyncio.current_task()
    assert current is not None

    def give_up(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            current.cancel()

    tasks[0].add_done_callback(give_up)
    try:
        yield
        # A short block also waits for its warning.
        await asyncio.gather(*tasks[1:])
    finally:
        tasks[0].remove_done_callback(give_up)
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

"""Prometheus scrapes: the counters of this process, and the current state of its parts."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import asyncpg
from prometheus_client import REGISTRY, CollectorRegistry, Metric, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

from app.composition.services import Services
from app.db.queries.work.jobs import QueueFigures, count_jobs
from app.embeddings.resilience.cache import QueryCache
from app.embeddings.resilience.query_queue import QueryQueue
from app.embeddings.resilience.resilient import ResilientProvider
from app.errors import ConfigurationError, DatabaseUnavailable
from app.knowledge.search.journal.receipts import service_version
from app.knowledge.worker.runner import KINDS, OUTWARD_KINDS

log = logging.getLogger("app.web.monitoring")

FRESH_SECONDS = 5.0
"""For this long the queue is not counted again, however often and by however many it is asked for."""

PATIENCE_SECONDS = 3.0
"""After this a scrape goes on without the figures of the queue, and after as long again without any answer of the
database; Prometheus itself gives up after 10 s."""

_CIRCUIT_VALUES = {"closed": 0.0, "half-open": 0.5, "open": 1.0}


class Observation:
    """Collector of prometheus_client over the services of one process."""

    def __init__(
        self,
        services: Services,
        *,
        patience: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The figures of the queue are waited for for `patience` seconds; then, as long again, any answer is."""
        self._services = services
        self._patience = patience
        self._clock = clock
        self._counting = asyncio.Lock()
        self._counted_at: float | None = None
        self._queue: Sequence[QueueFigures] | None = None
        self._answers = False
        self._registry = CollectorRegistry()
        self._registry.register(self)

    async def render(self) -> bytes:
        """The text of a scrape. If the database is down, its figures are missing, but the scrape succeeds."""
        await self.refresh()
        return generate_latest(self._registry)

    async def refresh(self) -> None:
        """Count the queue, unless it was counted a few seconds ago."""
        async with self._counting:
            if self._counted_at is not None and self._clock() - self._counted_at < FRESH_SECONDS:
                return
            try:
                async with asyncio.timeout(self._patience):
                    self._queue = await count_jobs(self._services.database)
            except (TimeoutError, DatabaseUnavailable, asyncpg.PostgresError) as error:
                self._queue = None
                log.debug("the queue was not counted: %s", type(error).__name__)
            # A database that is too busy to count is still up.
            self._answers = self._queue is not None or await self._services.database.answers(self._patience)
            self._counted_at = self._clock()

    def collect(self) -> Iterator[Metric]:
        """Every metric of this process, from its current state."""
        yield from REGISTRY.collect()
        built = {"version": service_version(), "python": platform.python_version()}
        yield InfoMetricFamily("knowledge_build", "The running version", built)
        yield from self._collect_load()
        yield from self._collect_providers()
        yield from self._collect_queue()

    def _collect_load(self) -> Iterator[Metric]:
        pool = self._services.database.pool_use
        running, waiting = self._services.admission.running_and_waiting
        journal = self._services.journal
        for name, documentation, value in (
            ("knowledge_pool_size", "Database connections that this process may open", pool.size),
            ("knowledge_pool_in_use", "Database connections in use", pool.in_use),
            ("knowledge_pool_waiting", "Callers that wait for a database connection", pool.waiting),
            ("knowledge_searches_running", "Searches that are running", running),
            ("knowledge_searches_waiting", "Searches that wait for their turn", waiting),
            ("knowledge_journal_waiting", "Records of searches that are not written yet", journal.waiting),
        ):
            yield GaugeMetricFamily(name, documentation, value=value)
        records = CounterMetricFamily(
            "knowledge_journal_records", "Records of searches by outcome", labels=("outcome",)
        )
        records.add_metric(("written",), journal.written)
        records.add_metric(("dropped",), journal.dropped)
        yield records

    def _collect_providers(self) -> Iterator[Metric]:
        asked: Counter[tuple[str, str]] = Counter()
        circuits: dict[tuple[str, str], float] = {}
        for provider in self._services.providers.values():
            name = provider.model.provider
            if isinstance(provider, QueryCache):
                asked[name, "hit"] += provider.hits
                asked[name, "miss"] += provider.misses
                provider = provider.inner
            if isinstance(provider, QueryQueue):
                provider = provider.inner
            if isinstance(provider, ResilientProvider):
                for operation, circuit in (
                    ("query", provider.query_circuit),
                    ("documents", provider.document_circuit),
                ):
                    value = _CIRCUIT_VALUES[circuit.state]
                    circuits[name, operation] = max(value, circuits.get((name, operation), 0.0))
        cache = CounterMetricFamily(
            "knowledge_query_cache",
            "Query embeddings requested from the cache",
            labels=("provider", "result"),
        )
        for labels, count in asked.items():
            cache.add_metric(labels, count)
        yield cache
        gauge = GaugeMetricFamily(
            "knowledge_provider_circuit_open",
            "1 while a provider's circuit is open, 0.5 during a trial call, otherwise 0",
            labels=("provider", "operation"),
        )
        for labels, value in circuits.items():
            gauge.add_metric(labels, value)
        yield gauge

    def _collect_queue(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "knowledge_database_up",
            "Whether the database answered when it was last asked, however busy it is",
            value=self._answers,
        )
        yield GaugeMetricFamily(
            "knowledge_queue_counted",
            "Whether the database had time to count the queue when it was last asked to",
            value=self._queue is not None,
        )
        jobs = GaugeMetricFamily(
            "knowledge_queue_jobs", "Jobs of all tenants, up to 100,000", labels=("kind", "state")
        )
        oldest = GaugeMetricFamily(
            "knowledge_queue_oldest_seconds",
            "How long the oldest due job has been waiting for a worker",
            labels=("kind",),
        )
        if self._queue is not None:
            known = {figures.kind: figures for figures in self._queue}
            for kind in (*KINDS, *OUTWARD_KINDS):
                figures = known.get(kind) or QueueFigures(kind, 0, 0, 0, 0.0)
                jobs.add_metric((kind, "waiting"), figures.waiting)
                jobs.add_metric((kind, "scheduled"), figures.scheduled)
                jobs.add_metric((kind, "running"), figures.running)
                oldest.add_metric((kind,), figures.oldest_seconds)
        yield jobs
        yield oldest


class _FromOtherThreads:
    """The same metrics for prometheus_client's own server, which has threads of its own."""

    def __init__(self, observation: Observation, loop: asyncio.AbstractEventLoop) -> None:
        self._observation = observation
        self._loop = loop

    def collect(self) -> Iterator[Metric]:
        """Every metric, after the loop of the services has had its time for what it must ask."""
        refreshing = asyncio.run_coroutine_threadsafe(self._observation.refresh(), self._loop)
        with contextlib.suppress(concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            refreshing.result(2 * PATIENCE_SECONDS + 1)
        yield from self._observation.collect()


@contextlib.contextmanager
def serve_metrics(observation: Observation, host: str, port: int) -> Iterator[int]:
    """Serve `/metrics` at a separate address while the block runs; yields the port. Raises ConfigurationError."""
    registry = CollectorRegistry()
    registry.register(_FromOtherThreads(observation, asyncio.get_running_loop()))
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise ConfigurationError(
            "KB_METRICS_HOST and KB_METRICS_PORT",
            f"cannot listen on {host}, port {port} ({error.strerror})",
            "choose others",
        ) from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

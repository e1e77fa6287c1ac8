"""Prometheus metrics of HTTP and MCP, and the server and endpoint for scrapes."""

import asyncio
import concurrent.futures
import contextlib
import logging
import platform
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from socketserver import ThreadingMixIn
from typing import Any, get_args
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import asyncpg
from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, Metric, generate_latest, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

from app.composition.services import Services
from app.concurrency.part import Part
from app.db.queries.jobs import QueueFigures, count_jobs
from app.embeddings.resilience import QueryCache, QueryQueue, ResilientProvider
from app.errors import DatabaseUnavailable, LimitName
from app.knowledge.search.journal import service_version
from app.knowledge.worker import KINDS, OUTWARD_KINDS
from app.reranking import PROVIDER, ResilientReranker
from app.telemetry.metrics import collect_processes, count_processes, publish_process, service_figures

REQUESTS = Counter("knowledge_requests_total", "HTTP requests", ("method", "route", "status"))
REQUEST_SECONDS = Histogram(
    "knowledge_request_seconds",
    "Time from request to answer",
    ("route",),
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
)
TOOL_CALLS = Counter("knowledge_tool_calls_total", "Calls of MCP tools", ("tool", "status"))
REFUSALS = Counter("knowledge_refusals_total", "Requests over a limit of their tenant", ("limit",))
for _limit in get_args(LimitName):
    REFUSALS.labels(_limit)


log = logging.getLogger("app.web.monitoring")

FRESH_SECONDS = 5.0
"""For this long the queue is not counted again, however often and by however many it is asked for."""

PATIENCE_SECONDS = 3.0
"""After this a scrape continues without the figures of the queue, and after as long again without any answer of the
database; Prometheus itself gives up after 10 s."""

PUBLISH_SECONDS = 1.0
"""Interval at which one of several processes publishes the state of its parts for the scrapes of the others."""

_LOAD = (
    ("knowledge_pool_size", "Database connections that the service may open"),
    ("knowledge_pool_in_use", "Database connections in use"),
    ("knowledge_pool_waiting", "Callers that wait for a database connection"),
    ("knowledge_searches_running", "Searches that are running"),
    ("knowledge_searches_waiting", "Searches that wait for their turn"),
    ("knowledge_journal_waiting", "Records of searches that are not written yet"),
)

_CIRCUIT_VALUES = {"closed": 0.0, "half-open": 0.5, "open": 1.0}


class Observation:
    """Collector of prometheus_client for the services of this process, with `part` of all processes."""

    def __init__(
        self,
        services: Services,
        *,
        part: Part | None = None,
        patience: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The figures of the queue are waited for for `patience` seconds; then, as long again, any answer is."""
        self._services = services
        self._part = part
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

    async def publish(self) -> None:
        """Publish the state of this process for the scrapes of the others, until cancelled."""
        while self._part is not None:
            self._publish(self._part)
            await asyncio.sleep(PUBLISH_SECONDS)

    def _publish(self, part: Part) -> None:
        publish_process(part, services=(*self._load(), *self._circuits().values()))

    def collect(self) -> Iterator[Metric]:
        """Every metric, from the current state."""
        figures: list[list[float]]
        if self._part is None:
            yield from REGISTRY.collect()
            yield from count_processes(serving=1, replaced=0)
            figures = [[*self._load(), *self._circuits().values()]]
        else:
            self._publish(self._part)
            yield from collect_processes(self._part)
            figures = service_figures(self._part)
        built = {"version": service_version(), "python": platform.python_version()}
        yield InfoMetricFamily("knowledge_build", "The running version", built)
        for at, (name, documentation) in enumerate(_LOAD):
            yield GaugeMetricFamily(name, documentation, value=sum(row[at] for row in figures))
        yield self._collect_circuits([row[len(_LOAD) :] for row in figures])
        yield from self._collect_queue()

    def _load(self) -> tuple[float, ...]:
        """The values of _LOAD in this process."""
        pool = self._services.database.pool_use
        return (
            pool.size,
            pool.in_use,
            pool.waiting,
            *self._services.admission.running_and_waiting,
            self._services.journal.waiting,
        )

    def _circuits(self) -> dict[tuple[str, str], float]:
        """The circuits of this process's providers and reranker, in the same order in every process."""
        circuits: dict[tuple[str, str], float] = {}
        for provider in self._services.providers.values():
            name = provider.model.provider
            if isinstance(provider, QueryCache):
                provider = provider.inner
            if isinstance(provider, QueryQueue):
                provider = provider.inner
            if isinstance(provider, ResilientProvider):
                for operation, circuit in (("query", provider.query_circuit), ("documents", provider.document_circuit)):
                    value = _CIRCUIT_VALUES[circuit.state]
                    circuits[name, operation] = max(value, circuits.get((name, operation), 0.0))
        if isinstance(reranker := self._services.reranker, ResilientReranker):
            circuits[PROVIDER, "rerank"] = _CIRCUIT_VALUES[reranker.circuit.state]
        return circuits

    def _collect_circuits(self, figures: Sequence[Sequence[float]]) -> Metric:
        gauge = GaugeMetricFamily(
            "knowledge_provider_circuit_open",
            "1 while a provider's circuit is open, 0.5 during a trial call, otherwise 0; the highest of the processes",
            labels=("provider", "operation"),
        )
        for at, labels in enumerate(self._circuits()):
            gauge.add_metric(labels, max(row[at] for row in figures))
        return gauge

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
        jobs = GaugeMetricFamily("knowledge_queue_jobs", "Jobs of all tenants, up to 100,000", labels=("kind", "state"))
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


class FromOtherThreads:
    """The same metrics for a server in another thread."""

    def __init__(self, observation: Observation, loop: asyncio.AbstractEventLoop) -> None:
        self._observation = observation
        self._loop = loop

    def collect(self) -> Iterator[Metric]:
        """Every metric, after the loop of the services has had time to gather its figures."""
        refreshing = asyncio.run_coroutine_threadsafe(self._observation.refresh(), self._loop)
        with contextlib.suppress(concurrent.futures.TimeoutError, concurrent.futures.CancelledError):
            refreshing.result(2 * PATIENCE_SECONDS + 1)
        yield from self._observation.collect()


BACKLOG = 16


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    """Several processes may accept at the same listener: it does not block, and another one may be faster."""

    daemon_threads = True

    def __init__(self, listener: socket.socket) -> None:
        host, port = listener.getsockname()[:2]
        super().__init__((host, port), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_name, self.server_port = host, port
        self.setup_environ()


def _turns(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop runs what it is given, as it does unless something blocks it."""
    waiting = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop)
    try:
        waiting.result(PATIENCE_SECONDS)
    except concurrent.futures.TimeoutError:
        waiting.cancel()
        return False
    return True


@contextlib.contextmanager
def serve_metrics(observation: Observation, listener: socket.socket) -> Iterator[None]:
    """Serve `/metrics` at the listener while the block runs, and `/healthz`; then close it."""
    registry, loop = CollectorRegistry(), asyncio.get_running_loop()
    registry.register(FromOtherThreads(observation, loop))
    show_metrics = make_wsgi_app(registry)

    def answer(environ: Any, respond: Any) -> Any:
        if environ["PATH_INFO"] != "/healthz":
            return show_metrics(environ, respond)
        status, body = ("200 OK", b'{"status":"ok"}') if _turns(loop) else ("503 Service Unavailable", b"")
        respond(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    listener.listen(BACKLOG)
    with _Server(listener) as server:
        server.set_app(answer)
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()

"""Prometheus metrics of the services. A scrape adds up all processes of a service."""

import time
from collections.abc import Iterator
from typing import Final

import prometheus_client.values
import psutil
from prometheus_client import Counter, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.values import MultiProcessValue

from app.concurrency.part import Part

SEARCHES = Counter(
    "knowledge_searches_total", "Searches by mode, and whether they fell back to keywords", ("mode", "fallback")
)
SEARCH_SECONDS = Histogram(
    "knowledge_search_seconds",
    "Time from a search's arrival to its answer",
    ("mode",),
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
)
SEARCH_WAITING_SECONDS = Histogram(
    "knowledge_search_waiting_seconds",
    "The part of it in which the search waited for a turn",
    ("mode",),
    buckets=(0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
)
SEARCH_LEG_SECONDS = Histogram(
    "knowledge_search_leg_seconds",
    "Time of each part of a search that ran",
    ("leg",),
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2),
)
PROVIDER_CALLS = Counter(
    "knowledge_provider_calls_total",
    "Calls of an embedding provider or the reranker by outcome, after all retries",
    ("provider", "operation", "outcome"),
)
PROVIDER_TRIES = Counter("knowledge_provider_tries_total", "Requests sent for these calls", ("provider", "operation"))
PROVIDER_SECONDS = Histogram(
    "knowledge_provider_seconds",
    "Time of a call of an embedding provider or the reranker with its retries",
    ("provider", "operation"),
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60),
)
PROVIDER_TOKENS = Counter(
    "knowledge_provider_tokens_total",
    "Tokens of the texts embedded or reranked, four bytes of UTF-8 each",
    ("provider", "operation"),
)
JOBS = Counter("knowledge_jobs_total", "Jobs of the queue by outcome", ("kind", "outcome"))
JOB_SECONDS = Histogram(
    "knowledge_job_seconds",
    "Time of a job of the queue",
    ("kind",),
    buckets=(0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600),
)
JOURNAL_RECORDS = Counter("knowledge_journal_records_total", "Records of searches by outcome", ("outcome",))
for _outcome in ("written", "dropped"):
    JOURNAL_RECORDS.labels(_outcome)
QUERY_CACHE = Counter(
    "knowledge_query_cache_total", "Query embeddings requested from the cache", ("provider", "result")
)
DATABASE_ERRORS = Counter(
    "knowledge_database_errors_total", "Answers 503 because of the database, by reason", ("reason",)
)
READS = Counter(
    "knowledge_replica_reads_total",
    "Searches with read replicas by the server that answered, and reads that failed on a replica",
    ("server",),
)
AUDIT_LOST = Counter("knowledge_audit_lost_total", "Refusals that are missing from the audit trail")


_place = ["parent"]
"""Names this process's files. A process that replaces one that ended continues its counts."""

_memory = [-1e9, 0.0]
"""When this process's memory was last measured, and the result."""

MEASURE_SECONDS = 10.0
"""Measuring the memory takes some milliseconds."""

_PROCESS_FIGURES: Final = 7
"""The first figures of each process; its services' figures follow."""


def share_counters() -> None:
    """Have metrics that are defined from now on count in the folder in PROMETHEUS_MULTIPROC_DIR."""
    prometheus_client.values.ValueClass = MultiProcessValue(lambda: _place[0])


def count_in(place: int) -> None:
    """Count in the files of this place; call it in a new process, before it counts anything."""
    _place[0] = str(place)
    _memory[:] = [-1e9, 0.0]


def publish_process(
    part: Part, ended_seconds: float = 0.0, replaced: int = 0, *, services: tuple[float, ...] = ()
) -> None:
    """Publish the figures of this process, with those of its services.

    `ended_seconds` is the processor time of processes that have ended, `replaced` their number.
    """
    process = psutil.Process()
    memory_bytes = _own_memory(process)
    with process.oneshot():
        cpu, memory = process.cpu_times(), process.memory_info()
        own = [
            float(part.number >= 0),
            float(replaced),
            cpu.user + cpu.system + ended_seconds,
            memory_bytes,
            float(memory.vms),
            float(process.num_fds()),
            process.create_time(),
        ]
    part.figures().publish([*own, *services])


def _own_memory(process: psutil.Process) -> float:
    """Resident bytes of this process, of shared pages its part; measured once in a while."""
    if time.monotonic() - _memory[0] > MEASURE_SECONDS:
        full = process.memory_full_info()
        _memory[:] = [time.monotonic(), float(getattr(full, "pss", full.rss))]
    return _memory[1]


def count_processes(*, serving: float, replaced: float) -> Iterator[Metric]:
    """The numbers of processes."""
    yield GaugeMetricFamily("knowledge_processes", "Processes that serve", value=serving)
    yield CounterMetricFamily("knowledge_processes_replaced", "Processes that ended unasked", value=replaced)


def collect_processes(part: Part) -> Iterator[Metric]:
    """The counters of all processes, including ended ones, and the sums of the figures of running ones."""
    yield from MultiProcessCollector(None).collect()
    rows = part.figures().all()
    total = [sum(column) for column in zip(*rows, strict=True)]
    for name, documentation, value in (
        ("process_resident_memory_bytes", "Resident memory of all processes, shared pages once", total[3]),
        ("process_virtual_memory_bytes", "Virtual memory of all processes", total[4]),
        ("process_open_fds", "Open file descriptors of all processes", total[5]),
        ("process_start_time_seconds", "Start of the oldest process since the epoch", min(row[6] for row in rows)),
    ):
        yield GaugeMetricFamily(name, documentation, value=value)
    yield from count_processes(serving=total[0], replaced=total[1])
    yield CounterMetricFamily("process_cpu_seconds", "Processor time of all processes", value=total[2])


def service_figures(part: Part) -> list[list[float]]:
    """The figures of the services of each process that serves."""
    return [row[_PROCESS_FIGURES:] for row in part.figures().all() if row[0]]

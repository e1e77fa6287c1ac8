"""Metrics and their files."""

import asyncio
import json
import re
import shutil
import socket
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from app.composition.services import Services
from app.db.database import Database
from app.errors import ConfigurationError
from app.hosts import bind_metrics
from app.knowledge.worker import KINDS, OUTWARD_KINDS
from app.mcp.tools import TOOLS
from app.web.monitoring import FRESH_SECONDS, Observation, serve_metrics
from tests.fixtures.database.cluster import connected
from tests.operation.service import Operated
from tests.operation.traffic import CANARY, Series, Traffic, read_scrape, value

LABELS: Mapping[str, str] = {
    "method": "GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|CONNECT|other",
    "status": "[1-5][0-9][0-9]",
    "mode": "hybrid|semantic|keyword",
    "fallback": "True|False",
    "leg": "embedding|semantic|keyword|fusion|reranking",
    "tool": "|".join(TOOLS),
    "limit": "requests_per_minute|concurrent_searches|concurrent_requests|body_bytes|answer_bytes|entries|bytes"
    "|saved_searches|subscriptions",
    "server": "replica|primary|failed",
    "provider": "local|openai|gemini|fastembed|mock|reranker",
    "operation": "query|documents|rerank",
    "result": "hit|miss",
    "kind": "|".join((*KINDS, *OUTWARD_KINDS)),
    "state": "waiting|scheduled|running",
    "reason": "disk_full|connections|memory|read_only|deadlock|locked|too_slow|login|node|unreachable",
    "version": r"[0-9][0-9a-z.+]*",
    "python": r"3\.[0-9]+\.[0-9]+\S*",
    "le": r"[0-9.e+-]+|\+Inf",
    "outcome": "done|failed|retried|put_back|given_up|refused|circuit_open|cancelled|written|dropped",
}


def test_labels_come_from_closed_lists_whatever_callers_send(traffic: Traffic) -> None:
    for secret in (CANARY, CANARY.lower(), CANARY.upper(), *traffic.secrets):
        assert secret not in traffic.after
    series = read_scrape(traffic.after)
    assert len(series) > 100
    for name, labels in series:
        for label, given in labels:
            if label == "route":
                assert given in traffic.routes, f"{name}: {given}"
            else:
                assert label in LABELS, f"{name} has an unexpected label {label}"
                assert re.fullmatch(LABELS[label], given), f"{name}: {label}={given}"


def test_traffic_is_counted_by_mode_leg_provider_and_kind(traffic: Traffic) -> None:
    before, after = traffic.before, read_scrape(traffic.after)

    def risen(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert risen("knowledge_searches_total", mode="semantic", fallback="False") == 2
    assert risen("knowledge_searches_total", mode="hybrid", fallback="True") == 5
    assert risen("knowledge_search_seconds_count", mode="keyword") == 2
    # The keyword leg ran in all but two semantic searches and the page; the fusion in all but the page.
    assert risen("knowledge_search_leg_seconds_count", leg="fusion") == 15
    assert risen("knowledge_search_leg_seconds_count", leg="keyword") >= 13
    assert risen("knowledge_provider_calls_total", provider="mock", operation="query", outcome="failed") == 3
    assert risen("knowledge_provider_calls_total", provider="mock", operation="query", outcome="circuit_open") >= 2
    assert risen("knowledge_provider_calls_total", provider="mock", operation="documents", outcome="done") > 0
    assert risen("knowledge_provider_tries_total", provider="mock", operation="query") > 6
    assert risen("knowledge_provider_tokens_total", provider="mock", operation="documents") > 5
    assert value(after, "knowledge_query_cache_total", provider="mock", result="hit") >= 4
    assert value(after, "knowledge_query_cache_total", provider="mock", result="miss") >= 2
    assert value(after, "knowledge_provider_circuit_open", provider="mock", operation="query") == 1
    assert value(after, "knowledge_provider_circuit_open", provider="mock", operation="documents") == 0
    assert risen("knowledge_refusals_total", limit="requests_per_minute") >= 1
    assert risen("knowledge_tool_calls_total", tool="kb_search", status="422") == 1
    assert risen("knowledge_jobs_total", kind="ingest_asset", outcome="done") == 1
    assert risen("knowledge_jobs_total", kind="ingest_asset", outcome="failed") == 1
    assert risen("knowledge_job_seconds_count", kind="ingest_asset") == 2
    assert value(after, "knowledge_journal_records_total", outcome="written") >= 14
    assert risen("knowledge_journal_records_total", outcome="dropped") == 0
    assert value(after, "knowledge_journal_waiting") == 0
    assert value(after, "knowledge_pool_size") == 5
    assert value(after, "knowledge_database_up") == 1
    assert value(after, "knowledge_queue_counted") == 1
    assert sum(after[s] for s in after if s[0] == "knowledge_build_info") == 1


async def test_pool_shows_connections_in_use_and_waiting_callers(operated: Operated) -> None:
    tenant = await operated.make_tenant()
    observation = Observation(operated.services)
    async with asyncio.timeout(60):
        # The start rehearses the statements on each connection of the pool.
        while operated.services.database.pool_use.in_use:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    async with operated.services.database.tenant_session(tenant.id):
        series = read_scrape((await observation.render()).decode())
        assert value(series, "knowledge_pool_in_use") == 1
        assert value(series, "knowledge_pool_waiting") == 0
    assert operated.services.database.pool_use.in_use == 0


async def test_queue_is_counted_by_kind_and_only_every_few_seconds(operated: Operated) -> None:
    tenant = await operated.make_tenant()
    caller = operated.call_as(tenant)
    for number in range(3):
        await caller.upload(f"{number}.txt", f"Number {number}.".encode(), "text/plain")
    now = 100.0
    observation = Observation(operated.services, clock=lambda: now)
    async with connected(operated.database.superuser_dsn) as superuser:
        await superuser.execute("update jobs set run_at = clock_timestamp() - interval '90 seconds'")
        series = read_scrape((await observation.render()).decode())
        assert value(series, "knowledge_queue_jobs", kind="ingest_asset", state="waiting") == 3
        assert 90 <= value(series, "knowledge_queue_oldest_seconds", kind="ingest_asset") < 150
        assert value(series, "knowledge_queue_oldest_seconds", kind="deliver_webhooks") == 0
        await superuser.execute("update jobs set run_at = clock_timestamp() + interval '1 hour'")
        now += FRESH_SECONDS - 1
        series = read_scrape((await observation.render()).decode())
        assert value(series, "knowledge_queue_jobs", kind="ingest_asset", state="waiting") == 3
        now += 1
        series = read_scrape((await observation.render()).decode())
        assert value(series, "knowledge_queue_jobs", kind="ingest_asset", state="waiting") == 0
        assert value(series, "knowledge_queue_jobs", kind="ingest_asset", state="scheduled") == 3
        assert value(series, "knowledge_queue_oldest_seconds", kind="ingest_asset") == 0


async def scrape_without_database(services: Services, port: int) -> dict[Series, float]:
    """A scrape with a database address on this machine where no database answers."""
    database = Database(f"postgresql://kb_service:x@127.0.0.1:{port}/nothing")
    observation = Observation(replace(services, database=database), patience=0.2)
    try:
        return read_scrape((await observation.render()).decode())
    finally:
        await database.close()


async def test_scrape_succeeds_when_the_database_refuses_or_hangs(operated: Operated) -> None:
    refused = await scrape_without_database(operated.services, 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        unanswered = await scrape_without_database(operated.services, silent.getsockname()[1])
    for series in (refused, unanswered):
        assert value(series, "knowledge_database_up") == 0
        assert ("knowledge_database_up", frozenset()) in series
        assert value(series, "knowledge_queue_counted") == 0
        assert not [name for name, _ in series if name in ("knowledge_queue_jobs", "knowledge_queue_oldest_seconds")]
        assert [name for name, _ in series if name.startswith("knowledge_pool_")]


@pytest.mark.slow
async def test_a_database_that_is_too_busy_to_count_is_up(operated: Operated) -> None:
    database = operated.services.database
    observation = Observation(operated.services, patience=0.5)
    async with AsyncExitStack() as stack:
        for _ in range(database.pool_use.size):
            await stack.enter_async_context(database.platform_session())
        series = read_scrape((await observation.render()).decode())
    assert value(series, "knowledge_database_up") == 1
    assert value(series, "knowledge_queue_counted") == 0
    assert not [name for name, _ in series if name == "knowledge_queue_jobs"]


async def test_a_separate_port_shows_the_same_and_must_be_free(operated: Operated) -> None:
    observation = Observation(operated.services)
    with bind_metrics("127.0.0.1", 0) as listener, serve_metrics(observation, listener):
        port = listener.getsockname()[1]
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"http://127.0.0.1:{port}/metrics")
        series = read_scrape(answer.text)
        assert value(series, "knowledge_database_up") == 1
        assert ("knowledge_pool_size", frozenset()) in series
        assert "process_resident_memory_bytes" in answer.text
        with pytest.raises(ConfigurationError, match="KB_METRICS_HOST and KB_METRICS_PORT: cannot listen"):
            bind_metrics("127.0.0.1", port)


async def test_a_separate_port_tells_whether_the_loop_turns(
    operated: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(port: int) -> int:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).status_code

    with bind_metrics("127.0.0.1", 0) as listener, serve_metrics(Observation(operated.services), listener):
        port = listener.getsockname()[1]
        assert await asyncio.to_thread(ask, port) == 200
        monkeypatch.setattr("app.web.monitoring.PATIENCE_SECONDS", 0.05)
        assert ask(port) == 503, "this call blocks the loop"


def test_failures_are_counted_from_zero() -> None:
    series = {
        (sample.name, frozenset(sample.labels.values())) for family in REGISTRY.collect() for sample in family.samples
    }
    for labels in (("erase", "retried"), ("ingest_asset", "failed")):
        assert ("knowledge_jobs_total", frozenset(labels)) in series
    assert ("knowledge_tool_calls_total", frozenset(("kb_add", "500"))) in series
    assert ("knowledge_refusals_total", frozenset(("requests_per_minute",))) in series
    assert ("knowledge_database_errors_total", frozenset(("disk_full",))) in series


async def test_a_separate_port_is_only_open_at_its_own_address(operated: Operated) -> None:
    with bind_metrics("127.0.0.1", 0) as listener, serve_metrics(Observation(operated.services), listener):
        port = listener.getsockname()[1]
        async with httpx.AsyncClient(trust_env=False) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get(f"http://127.0.0.2:{port}/metrics")


ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "deploy" / "grafana" / "knowledge-search.json"
PROMETHEUS = ROOT / "deploy" / "prometheus"
PAGES = ROOT / "docs" / "operations"
BY_PROMETHEUS = {"job", "instance"}
"""Labels that a scrape adds."""
SELECTOR = re.compile(r"\b([a-z][a-z0-9_]*)\s*\{([^}]*)\}")
GROUPING = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
NAME = re.compile(r"\b(?:knowledge|process|python)_[a-z0-9_]+\b")


def list_expressions() -> Iterator[tuple[str, str]]:
    """Every query of the dashboard and the alerts, and its location."""
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for group in yaml.safe_load((PROMETHEUS / "alerts.yml").read_text("utf-8"))["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def read_labels(text: str) -> Mapping[str, set[str]]:
    """The label names of each series of a scrape."""
    labels: dict[str, set[str]] = defaultdict(set)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels[sample.name] |= set(sample.labels)
    return labels


def test_every_query_names_metrics_and_labels_that_exist(traffic: Traffic) -> None:
    exposed = read_labels(traffic.after)
    expressions = list(list_expressions())
    assert len(expressions) > 40
    for place, expression in expressions:
        names = set(NAME.findall(expression))
        assert names or expression.startswith("up{"), f"{place} asks for nothing of the service's"
        assert names <= set(exposed), f"{place}: {names - set(exposed)}"
        allowed = BY_PROMETHEUS.union(*(exposed[name] for name in names))
        for name, matchers in SELECTOR.findall(expression):
            used = {re.split("[=!]", part.strip(), maxsplit=1)[0] for part in _split(matchers)}
            assert used <= exposed.get(name, set()) | BY_PROMETHEUS, f"{place}: {name} has no {used}"
        for group in GROUPING.findall(expression):
            used = {part.strip() for part in group.split(",")}
            assert used <= allowed, f"{place}: {used - allowed}"


def _split(matchers: str) -> list[str]:
    return [part for part in re.split(r",(?=\s*[a-z_]+\s*[=!])", matchers) if part.strip()]


def test_every_metric_of_the_service_is_explained(traffic: Traffic) -> None:
    page = (PAGES / "monitoring.md").read_text("utf-8")
    for family in text_string_to_metric_families(traffic.after):
        if family.name.startswith("knowledge_") and not family.name.endswith("_created"):
            assert f"`{family.name}" in page, family.name


def test_alerts_link_to_a_section_that_exists() -> None:
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        headings = re.findall(r"^#+ (.+)$", (PAGES / page).read_text("utf-8"), re.MULTILINE)
        slugs = {re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings}
        assert anchor in slugs, rule["alert"]
        assert f"`{rule['alert']}`" in (PAGES / "incidents.md").read_text("utf-8"), rule["alert"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("arguments", [("check", "config", "prometheus.yml"), ("test", "rules", "alerts_test.yml")])
def test_prometheus_accepts_the_files(arguments: tuple[str, ...]) -> None:
    answer = subprocess.run(["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr

"""Spans of requests and jobs, seen by the SDK's own exporter: their tree, and that they contain no content."""

import contextlib
import io
import json
import logging
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.errors import EmbeddingUnavailable
from app.telemetry import tracing
from app.telemetry.logs import configure_logging
from app.telemetry.opentelemetry import OpenTelemetryTracer
from app.telemetry.tracing import NULL_SPAN, current_ids, is_wanted, open_tracing, span, use_tracer
from tests.operation.service import Operated
from tests.operation.traffic import CANARY

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def recorded() -> Iterator[InMemorySpanExporter]:
    """Record the spans of this process while the test runs."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with use_tracer(OpenTelemetryTracer(provider)):
        yield exporter
    provider.shutdown()


def find_root(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    """The only span with this name."""
    (found,) = [s for s in spans if s.name == name]
    return found


def name_children(spans: Sequence[ReadableSpan], parent: ReadableSpan) -> list[str]:
    """Names of the direct children of a span, in alphabetical order."""
    return sorted(s.name for s in spans if s.parent is not None and s.parent.span_id == parent.context.span_id)


async def test_request_has_search_legs_and_provider_below_it(
    operated: Operated, recorded: InMemorySpanExporter
) -> None:
    caller = operated.call_as(await operated.make_tenant())
    await caller.add("The harbour closes at dusk")
    began = time.time_ns()  # work of the request before may end after its answer
    await caller.post("/knowledge/search", {"query": "harbour"}, headers={"traceparent": PARENT})
    spans = [s for s in recorded.get_finished_spans() if s.start_time is not None and s.start_time >= began]
    root = find_root(spans, "POST /knowledge/search")
    assert root.parent is not None
    assert (f"{root.context.trace_id:032x}", f"{root.parent.span_id:016x}") == (PARENT[3:35], PARENT[36:52])
    assert {s.context.trace_id for s in spans} == {root.context.trace_id}
    assert root.attributes is not None
    assert root.attributes["http.response.status_code"] == 200
    assert root.attributes["knowledge.tenant_id"] == str(caller.tenant_id)
    assert name_children(spans, root) == ["search"]
    search = find_root(spans, "search")
    assert name_children(spans, search) == ["embed", "fusion", "hydrate", "keyword", "semantic"]
    assert name_children(spans, find_root(spans, "embed")) == ["provider query"]
    semantic = find_root(spans, "semantic")
    assert semantic.attributes is not None
    assert semantic.attributes["knowledge.strategy"] == "exact"


async def test_job_has_parsing_embedding_and_swap_below_it(operated: Operated, recorded: InMemorySpanExporter) -> None:
    caller = operated.call_as(await operated.make_tenant())
    await caller.upload("harbour.md", b"# Harbour\n\nIt closes at dusk.", "text/markdown")
    recorded.clear()
    await operated.work()
    spans = recorded.get_finished_spans()
    job = find_root(spans, "job ingest_asset")
    assert job.parent is None
    assert name_children(spans, job) == ["chunk", "embed", "parse", "swap"]
    assert name_children(spans, find_root(spans, "embed")) == ["provider documents"]
    assert job.attributes is not None
    assert (job.attributes["knowledge.outcome"], job.attributes["knowledge.attempt"]) == ("done", 1)


async def test_failure_is_marked_only_by_its_type(operated: Operated, recorded: InMemorySpanExporter) -> None:
    caller = operated.call_as(await operated.make_tenant())
    operated.provider.error = EmbeddingUnavailable("mock", f"quotes {CANARY}", permanent=True)
    found = await caller.search("harbour")
    assert found["metadata"]["fallback_mode"]
    call = find_root(recorded.get_finished_spans(), "provider query")
    assert not call.status.is_ok
    assert call.status.description is None
    assert call.attributes is not None
    assert call.attributes["error.type"] == "EmbeddingUnavailable"
    assert call.events == ()


async def test_spans_contain_nothing_that_callers_send(operated: Operated, recorded: InMemorySpanExporter) -> None:
    caller = operated.call_as(await operated.make_tenant())
    entry = await caller.add(f"The {CANARY} sings", title=CANARY, tags=[CANARY], metadata={CANARY: CANARY})
    await caller.upload(f"{CANARY}.md", f"# {CANARY}\n\nIt sings.".encode(), "text/markdown")
    await operated.work()
    await caller.search(CANARY, tags=[CANARY])
    await caller.search(f"{CANARY} 123", explain=True)
    await caller.get(f"/knowledge/{CANARY}?q={CANARY}")
    await caller.get(f"/knowledge/entries/{entry['id']}")
    await caller.post("/knowledge/search", {"query": CANARY}, headers={"traceparent": CANARY})
    await caller.post("/knowledge/search", {"query": CANARY}, headers={"baggage": f"a={CANARY}"})
    operated.provider.error = RuntimeError(CANARY)
    await caller.search(f"{CANARY} again")
    spans = recorded.get_finished_spans()
    assert len(spans) > 40
    told = "\n".join(s.to_json() for s in spans)
    for secret in (CANARY, CANARY.lower(), caller.token, entry["id"], "select "):
        assert secret not in told


async def test_logs_of_a_request_name_its_trace(operated: Operated, recorded: InMemorySpanExporter) -> None:
    caller = operated.call_as(await operated.make_tenant())
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    stream = io.StringIO()
    configure_logging("info", json=True, stream=stream)
    try:
        answer = await caller.post(
            "/knowledge/search", {"query": "harbour"}, headers={"traceparent": PARENT, "X-Request-ID": "request-1"}
        )
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    of_request = [line for line in lines if line["message"] in ("search", "request")]
    assert [line["message"] for line in of_request] == ["search", "request"]
    for line in of_request:
        assert (line["trace_id"], line["request_id"]) == (PARENT[3:35], "request-1")
        assert line["tenant_id"] == str(caller.tenant_id)
        assert len(line["span_id"]) == 16
    assert of_request[0]["query_time_ms"] >= 0
    assert of_request[1]["milliseconds"] > 0
    assert answer.headers["x-request-id"] == "request-1"


def test_span_without_a_tracer_is_one_object_that_does_nothing() -> None:
    with span("search", mode="hybrid") as seen:
        assert seen is NULL_SPAN
        seen.set(hits=1)
        seen.fail("Anything")
        assert current_ids() is None


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
async def test_traces_are_sent_only_when_a_collector_is_configured(environment: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environment) is wanted
    if not wanted:
        async with open_tracing(environment):
            assert span("search") is NULL_SPAN


@contextlib.contextmanager
def open_collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A server that accepts what exporters send; yields its address, and the received paths and bodies."""
    taken: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            taken.append((self.path, body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", taken
        server.shutdown()


async def test_spans_reach_a_collector_at_shutdown_at_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_collector() as (address, taken):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "search-of-the-tests")
        async with open_tracing():
            with span("a part of the work"):
                assert current_ids() is not None
    assert tracing.span("after") is NULL_SPAN
    ((path, body),) = taken
    assert path == "/v1/traces"
    assert b"a part of the work" in body
    assert b"search-of-the-tests" in body


async def test_collector_without_the_extra_is_reported_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(sys.modules, "app.telemetry.opentelemetry")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    async with open_tracing({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}):
        assert span("search") is NULL_SPAN
    assert "the extra otel is not installed" in caplog.text

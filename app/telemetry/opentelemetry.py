"""Spans for OpenTelemetry, from the extra `otel`; imported only where a collector is configured.

The tracer provider is not the global one: libraries that use that one would add spans that quote what
callers send.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from importlib.metadata import version

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.telemetry.tracing import Attribute, SpanKind

_KINDS: Mapping[SpanKind, trace.SpanKind] = {
    "internal": trace.SpanKind.INTERNAL,
    "server": trace.SpanKind.SERVER,
    "client": trace.SpanKind.CLIENT,
    "consumer": trace.SpanKind.CONSUMER,
}
_PROPAGATOR = TraceContextTextMapPropagator()


class OpenTelemetryTracer:
    """Tracer over an SDK's provider. It records only the type of exceptions: their text may quote anything."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("knowledge-search", version("knowledge-search"))

    @contextlib.contextmanager
    def start(
        self, name: str, kind: SpanKind, parent: Mapping[str, str] | None, attributes: Mapping[str, Attribute | None]
    ) -> Iterator[_Recorded]:
        """A span that lasts as long as the block."""
        with self._tracer.start_as_current_span(
            name,
            context=_PROPAGATOR.extract(parent) if parent else None,
            kind=_KINDS[kind],
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            recorded = _Recorded(span)
            recorded.set(**attributes)
            try:
                yield recorded
            except Exception as error:
                recorded.fail(type(error).__name__)
                raise

    def current(self) -> tuple[str, str] | None:
        """The ids of the current trace and span."""
        context = trace.get_current_span().get_span_context()
        if not context.is_valid:
            return None
        return trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id)


class _Recorded:
    """A span that the SDK records."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, **attributes: Attribute | None) -> None:
        """Note attributes; `tenant_id` is stored as `knowledge.tenant_id`, `http_route` as `http.route`."""
        for name, value in attributes.items():
            if value is not None:
                self._span.set_attribute(_STANDARD.get(name, f"knowledge.{name}"), value)

    def rename(self, name: str) -> None:
        """Change the span's name."""
        self._span.update_name(name)

    def fail(self, reason: str) -> None:
        """Mark the span as failed."""
        self._span.set_attribute("error.type", reason)
        self._span.set_status(trace.StatusCode.ERROR)


_STANDARD: Mapping[str, str] = {
    "http_method": "http.request.method",
    "http_route": "http.route",
    "http_status": "http.response.status_code",
}
"""Names from OpenTelemetry's semantic conventions; all others have the prefix `knowledge.`."""


def make_provider() -> TracerProvider:
    """A provider that sends to the collector of OTEL_EXPORTER_OTLP_ENDPOINT, configured by the OTEL_* variables."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.version": version("knowledge-search")})
    if str(resource.attributes.get("service.name")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "knowledge-search"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider

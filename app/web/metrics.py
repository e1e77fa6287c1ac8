"""Prometheus metrics of HTTP and MCP. Labels are bounded: routes, not paths, and never a tenant or a text.

`app.telemetry.metrics` has the metrics of the services.
"""

from __future__ import annotations

from prometheus_client import Counter, Histogram

REQUESTS = Counter("knowledge_requests_total", "HTTP requests", ("method", "route", "status"))
REQUEST_SECONDS = Histogram(
    "knowledge_request_seconds",
    "Time from request to answer",
    ("route",),
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
)
TOOL_CALLS = Counter("knowledge_tool_calls_total", "Calls of MCP tools", ("tool", "status"))
REFUSALS = Counter("knowledge_refusals_total", "Requests over a limit of their tenant", ("limit",))

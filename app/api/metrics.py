"""What Prometheus scrapes; labels are bounded: routes, not paths, and never a tenant or a text."""

from __future__ import annotations

from prometheus_client import Counter, Histogram

REQUESTS = Counter("knowledge_requests_total", "HTTP requests", ("method", "route", "status"))
REQUEST_SECONDS = Histogram(
    "knowledge_request_seconds",
    "Time from request to answer",
    ("route",),
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
)
SEARCHES = Counter(
    "knowledge_searches_total", "Searches by mode, and whether words alone answered", ("mode", "fallback")
)
SEARCH_LEG_SECONDS = Histogram(
    "knowledge_search_leg_seconds",
    "Time of each part of a search",
    ("leg",),
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2),
)
TOOL_CALLS = Counter("knowledge_tool_calls_total", "Calls of MCP tools", ("tool", "status"))
REFUSALS = Counter("knowledge_refusals_total", "Requests over a limit of their tenant", ("limit",))

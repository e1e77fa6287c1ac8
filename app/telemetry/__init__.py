"""Observability: counters and timings for Prometheus, spans for OpenTelemetry."""

"""What operators see of the service: counters and timings for Prometheus, spans for OpenTelemetry."""

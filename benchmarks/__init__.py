"""Programs that measure: `python -m benchmarks.quality` (ranking) and `python -m benchmarks.speed`."""

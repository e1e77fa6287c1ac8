"""Knowledge search."""

import os

# onnxruntime starts a thread at its import that reports its use to its vendor, unless this is set before.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

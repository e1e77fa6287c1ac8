"""The compose file and the Dockerfile, read for the tests of their guarantees."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
OWN_SERVICES = ("migrate", "api", "worker")
DIGEST = "(@sha256:[0-9a-f]{64})?"
"""The end of an image's name that a deployment may add."""


def read_dockerfile() -> list[str]:
    """The instructions, one per line and without comments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    return [line for line in re.sub(r"\\\n\s*", "", text).splitlines() if line]


def read_compose() -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def service(compose: dict[str, Any], name: str) -> dict[str, Any]:
    found = compose["services"][name]
    assert isinstance(found, dict)
    return found

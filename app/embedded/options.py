"""The options that a launching process passes to the supervisor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Paths are absolute; `start_timeout` is in seconds."""

    data_dir: str
    binaries: str
    settings: Mapping[str, str]
    start_timeout: float

    @classmethod
    def from_json(cls, text: str) -> Options:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

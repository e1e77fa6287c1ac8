"""Writing answers: the services' frozen dataclasses become JSON without a detour over models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import orjson
from fastapi import Response

from app.knowledge.reembedding.change import ModelChange


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON of dataclasses, UUIDs and times; the response models describe the same shapes for OpenAPI."""
    return Response(orjson.dumps(content), status, dict(headers or {}), "application/json")


def describe_change(change: ModelChange) -> dict[str, Any]:
    """A change of model as it is answered."""
    shown = {f.name: getattr(change, f.name) for f in fields(change)}
    for name in ("old", "new"):
        model = shown[name]
        shown[name] = {"provider": model.provider, "name": model.name, "dimensions": model.dimensions}
    return shown

"""Responses: frozen dataclasses of the services are serialised to JSON without models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import orjson
from fastapi import Response

from app.db.queries.search.receipts import KeptSearch
from app.knowledge.administration.replay import Replay
from app.knowledge.reembedding.change import ModelChange


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON of dataclasses, UUIDs and times; the response models describe the same shapes for OpenAPI."""
    return Response(orjson.dumps(content), status, dict(headers or {}), "application/json")


def describe_change(change: ModelChange) -> dict[str, Any]:
    """The response for a model change."""
    shown = {f.name: getattr(change, f.name) for f in fields(change)}
    for name in ("old", "new"):
        model = shown[name]
        shown[name] = {"provider": model.provider, "name": model.name, "dimensions": model.dimensions}
    return shown


def describe_replay(replay: Replay) -> dict[str, Any]:
    """The response for a replay of a search."""
    shown = {f.name: getattr(replay, f.name) for f in fields(replay)}
    return shown | {name: [entry._asdict() for entry in shown[name]] for name in ("then", "now")}


def describe_search(kept: KeptSearch) -> dict[str, Any]:
    """A search for its tenant's admin: the record and its receipt."""
    receipt = {f.name: getattr(kept.receipt, f.name) for f in fields(kept.receipt)}
    del receipt["asked"]  # together with its salt, the hash would confirm a guess of the query
    del receipt["principals"]
    if kept.receipt.query is None:
        del receipt["query"]
    receipt["weights"] = dict(zip(("semantic", "keyword"), kept.receipt.weights, strict=True))
    receipt["ranking"] = [candidate._asdict() for candidate in kept.receipt.ranking]
    return {
        "search_id": kept.id,
        "subject": kept.subject,
        "at": kept.at,
        "result_count": kept.result_count,
        "query_time_ms": kept.query_time_ms,
        **receipt,
    }

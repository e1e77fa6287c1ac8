"""The field `filter` of searches, as schemas describe it; `SearchQuery` validates it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import WithJsonSchema
from pydantic.config import JsonDict

from app.knowledge.search.conditions import FIELDS, MAX_CONDITIONS, MAX_DEPTH, MAX_VALUES

SCALAR: JsonDict = {"type": ["string", "number", "boolean", "null"]}
BOUND: JsonDict = {"type": ["string", "number"]}
TERMS: JsonDict = {"type": "array", "minItems": 1, "maxItems": MAX_CONDITIONS, "items": {"type": "object"}}

EXAMPLE: JsonDict = {
    "and": [
        {"field": "metadata.year", "gte": 2020, "lt": 2026},
        {"field": "metadata.team", "in": ["search", "ops"]},
        {"not": {"field": "is_verified", "eq": False}},
    ]
}

SCHEMA: JsonDict = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": False,
    "properties": {
        "field": {
            "description": "`metadata.KEY`, with further keys for nested objects, or a field of the entry:"
            f" {', '.join(FIELDS)}. A dot in a key is written `\\.`; or the path is a list of keys.",
            "anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "string"}}],
            "examples": ["metadata.year", "confidence", ["metadata", "a.b"]],
        },
        "eq": {
            **SCALAR,
            "description": "Equal, with the same type. Of a list, one value has to fulfil a condition.",
        },
        "ne": {**SCALAR, "description": "The opposite of `eq`; also where the field is missing."},
        "in": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_VALUES,
            "items": SCALAR,
            "description": "Equal to one of these.",
        },
        "gt": {
            **BOUND,
            "description": "Greater: a number, a text by its characters, or a time with its zone.",
        },
        "gte": {**BOUND, "description": "Greater or equal."},
        "lt": {**BOUND, "description": "Less."},
        "lte": {**BOUND, "description": "Less or equal."},
        "exists": {
            "type": "boolean",
            "description": "Whether it has a value: not null, and not an empty list.",
        },
        "and": {**TERMS, "description": "All of these filters."},
        "or": {**TERMS, "description": "At least one of these filters."},
        "not": {"type": "object", "description": "The opposite of this filter."},
    },
    "examples": [EXAMPLE],
}

FilterObject = Annotated[dict[str, Any], WithJsonSchema(SCHEMA)]

FILTER_DESCRIPTION = (
    "Ranges and logic on metadata and on fields of the entry: either `field` with one or more operators, all of which"
    " it has to fulfil, or exactly one of `and`, `or` and `not`. At most"
    f" {MAX_CONDITIONS} operators, {MAX_VALUES} values in lists, {MAX_DEPTH} levels and 64 KiB."
)

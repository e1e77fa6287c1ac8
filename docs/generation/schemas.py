"""JSON schemas in words."""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


def describe_type(schema: Schema) -> str:
    """The type of a value, with its bounds: "integer, 1 to 50", "array of strings", or a link to a named schema."""
    if "$ref" in schema:
        return _link(schema["$ref"])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(describe_type(option) for option in schema[key]))
    if "const" in schema:
        return _code(schema["const"])
    if "enum" in schema:
        return ", ".join(_code(value) for value in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"array of {describe_type(schema.get('items', {}))}{_bounds(schema, 'minItems', 'maxItems')}"
    if kind == "object" and isinstance(extra := schema.get("additionalProperties"), Mapping) and extra:
        return f"object of {describe_type(extra)}"
    if kind == "string":
        name = schema.get("format", "string")
        return f"{name}{_bounds(schema, 'minLength', 'maxLength', ' characters')}"
    return f"{kind}{_bounds(schema, 'minimum', 'maximum')}"


def describe_default(schema: Schema) -> str:
    """The default as JSON, or an empty string."""
    return _code(schema["default"]) if schema.get("default") not in (None, [], {}) else ""


def describe_fields(schema: Schema) -> list[tuple[str, str, str, str]]:
    """A table row for each property: name, type, default or "required", description."""
    required = set(schema.get("required", ()))
    return [
        (f"`{name}`", describe_type(value), "required" if name in required else describe_default(value),
         value.get("description", ""))
        for name, value in schema.get("properties", {}).items()
    ]  # fmt: skip


def _bounds(schema: Schema, low: str, high: str, unit: str = "") -> str:
    least, most = _number(schema.get(low)), _number(schema.get(high))
    if least and most:
        return f", {least} to {most}{unit}"
    return f", at least {least}{unit}" if least else f", at most {most}{unit}" if most else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.12g}"


def _link(reference: str) -> str:
    name = reference.rpartition("/")[2]
    return f"[{name}](#{name.lower()})"


def _code(value: object) -> str:
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"

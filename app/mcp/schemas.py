"""Flat JSON schemas of arguments and results: not every client resolves references, and models read plain ones best."""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter


def input_schema(model: type) -> dict[str, Any]:
    """The schema of a tool's arguments, without the null that any optional argument accepts.

    Arguments for which null differs from omission keep it; the model names them in `MEANINGFUL_NULLS`.
    """
    flat = _flatten(model)
    simple: dict[str, Any] = _simplify(flat)
    for name in getattr(model, "MEANINGFUL_NULLS", ()):
        simple["properties"][name] = flat["properties"][name]
    simple.pop("description")  # the tool's own says more
    single: dict[str, Any] = _split_types(_shorten(simple))
    return single


def output_schema(model: type) -> dict[str, Any]:
    """The schema of a tool's structured output, which has no field that is null."""
    schema: dict[str, Any] = _simplify(_require_others(_flatten(model)))
    return schema


def _flatten(model: type) -> dict[str, Any]:
    schema = TypeAdapter(model).json_schema()
    flat: dict[str, Any] = _inline(schema, schema.pop("$defs", {}))
    flat.pop("title", None)
    flat.pop("examples", None)
    return flat


def admit_problem(result: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool's structured output, which is its result or a problem.

    Clients validate the output of failed calls too, and replace a problem that the schema does not admit by their own
    complaint. The fields of the result stay at the top, where clients look for them.
    """
    schema = dict(result)
    shared = {
        name: {"anyOf": [schema["properties"][name], of_problem]}
        for name, of_problem in _PROBLEM.items()
        if name in schema["properties"] and schema["properties"][name].get("type") != of_problem["type"]
    }
    schema["properties"] = schema["properties"] | shared
    schema["anyOf"] = [{"required": schema.pop("required")}, {"required": list(_PROBLEM)}]
    return schema


def _inline(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inline(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(reference := node.get("$ref"), str):
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _inline(definitions[reference.rpartition("/")[2]] | rest, definitions)
    # `properties` maps names to schemas: a property called "title" is not an annotation.
    return {
        key: {name: _inline(value, definitions) for name, value in inner.items()}
        if key == "properties"
        else _inline(inner, definitions)
        for key, inner in node.items()
        if key != "title" or not isinstance(inner, str)
    }


def _split_types(node: Any) -> Any:
    """The schema with one type in each place: some providers of models accept no list of types."""
    if isinstance(node, list):
        return [_split_types(item) for item in node]
    if not isinstance(node, dict):
        return node
    split = {key: _split_types(value) for key, value in node.items()}
    if isinstance(types := split.get("type"), list):
        del split["type"]
        split = {"anyOf": [{"type": one} for one in types]} | split
    return split


LONGEST_ENUM = 20
"""Values of an argument that the schema lists; an error lists more."""


def _shorten(node: Any) -> Any:
    """The schema without what costs a model tokens and tells it little: patterns, examples and long lists of values."""
    if isinstance(node, list):
        return [_shorten(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _shorten(inner) for name, inner in value.items()} if key == "properties" else _shorten(value)
        for key, value in node.items()
        if not (key in ("pattern", "examples") or (key == "enum" and len(value) > LONGEST_ENUM))
    }


def _require_others(node: Any) -> Any:
    """The schema in which no field that can be null is required."""
    if isinstance(node, list):
        return [_require_others(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _require_others(value) for key, value in node.items()}
    if isinstance(required := made.get("required"), list):
        properties = made["properties"]
        made["required"] = [name for name in required if {"type": "null"} not in properties[name].get("anyOf", ())]
    return made


def _simplify(node: Any) -> Any:
    if isinstance(node, list):
        return [_simplify(item) for item in node]
    if not isinstance(node, dict):
        return node
    simple = {key: _simplify(value) for key, value in node.items()}
    options = simple.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        left = [option for option in options if option != {"type": "null"}]
        del simple["anyOf"]
        simple = (left[0] if len(left) == 1 else {"anyOf": left}) | simple
        if simple.get("default", ...) is None:
            del simple["default"]
    return simple


_PROBLEM: Mapping[str, dict[str, str]] = {
    "type": {"type": "string"},
    "title": {"type": "string"},
    "status": {"type": "integer"},
    "detail": {"type": "string"},
}
"""What all problems have."""

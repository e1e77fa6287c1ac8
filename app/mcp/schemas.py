"""Flat JSON schemas of arguments and results: not every client resolves references, and models read plain ones best."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter


def input_schema(model: type) -> dict[str, Any]:
    """The schema of a tool's arguments, without the null that any optional argument accepts.

    Arguments for which null differs from omission keep it; the model names them in `MEANINGFUL_NULLS`.
    """
    flat = _flatten(model)
    simple: dict[str, Any] = _change(flat, _simplify)
    for name in getattr(model, "MEANINGFUL_NULLS", ()):
        simple["properties"][name] = flat["properties"][name]
    simple.pop("description")  # the tool's own says more
    single: dict[str, Any] = _change(_change(simple, _shorten), _split_types)
    return single


def output_schema(model: type) -> dict[str, Any]:
    """The schema of a tool's structured output, which has no field that is null."""
    schema: dict[str, Any] = _change(_change(_flatten(model), _require_others), _simplify)
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


def _change(node: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """The schema with each object in it changed, the innermost first.

    The objects include `properties`, whose keys are names: of these, the values are schemas.
    """
    if isinstance(node, list):
        return [_change(item, change) for item in node]
    if not isinstance(node, dict):
        return node
    return change({key: _change(value, change) for key, value in node.items()})


def _split_types(node: dict[str, Any]) -> dict[str, Any]:
    """One type in each place: some providers of models accept no list of types."""
    if not isinstance(types := node.get("type"), list):
        return node
    del node["type"]
    return {"anyOf": [{"type": one} for one in types]} | node


LONGEST_ENUM = 20
"""Values of an argument that the schema lists; an error lists more."""


def _shorten(node: dict[str, Any]) -> dict[str, Any]:
    """Without what costs a model tokens and tells it little: patterns, examples and long lists of values."""
    return {
        key: value
        for key, value in node.items()
        if not (
            (key == "pattern" and isinstance(value, str))
            or (key == "examples" and isinstance(value, list))
            or (key == "enum" and isinstance(value, list) and len(value) > LONGEST_ENUM)
        )
    }


def _require_others(node: dict[str, Any]) -> dict[str, Any]:
    """No field that can be null is required."""
    if isinstance(required := node.get("required"), list):
        properties = node["properties"]
        node["required"] = [name for name in required if {"type": "null"} not in properties[name].get("anyOf", ())]
    return node


def _simplify(node: dict[str, Any]) -> dict[str, Any]:
    """Without the null that an optional value accepts."""
    options = node.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        left = [option for option in options if option != {"type": "null"}]
        del node["anyOf"]
        node = (left[0] if len(left) == 1 else {"anyOf": left}) | node
        if node.get("default", ...) is None:
            del node["default"]
    return node


_PROBLEM: Mapping[str, dict[str, str]] = {
    "type": {"type": "string"},
    "title": {"type": "string"},
    "status": {"type": "integer"},
    "detail": {"type": "string"},
}
"""What all problems have."""

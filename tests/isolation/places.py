"""Every place in HTTP and the MCP tools that takes an id, read from their schemas; new ones are included
automatically.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

Step = str | int
Schema = Mapping[str, Any]
MCP = "/mcp"


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an id: a path parameter, a query parameter, or a spot in a JSON body.

    Attributes:
        spot: the name of the parameter, or the path through the body.
        body: a valid body, with any id at the spot.
        is_cursor: whether it takes a cursor, which may contain an id.
    """

    method: str
    path: str
    kind: str
    spot: tuple[Step, ...]
    body: Any = None
    is_cursor: bool = False

    def __str__(self) -> str:
        if self.path == MCP:
            return f"tool {self.body['params']['name']} {'.'.join(map(str, self.spot[2:]))}"
        return f"{self.method} {self.path} {self.kind} {'.'.join(map(str, self.spot))}"

    def fill(self, value: str, own: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
        """The path and the request's options with `value` at the spot, and the caller's `own` ids elsewhere."""
        ids = dict(own)
        options: dict[str, Any] = {}
        if self.kind == "path":
            ids[str(self.spot[0])] = value
        elif self.kind == "query":
            options["params"] = {str(self.spot[0]): value}
        body = copy.deepcopy(self.body)
        if self.kind == "body":
            target = body
            for step in self.spot[:-1]:
                target = target[step]
            target[self.spot[-1]] = value
        if self.path == MCP:
            options["headers"] = {"Accept": "application/json, text/event-stream"}
        if body is not None:
            options["json"] = body
        return self.path.format_map(_Ids(ids)), options


class _Ids(dict[str, str]):
    def __missing__(self, _name: str) -> str:
        return str(uuid4())


def list_places(document: Schema) -> list[Place]:
    """All places that take an id or a cursor."""
    found: list[Place] = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            body = _json_body(document, operation)
            valid = make_valid(document, body) if body is not None else None
            for parameter in operation.get("parameters", ()):
                # Another path parameter is a name that the caller gives, such as that of a source.
                takes_id = _is_id(document, parameter["schema"])
                is_cursor = parameter["name"] == "cursor"
                if takes_id or is_cursor:
                    spot = (parameter["name"],)
                    found.append(Place(method.upper(), path, parameter["in"], spot, valid, is_cursor))
            for way, is_cursor in _ids_within(document, body, ()) if body is not None else ():
                filled = copy.deepcopy(valid)
                _make_way(document, body, filled, way)
                found.append(Place(method.upper(), path, "body", way, filled, is_cursor))
    return found


def list_tool_places(schemas: Mapping[str, Schema]) -> list[Place]:
    """All places in tool arguments that take an id; `schemas` are the schemas of the arguments."""
    found: list[Place] = []
    for name, schema in schemas.items():
        for way, is_cursor in _ids_within(schema, schema, ()):
            arguments = make_valid(schema, schema)
            _make_way(schema, schema, arguments, way)
            call = {"name": name, "arguments": arguments}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            found.append(Place("POST", MCP, "body", ("params", "arguments", *way), body, is_cursor))
    return found


def make_valid(document: Schema, schema: Any) -> Any:
    """A small value that the schema accepts."""
    schema = _resolve(document, schema)
    if "const" in schema:
        return schema["const"]
    if schema.get("examples"):
        return copy.deepcopy(schema["examples"][0])
    if "enum" in schema:
        return schema["enum"][0]
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return make_valid(document, schema[union][0])
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {name: make_valid(document, properties[name]) for name in schema.get("required", ())}
        case "array":
            return [make_valid(document, schema.get("items", {})) for _ in range(schema.get("minItems", 0))]
        case "boolean":
            return True
        case "integer" | "number":
            return schema.get("minimum", 1)
        case _:
            return {"uuid": str(uuid4()), "uri": "https://example.com/"}.get(schema.get("format", ""), "word")


def _json_body(document: Schema, operation: Schema) -> Any:
    content = operation.get("requestBody", {}).get("content", {})
    for media_type, described in content.items():
        if media_type != "application/json":
            ids = list(_ids_within(document, described["schema"], ()))
            assert not ids, f"teach places.py how to send {ids} as {media_type}"
    return content.get("application/json", {}).get("schema")


def _resolve(document: Schema, schema: Any) -> dict[str, Any]:
    while "$ref" in schema:
        target: Any = document
        for step in schema["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        schema = target
    return dict(schema)


def _is_id(document: Schema, schema: Any) -> bool:
    schema = _resolve(document, schema)
    options = [s for union in ("anyOf", "oneOf", "allOf") for s in schema.get(union, ())]
    items = [schema["items"]] if "items" in schema else []
    return schema.get("format") == "uuid" or any(_is_id(document, s) for s in (*options, *items))


def _ids_within(document: Schema, schema: Any, way: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], bool]]:
    """The paths to all ids and cursors in a body; in an array, to its first item."""
    schema = _resolve(document, schema)
    if schema.get("format") == "uuid":
        yield way, False
    elif way and way[-1] == "cursor":
        yield way, True
    else:
        for union in ("anyOf", "oneOf", "allOf"):
            for option in schema.get(union, ()):
                yield from _ids_within(document, option, way)
        if "items" in schema:
            yield from _ids_within(document, schema["items"], (*way, 0))
        for name, inner in schema.get("properties", {}).items():
            yield from _ids_within(document, inner, (*way, name))


def _make_way(document: Schema, schema: Any, value: Any, way: tuple[Step, ...]) -> None:
    """Add the missing parts on the path to a spot in a body."""
    if len(way) == 1 and isinstance(value, list) and not value:
        value.append(None)
    if len(way) < 2:
        return
    inner = _step(document, schema, way[0])
    if isinstance(value, list):
        if not value:
            value.append(make_valid(document, inner))
    elif value.get(str(way[0])) is None:
        value[str(way[0])] = [] if isinstance(way[1], int) else make_valid(document, inner)
    _make_way(document, inner, value[way[0]], way[1:])


def _step(document: Schema, schema: Any, step: Step) -> Any:
    """The schema of the next level."""
    schema = _resolve(document, schema)
    if isinstance(step, int) and "items" in schema:
        return schema["items"]
    if step in schema.get("properties", {}):
        return schema["properties"][step]
    options = [s for union in ("anyOf", "oneOf", "allOf") for s in schema.get(union, ())]
    for option in options:
        resolved = _resolve(document, option)
        if step in resolved.get("properties", {}) or (isinstance(step, int) and "items" in resolved):
            return _step(document, option, step)
    raise LookupError(step)

"""Read the promises of this version from its code."""

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from app.cli.main import command
from app.contract.problems import TYPES
from app.main import create_app
from app.mcp.resources import TEMPLATES
from app.mcp.tools import SETS, TOOLS
from app.settings import Settings
from docs.generation.settings import EXAMPLE, VARIABLE
from knowledge_client import public
from tests.compatibility.promises import ANSWERED, LEAST, MOST, Facts, Promises

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "docs" / "reference" / "python.md"
TYPESCRIPT = ROOT / "clients" / "typescript" / "src"
BOUNDS = (*LEAST, *MOST, "pattern")
MEMBERS = re.compile(r"^::: (\S+)(?:\n +options:\n +members: (.+))?$", re.MULTILINE)

Promise = tuple[str, Facts]


def read_promises() -> Promises:
    """Every promise of this version."""
    http = read_http(create_app(Settings()).openapi())
    parts = (
        http,
        _read_problems(),
        _read_tools(),
        _read_commands(),
        _read_settings(),
        _read_python(),
        _read_typescript(),
    )
    return {
        name: {fact: facts[fact] for fact in ANSWERED if fact in facts} if name.startswith("answer ") else facts
        for part in parts
        for name, facts in part
    }


def read_http(document: Mapping[str, Any]) -> Iterator[Promise]:
    """The promises of an OpenAPI document."""
    schemas = document["components"]["schemas"]
    sent, received = set[str](), set[str]()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = f"http {method.upper()}:{path}"
            answers = {status: each.get("content", {}) for status, each in operation["responses"].items()}
            bodies = operation.get("requestBody", {}).get("content", {})
            done = [status for status in answers if status.startswith("2")]
            yield name, {"statuses": done, **({"accepts": sorted(bodies)} if bodies else {})}
            for parameter in operation.get("parameters", ()):
                yield from _read_field(f"{name} {parameter['in']}:{parameter['name']}", parameter["schema"], parameter)
            for kind, content in bodies.items():
                yield f"{name} {kind}", _read_facts(content["schema"])
                sent |= _find_names(content["schema"], schemas)
            for status, contents in answers.items():
                for kind, content in contents.items():
                    if status in done:
                        yield f"answer {method.upper()}:{path} {status}:{kind}", _read_facts(content["schema"])
                    received |= _find_names(content["schema"], schemas)
    for direction, names in (("request", sent), ("answer", received)):
        for name in names:
            yield from _read_shape(f"{direction} {name}", schemas[name])


def _find_names(schema: Any, schemas: Mapping[str, Any]) -> set[str]:
    """The shapes that a schema refers to, also by others."""
    found, waiting = set[str](), [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            reference = part.get("$ref")
            if isinstance(reference, str) and (name := reference.rpartition("/")[2]) not in found:
                found.add(name)
                waiting.append(schemas[name])
            waiting += [inner for key, inner in part.items() if key not in ("example", "examples", "default")]
    return found


def _read_shape(name: str, schema: Mapping[str, Any]) -> Iterator[Promise]:
    """A schema with its fields."""
    yield name, _read_facts(schema)
    required = schema.get("required", ())
    for field, inner in schema.get("properties", {}).items():
        yield from _read_field(f"{name} {field}", inner, {"required": field in required})


def _read_field(name: str, schema: Mapping[str, Any], around: Mapping[str, Any]) -> Iterator[Promise]:
    facts = _read_facts(schema)
    yield name, facts | ({"required": True} if around.get("required") else {})
    for branch in _branches(schema):
        for word in ("items", "additionalProperties"):
            inner = branch.get(word)
            if isinstance(inner, dict) and inner:
                yield from _read_shape(f"{name} {'[]' if word == 'items' else '{}'}", inner)
        if "properties" in branch:
            yield from list(_read_shape(name, branch))[1:]


def _branches(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [branch for word in ("anyOf", "oneOf", "allOf") for branch in schema.get(word, ())] or [schema]


def _read_facts(schema: Mapping[str, Any]) -> dict[str, Any]:
    branches = [schema, *(branch for branch in _branches(schema) if branch is not schema)]
    types: set[str] = set()
    facts: dict[str, Any] = {}
    values: list[Any] = []
    for branch in branches:
        if "$ref" in branch:
            types.add(branch["$ref"].rpartition("/")[2])
        found = branch.get("type", ())
        kinds = [found] if isinstance(found, str) else list(found)
        types.update(f"{kind}:{branch['format']}" if "format" in branch and kind != "null" else kind for kind in kinds)
        values += branch.get("enum", [branch["const"]] if "const" in branch else [])
        facts |= {name: branch[name] for name in BOUNDS if name in branch}
    if types:
        facts["types"] = sorted(types)
    if values and not any(_is_open(branch) for branch in _branches(schema)):
        facts["values"] = sorted(map(str, values))
    if "default" in schema:
        facts["default"] = schema["default"]
    return facts


def _is_open(branch: Mapping[str, Any]) -> bool:
    """Whether a branch next to an enumeration allows any value."""
    return not {"enum", "const"} & branch.keys() and branch.get("type") != "null"


def _read_problems() -> Iterator[Promise]:
    return ((f"problem {kind.uri}", {"status": kind.status}) for kind in TYPES.values())


def _read_tools() -> Iterator[Promise]:
    for tool in TOOLS.values():
        name = f"tool {tool.name}"
        sets = sorted(each for each, names in SETS.items() if tool.name in names)
        yield name, {"role": tool.role.value, "values": sets}
        for direction, schema in (("tool", tool.input_schema), ("answer", tool.output_schema)):
            yield from list(_read_shape(f"{direction} {tool.name}", schema))[direction == "tool" :]
            for part, inner in schema.get("$defs", {}).items():
                yield from _read_shape(f"{direction} {tool.name}:{part}", inner)
    yield from ((f"resource {each.uri_template}", {}) for each in TEMPLATES)


def _read_commands(group: Any = None, name: str = "command knowledge") -> Iterator[Promise]:
    group = group or command()
    yield name, {}
    position = 0
    for parameter in group.params:
        facts: dict[str, Any] = {"required": True} if parameter.required else {}
        if getattr(parameter, "is_flag", False):
            facts["flag"] = True
        if get_origin(parameter.bare_type) is Literal:
            facts["values"] = sorted(get_args(parameter.bare_type))
        if parameter.param_type_name == "argument":
            yield f"{name} {parameter.name}", facts | {"position": position}
            position += 1
        else:
            for option in (*parameter.opts, *parameter.secondary_opts):
                yield f"{name} {option}", facts
    for word in getattr(group, "commands", {}):
        yield from _read_commands(group.commands[word], f"{name}-{word}")


def _read_settings() -> Iterator[Promise]:
    lines = EXAMPLE.read_text("utf-8").splitlines()
    examples = {found[1]: found[2] for found in map(VARIABLE.match, lines) if found}
    for group in Settings.model_fields.values():
        for name, schema in group.annotation.model_json_schema()["properties"].items():  # type: ignore[union-attr]
            yield f"setting {name}", {**_read_facts(schema), "default": examples[name]}


def _read_python() -> Iterator[Promise]:
    """The objects of the reference, and the public names of the client."""
    for name, members in MEMBERS.findall(PYTHON.read_text("utf-8")):
        if name.startswith("app."):
            module, _, attribute = name.rpartition(".")
            chosen = None if not members else [each for each in re.split(r"[\[\], ]+", members) if each]
            yield from _read_object(f"python {name}", getattr(import_module(module), attribute), chosen)
    for name in public.__all__:
        yield from _read_object(f"client {name}", getattr(public, name), None)


def _read_object(name: str, found: Any, members: list[str] | None) -> Iterator[Promise]:
    yield name, {}
    if not isinstance(found, type):
        yield from _read_parameters(name, found)
        return
    if dataclasses.is_dataclass(found):
        fields = inspect.signature(found).parameters
        sent = found.__module__ != "app.contract.results"
        for field in dataclasses.fields(found):
            required = sent and field.name in fields and fields[field.name].default is inspect.Parameter.empty
            yield f"{name} {field.name}", {"required": True} if required else {}
    elif name.startswith("client ") and not issubclass(found, BaseException):
        yield from _read_parameters(name, found)
    for member, value in inspect.getmembers(found, callable):
        if not member.startswith("_") and (members is None or member in members):
            yield f"{name}.{member}", {}
            yield from _read_parameters(f"{name}.{member}", value)


def _read_parameters(name: str, function: Any) -> Iterator[Promise]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a type alias, or a class of another language
        return
    for position, each in enumerate(p for p in parameters if p.name not in ("self", "cls")):
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            yield f"{name} *{each.name}", {}
            continue
        facts: dict[str, Any] = {"required": True} if each.default is each.empty else {}
        yield f"{name} {each.name}", facts | ({} if each.kind is each.KEYWORD_ONLY else {"position": position})


def _read_typescript() -> Iterator[Promise]:
    """Exported names and the methods of classes; the types of answers are those of HTTP."""
    for path in sorted(TYPESCRIPT.glob("*.ts")):
        if path.stem != "schema":
            kind = ""
            for line in path.read_text("utf-8").splitlines():
                if found := re.match(r"export (?:abstract )?(?:class|function|interface|type|const) (\w+)", line):
                    kind = found[1]
                    yield f"typescript {kind}", {}
                elif kind and (found := re.match(r"  (?:async )?(\w+)[?]?[(:]", line)) and found[1] != "constructor":
                    yield f"typescript {kind} {found[1]}", {}

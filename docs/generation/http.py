"""The page about HTTP, from the OpenAPI document."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from docs.generation.schemas import describe_default, describe_fields, describe_type
from docs.generation.tables import render_table

Document = Mapping[str, Any]

EVERYWHERE = ("400", "401", "403", "408", "413", "415", "422", "429", "431", "500", "501", "503")
"""Statuses that mean the same at every path; the page about errors explains them."""

INTRODUCTION = """\
# HTTP

Generated from the service's [OpenAPI document](openapi.json), version {version}. A running service has the same
reference at `/docs`, where you can try every request, and at `/openapi.json`.

All paths except those of *operations* require `Authorization: Bearer <JWT>`. Bodies are JSON unless stated otherwise.
Error responses are problems; [Errors](errors.md) lists the common ones, and this page only those specific to a path.
"""


def render_http(document: Document) -> str:
    """The whole page."""
    parts = [INTRODUCTION.format(version=document["info"]["version"])]
    tags: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            section = "\n".join(_operation(method.upper(), path, operation))
            tags.setdefault(next(iter(operation.get("tags", ["other"]))), []).append(section)
    for tag, sections in tags.items():
        parts += [f"\n## {tag.capitalize()}\n", *sections]
    parts.append("\n## Schemas\n")
    parts += [_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    return "\n".join(parts)


def _operation(method: str, path: str, operation: Document) -> Iterator[str]:
    yield f"### `{method} {path}`\n"
    yield (operation.get("description") or operation["summary"]) + "\n"
    if parameters := operation.get("parameters"):
        rows = [
            (f"`{p['name']}`", p["in"], describe_type(p["schema"]), describe_default(p["schema"]),
             p.get("description", ""))
            for p in parameters
        ]  # fmt: skip
        yield render_table(("parameter", "in", "type", "default", ""), rows)
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"Takes `{media}`: {describe_type(content['schema'])}.\n"
        if "example" in content and media == "application/json":
            yield _example(content["example"])
    yield render_table(("status", "response", ""), _answers(operation["responses"]))


def _answers(responses: Document) -> Iterator[Sequence[str]]:
    for status, response in responses.items():
        if status not in EVERYWHERE:
            kinds = [
                f"`{media}` {describe_type(content.get('schema', {}))}"
                for media, content in response.get("content", {}).items()
            ]
            yield status, " or ".join(kinds), response.get("description", "")


def _schema(name: str, schema: Document) -> str:
    rows = describe_fields(schema)
    return (
        f"### {name}\n\n{schema.get('description', '')}\n\n"
        f"{render_table(('field', 'type', 'default', ''), rows) if rows else ''}"
    )


def _example(value: object) -> str:
    return "```json\n" + json.dumps(value, indent=2, ensure_ascii=False) + "\n```\n"

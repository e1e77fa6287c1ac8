"""What each field of each request refuses, and with which words: golden."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from tests.api.endpoints import TABLE
from tests.fixtures.http.callers import Caller
from tests.fixtures.http.mcp_client import HEADERS
from tests.fixtures.values import read_values
from tests.golden.files import expect_golden, expect_only
from tests.golden.scene import UNKNOWN
from tests.mcp.calls import CALLS

LONG = "x" * 12_000
VALUES: tuple[Any, ...] = (None, True, -1, 10**9, "", LONG, [], [5], {"x": 5})
FOR_TOOLS: tuple[Any, ...] = (None, -1, "", {"x": 5})
TEXTS = ("", "x", "-1", "1000000000", LONG)
"""Values of parameters of the query and of forms."""
BODIES = (b"", b"{", b"[]", b"5", b"null", b"{} x", b'{"query": "\xff"}', b'{"colour": "red"}')
BASES: Mapping[str, Any] = {"POST /admin/tenants": {"slug": "refusals"}, "POST /admin/searches/{search_id}/replay": {}}
"""Valid bodies, where the table of endpoints has none."""
ENDPOINTS = sorted(TABLE)
SHOWN = 60
"""Characters of a value that a golden file shows."""

MORE = read_values(Path(__file__).with_name("values.yaml"))
"""Values of a field, further to those of all fields: of a body's schema, an endpoint's parameters, or a tool."""


def show(text: str) -> str:
    """A value as a golden file shows it: a character that is repeated has its number, and a long text its beginning."""
    text = re.sub(r"(.)\1{50,}", lambda run: f"{run[1]}…{len(run[0])}", text)
    return text if len(text) <= SHOWN else f"{text[:20]}…{len(text)}"


def send_json(body: Any) -> Mapping[str, Any]:
    """Options of a request with JSON that may have NaN and lone surrogates, which strict writers refuse."""
    return {"content": json.dumps(body).encode(), "headers": {"Content-Type": "application/json"}}


def name_file(endpoint: str) -> str:
    return re.sub(r"[^a-z_]+", "-", endpoint.lower()).strip("-") + ".txt"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request with one wrong part: what it is, and its value there."""

    part: str
    value: str
    options: Mapping[str, Any]
    path: str = ""


class Report:
    """The outcomes, with one line for all values of a part that have the same."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[str, list[str]]] = {}

    def add(self, part: str, value: str, status: int, problem: Mapping[str, Any]) -> None:
        """Note the outcome of an attempt."""
        told = "accepted"
        if status >= 400:
            errors = [f"{error['field']}: {error['message']}" for error in problem.get("errors", ())]
            whole = [] if problem["detail"] == "; ".join(errors) else [problem["detail"]]
            told = "\n    ".join((f"{status} {problem['type'].rpartition('/')[2]}", *whole, *errors))
        self._parts.setdefault(part, {}).setdefault(told, []).append(value)

    def text(self, title: str) -> str:
        """The golden file."""
        lines = [title]
        for part, outcomes in self._parts.items():
            lines += ["", part, *(f"  {', '.join(values)} → {told}" for told, values in outcomes.items())]
        return "\n".join(lines)


def list_attempts(endpoint: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[Attempt]:
    """Each part of a request with wrong values; the other parts are valid."""
    path = endpoint.split(" ")[1]
    valid = {**TABLE[endpoint][1], **({"json": BASES[endpoint]} if endpoint in BASES else {})}
    params = valid.get("params", {})
    for parameter in operation.get("parameters", ()):
        place, name = parameter["in"], parameter["name"]
        if place == "path":
            yield Attempt(f"{{{name}}}", "Not an id", valid, path.replace(f"{{{name}}}", "Not an id"))
        elif place == "header":
            yield Attempt(name, "x", {**valid, "headers": {name: "x"}})
        else:
            for text in (*TEXTS, *MORE.get(endpoint, {}).get(name, ())):
                yield Attempt(f"?{name}", show(ascii(text)), {**valid, "params": {**params, name: text}})
    yield Attempt("?colour", "red", {**valid, "params": {**params, "colour": "red"}})
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content["schema"]["$ref"].rpartition("/")[2]
        more, fields = MORE.get(schema, {}), schemas[schema]["properties"]
        if kind == "application/json":
            for name in dict.fromkeys((*fields, *more)):
                for value in (*(VALUES if name in fields else ()), *more.get(name, ())):
                    yield Attempt(name, show(json.dumps(value)), send_json({**valid["json"], name: value}))
            yield Attempt("each field", "{}", send_json({name: {} for name in fields}))
            for body in BODIES:
                yield Attempt("the body", repr(body), {**send_json(None), "content": body})
        else:
            for name in [name for name in fields if name != "file"]:
                for text in (*TEXTS, *more.get(name, ())):
                    yield Attempt(name, show(ascii(text)), {**valid, "data": {name: text}})
            yield Attempt("file", "none", {"data": {"tags": "x"}})


@pytest.mark.parametrize("endpoint", ENDPOINTS)
async def test_the_refusals_of_an_endpoint_are_golden(
    app: FastAPI, admin: Caller, platform: Caller, endpoint: str
) -> None:
    method, path = endpoint.split(" ")
    caller = platform if path.startswith(("/admin/tenants", "/admin/platform")) else admin
    document, report = app.openapi(), Report()
    operation = document["paths"][path][method.lower()]
    for attempt in list_attempts(endpoint, operation, document["components"]["schemas"]):
        to = re.sub(r"\{\w+\}", UNKNOWN, (attempt.path or path).replace("{name}", "shelf"))
        answer = await caller.request(method, to, **attempt.options)
        problem = answer.json() if answer.status_code >= 400 else {}
        report.add(attempt.part, attempt.value, answer.status_code, problem)
    expect_golden(f"refusals/http/{name_file(endpoint)}", report.text(endpoint))


@pytest.mark.parametrize("tool", CALLS)
async def test_the_refusals_of_a_tool_are_golden(admin: Caller, tool: str) -> None:
    async def call(method: str, params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return (await admin.post("/mcp?tools=all", message, headers=HEADERS)).json()["result"]

    (described,) = (found for found in (await call("tools/list", {}))["tools"] if found["name"] == tool)
    fields = described["inputSchema"]["properties"]
    valid = {name: UNKNOWN if name.endswith("id") else value for name, value in CALLS[tool][1].items()}
    report = Report()
    more = MORE.get(tool, {})
    for part, value, given in (
        *((name, v, {name: v}) for name in fields for v in (*FOR_TOOLS, *more.get(name, ()))),
        *((name, v, {name: v}) for name in more if name not in fields for v in more[name]),
        ("colour", "red", {"colour": "red"}),
        ("each argument", {}, {name: {} for name in fields}),
    ):
        result = await call("tools/call", {"name": tool, "arguments": {**valid, **given}})
        problem = result["structuredContent"] if result.get("isError") else {"status": 200}
        report.add(part, show(json.dumps(value)), problem["status"], problem)
    expect_golden(f"refusals/mcp/{tool}.txt", report.text(tool))


def test_each_file_of_refusals_is_that_of_an_endpoint_or_a_tool() -> None:
    expect_only("refusals", [*(f"http/{name_file(e)}" for e in ENDPOINTS), *(f"mcp/{tool}.txt" for tool in CALLS)])

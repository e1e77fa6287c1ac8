"""One answer of each endpoint, of each tool and of each type of problem: golden."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime

import httpx
import pytest
from fastapi import FastAPI, Response

from app import errors
from app.auth.tokens import TokenVerifier
from app.contract.problems import TYPES
from app.embedded import EmbeddedAddress
from app.errors import LONGEST_QUOTA_WAIT, EmbeddingQuotaUsed
from app.mcp.tools import TOOLS
from app.web.problems import problem_response, respond_to, title_of, unexpected_error
from tests.golden.files import expect_golden, expect_only, write_json
from tests.golden.placeholders import Placeholders
from tests.golden.scene import STEPS, Step, open_scene

HIDDEN = {"content-length", "x-request-id"}
USUAL = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Headers of nearly every answer: a golden file has those that differ."""


@pytest.fixture(scope="module")
async def answers(cluster: EmbeddedAddress, template: str, verifier: TokenVerifier) -> dict[str, str]:
    """The text of each golden file. Statistics count by the hour: a run during which one ends is repeated."""
    while True:
        hour = datetime.now(UTC).hour
        async with open_scene(cluster, template, verifier) as scene:
            texts = {step.name: describe(step, await scene.send(step), scene.placeholders) for step in STEPS}
        if datetime.now(UTC).hour == hour:
            return texts


def describe(step: Step, answer: httpx.Response, placeholders: Placeholders) -> str:
    """The request as it is in the table, and the answer."""
    body = write_json(answer.json()) if "json" in answer.headers.get("content-type", "") else answer.text
    missing = [f"{name}: (none)" for name in USUAL if name not in answer.headers]
    headers = [
        f"{name}: {value}"
        for name, value in sorted(answer.headers.items())
        if name not in HIDDEN and USUAL.get(name) != value
    ]
    told = "\n".join((f"{answer.status_code} {title_of(answer.status_code)}", *headers, *missing, "", body))
    return f"{step.ask}\n{placeholders.replace(told)}"


@pytest.mark.parametrize("name", [step.name for step in STEPS])
async def test_the_answer_is_golden(answers: dict[str, str], name: str) -> None:
    expect_golden(f"answers/{name}.txt", answers[name])


def test_each_golden_answer_is_that_of_a_request() -> None:
    names = [step.name for step in STEPS]
    assert len(names) == len(set(names))
    expect_only("answers", [f"{name}.txt" for name in names])


def test_each_endpoint_has_a_golden_answer(app: FastAPI, answers: dict[str, str]) -> None:
    answered = [step.ask for step in STEPS if answers[step.name].split("\n")[1].startswith("2")]
    for path, methods in app.openapi()["paths"].items():
        pattern = re.sub(r"\{\w+\}", "[^/]+", path)
        for method in methods:
            asked = re.compile(f"{method.upper()} {pattern}")
            assert any(map(asked.fullmatch, answered)), f"{method} {path} has no request in requests.yaml"


def test_each_tool_has_a_golden_result() -> None:
    called = {step.ask.removeprefix("tools/call ") for step in STEPS}
    assert set(TOOLS) <= called


def quota_used_at_noon() -> EmbeddingQuotaUsed:
    """The error of a quota that is used up long before midnight: the wait is shorter in the last minutes of a day."""
    error = EmbeddingQuotaUsed("mock")
    error.retry_after = LONGEST_QUOTA_WAIT
    return error


OF_NO_REQUEST: Mapping[str, Response] = {
    "concurrent-writes": respond_to(errors.ConcurrentWrites("another request is writing this entry")),
    "maximum-reached": respond_to(errors.MaximumReached("the tenant has 100 sources, the maximum")),
    "not-found": respond_to(errors.NotFound("there is no such item")),
    "too-slow": respond_to(errors.TooSlow("the request arrived too slowly")),
    "too-large": respond_to(errors.TooLarge("the body is larger than 33554432 bytes")),
    "unreadable-document": respond_to(errors.UnreadableDocument("the PDF file is damaged: it cannot be read")),
    "headers-too-long": problem_response(431, "the headers are too long"),
    "unexpected-error": unexpected_error(),
    "unknown-transfer-coding": problem_response(501, "the body has an unknown transfer coding"),
    "database-unavailable": respond_to(errors.DatabaseUnavailable(retry_after=2)),
    "embedding-unavailable": respond_to(errors.EmbeddingUnavailable("mock", "the answer was a timeout")),
    "embedding-quota-used": respond_to(quota_used_at_noon()),
    "shutting-down": problem_response(503, "this instance is shutting down", kind=TYPES["shutting-down"]),
}
"""Types of problems that no request of the table provokes: the answers for the errors themselves."""


@pytest.mark.parametrize("name", OF_NO_REQUEST)
def test_a_problem_of_no_request_is_golden(name: str) -> None:
    answer = OF_NO_REQUEST[name]
    headers = [f"{key}: {value}" for key, value in sorted(answer.headers.items()) if key not in HIDDEN]
    body = write_json(json.loads(bytes(answer.body)))
    expect_golden(f"problems/{name}.txt", "\n".join((f"{answer.status_code}", *headers, "", body)))


def test_each_type_of_problem_is_golden(answers: dict[str, str]) -> None:
    told = "\n".join(answers.values())
    assert {name for name in TYPES if f'"type": "/problems/{name}"' not in told} == set(OF_NO_REQUEST)
    expect_only("problems", [f"{name}.txt" for name in OF_NO_REQUEST])

"""Texts and numbers of messages that cannot be stored are refused with the name of the field."""

from __future__ import annotations

import pytest

from tests.fixtures.http.callers import Caller
from tests.fixtures.http.mcp_client import HEADERS

MESSAGE = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "%s", "arguments": %s}}'


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (r'{"content": "a \ud800"}', "params.arguments.content"),
        (r'{"content": "a \uDC00 b"}', "params.arguments.content"),
        (r'{"content": "a", "tags": ["b", "\ud800\u0041"]}', "params.arguments.tags.1"),
        (r'{"content": "a", "metadata": {"n": {"\ud800": 1}}}', "params.arguments.metadata.n"),
    ],
)
async def test_a_lone_surrogate_is_refused_with_its_field(admin: Caller, arguments: str, field: str) -> None:
    headers = {**HEADERS, "Content-Type": "application/json"}
    answer = await admin.post("/mcp", content=MESSAGE % ("kb_add", arguments), headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == f"{field}: must not contain lone surrogates"


async def test_pairs_of_surrogates_and_escaped_escapes_are_read(admin: Caller) -> None:
    headers = {**HEADERS, "Content-Type": "application/json"}
    arguments = r'{"content": "a \ud83d\ude00 \\ud800"}'
    answer = await admin.post("/mcp", content=MESSAGE % ("kb_add", arguments), headers=headers)
    assert "isError" not in answer.json()["result"] or not answer.json()["result"]["isError"], answer.text


async def test_an_integer_beyond_64_bits_is_refused_with_its_field_and_the_rule(admin: Caller) -> None:
    headers = {**HEADERS, "Content-Type": "application/json"}
    arguments = '{"content": "a", "metadata": {"n": 99999999999999999999}}'
    answer = await admin.post("/mcp", content=MESSAGE % ("kb_add", arguments), headers=headers)
    (error,) = answer.json()["result"]["structuredContent"]["errors"]
    assert error["field"] == "metadata"
    assert "integers of at most 64 bits, no NUL and no lone surrogates" in error["message"]

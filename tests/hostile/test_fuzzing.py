"""Requests generated from the OpenAPI document, valid and invalid, by two tenants and a platform administrator."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from app.auth.principal import Role
from tests.fixtures.http.callers import Caller, make_token
from tests.hostile.fuzzer import FuzzResult, fuzz

BUDGET = ("--max-time", "480")
"""Seconds of a long run, which ends before its last example when answers are slow, and repeats itself when not."""
CANARIES = {"first": "albatrossfeather", "second": "basaltcolumn"}


@pytest.fixture
async def tokens(admin: Caller, stranger: Caller) -> Mapping[str, str]:
    """The tokens of two tenants, each with entries that contain its word, and of a platform administrator."""
    for caller, word in ((admin, CANARIES["first"]), (stranger, CANARIES["second"])):
        for number in range(3):
            await caller.add(
                f"{word} number {number}", title=word, tags=[word, "shared"], external_id=f"{word[:3]}-{number}"
            )
    platform = make_token(None, Role.PLATFORM_ADMIN, subject="paula")
    return {"first": admin.token, "second": stranger.token, "platform": platform}


def expect_no_finding(result: FuzzResult, *, at_least: int) -> None:
    """Fail with the report when the run has findings, or sent too few requests."""
    assert not result.findings, result.report
    assert result.requests >= at_least, result.report
    print(f"{result.requests} requests to {result.operations} operations")  # noqa: T201


async def test_generated_requests_have_no_finding(tmp_path: Path, address: str, tokens: Mapping[str, str]) -> None:
    options = ("--phases", "fuzzing", "--max-examples", "1", "--exclude-tag", "tenants")
    result = await fuzz(tmp_path, address, tokens, *options, sender="first", canaries=CANARIES)
    expect_no_finding(result, at_least=30)


@pytest.mark.slow
@pytest.mark.parametrize("sender", ["first", "second"])
async def test_thousands_of_generated_requests_by_each_tenant_have_no_finding(
    tmp_path: Path, address: str, tokens: Mapping[str, str], sender: str
) -> None:
    options = ("--max-examples", "100", "--exclude-tag", "tenants", *BUDGET)
    result = await fuzz(tmp_path, address, tokens, *options, sender=sender, canaries=CANARIES)
    expect_no_finding(result, at_least=4000)


@pytest.mark.slow
async def test_generated_requests_of_a_platform_administrator_have_no_finding(
    tmp_path: Path, address: str, tokens: Mapping[str, str]
) -> None:
    options = ("--max-examples", "50", "--include-tag", "tenants", *BUDGET)
    result = await fuzz(tmp_path, address, tokens, *options, sender="platform")
    expect_no_finding(result, at_least=100)

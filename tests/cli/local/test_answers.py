"""A command has the same result whether the running service answers or the command opens the database."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.cli.local.running import Outcome, run_command, running_service

VARYING = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+ ms|--cursor \S+|\w+_ms\":\d+|cursor\":\"\S+?\""
)
"""Ids of searches, times and cursors."""


@pytest.fixture
def service(knowledge: CommandLine, filled: str) -> Iterator[str]:
    """The slug of a tenant with entries, and a service that answers commands."""
    with running_service():
        yield filled


def compare(*arguments: str) -> Outcome:
    """Run a command with the service's answer and without, and return the former."""
    asked = run_command(*arguments)
    # Another limit of requests does not change the answer, but the settings differ.
    opened = run_command(*arguments, KB_LIMIT_REQUESTS_PER_MINUTE="12345")
    assert (asked.opened, opened.opened) == (False, True)
    assert asked.status == opened.status
    assert VARYING.sub("…", asked.out) == VARYING.sub("…", opened.out)
    assert asked.err == opened.err
    return asked


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect mooring crane", "-n", "2"),
        ("mooring", "--mode", "keyword", "--explain"),
        ("mooring", "--tag", "nothing"),
        ("inspect mooring", "--explain", "--json"),
        ("Ünïcode \x1b[31m 'quotes' \"", "--json"),
    ],
)
def test_search_has_the_same_result_from_the_service(service: str, arguments: tuple[str, ...]) -> None:
    assert compare("search", *arguments, "-t", service).status == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "mooring", "-t", "nobody"),
        ("search", "mooring", "-t", "nobody", "--json"),
        ("search", "", "-t", "harbour", "--json"),
        ("search", "mooring", "-t", "harbour", "-n", "101", "--threshold", "2", "--json"),
        ("search", "mooring", "-t", "harbour", "--cursor", "broken"),
        ("search", "mooring", "-t", "harbour", "--type", "nothing"),
        ("related", "01890000-0000-7000-8000-000000000000", "-t", "harbour", "-n", "21"),
        ("related", "01890000-0000-7000-8000-000000000000", "-t", "nobody"),
        ("token", "--role", "reader", "-t", "nobody"),
    ],
    ids=" ".join,
)
def test_a_command_fails_in_the_same_way_from_the_service(service: str, arguments: tuple[str, ...]) -> None:
    assert compare(*arguments).status == 1


def test_pages_are_numbered_in_the_service_as_without_it(service: str) -> None:
    arguments = ("search", "inspect mooring crane", "-t", service, "--mode", "keyword", "-n", "2")
    cursor = run_command(*arguments).out.splitlines()[-1].rpartition(" ")[2]
    assert compare(*arguments, "--cursor", cursor).out.startswith("3. ")


def test_related_has_the_same_result_from_the_service(service: str) -> None:
    found: Any = json.loads(run_command("search", "moorings", "-t", service, "--json").out)
    entry_id = found["results"][0]["id"]
    assert json.loads(compare("related", entry_id, "-t", service, "--json").out)["results"]
    assert "shared tags" in compare("related", entry_id, "-t", service).out


def test_a_token_is_for_the_tenant_that_the_service_finds(service: str) -> None:
    asked = run_command("token", "--role", "reader", "-t", service, "--json")
    opened = run_command(
        "token", "--role", "reader", "-t", service, "--json", KB_LIMIT_REQUESTS_PER_MINUTE="12345"
    )
    assert (asked.opened, opened.opened) == (False, True)
    assert json.loads(asked.out)["tenant_id"] == json.loads(opened.out)["tenant_id"]

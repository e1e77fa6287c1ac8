"""A command has the same result whether the running service answers or the command opens the database."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from app.cli.local import server
from app.cli.local.client import NotAnswered, ask
from tests.cli.conftest import CommandLine, Result
from tests.cli.local.running import Outcome, read_settings, run_command, running_service

VARYING = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+ ms|--cursor \S+|\w+_ms\":\d+|cursor\":\"\S+?\"")
"""Ids of searches, times and cursors."""


@dataclass(frozen=True, slots=True)
class Both:
    """Runs a command in a process of its own, which asks the service, and in this one, which opens the database."""

    knowledge: CommandLine
    tenant: str

    def open(self, *arguments: str) -> Result:
        """Run a command whose settings differ from those of the service in a limit that does not change the result."""
        with pytest.MonkeyPatch.context() as changed:
            changed.setenv("KB_LIMIT_REQUESTS_PER_MINUTE", "12345")
            with pytest.raises(NotAnswered):
                ask(read_settings(), "token", {"tenant": self.tenant})
            return self.knowledge(*arguments)

    def compare(self, *arguments: str) -> Outcome:
        """Run a command in both ways, and return the service's answer."""
        asked, opened = run_command(*arguments), self.open(*arguments)
        assert not asked.opened
        assert asked.status == opened.status
        assert VARYING.sub("…", asked.out) == VARYING.sub("…", opened.out)
        assert asked.err.splitlines() == opened.err.splitlines()
        return asked


@pytest.fixture
def both(knowledge: CommandLine, filled: str) -> Iterator[Both]:
    """A tenant with entries, and a service that answers commands."""
    with running_service():
        yield Both(knowledge, filled)


@pytest.mark.sampled(2)
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
def test_search_has_the_same_result_from_the_service(both: Both, arguments: tuple[str, ...]) -> None:
    assert both.compare("search", *arguments, "-t", both.tenant).status == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "mooring", "-t", "nobody"),
        pytest.param(("search", "mooring", "-t", "nobody", "--json"), marks=pytest.mark.slow),
        pytest.param(("search", "", "-t", "harbour", "--json"), marks=pytest.mark.slow),
        ("search", "mooring", "-t", "harbour", "-n", "101", "--threshold", "2", "--json"),
        ("search", "mooring", "-t", "harbour", "--cursor", "broken"),
        pytest.param(("search", "mooring", "-t", "harbour", "--type", "nothing"), marks=pytest.mark.slow),
        ("related", "01890000-0000-7000-8000-000000000000", "-t", "harbour", "-n", "21"),
        pytest.param(("related", "01890000-0000-7000-8000-000000000000", "-t", "nobody"), marks=pytest.mark.slow),
        ("token", "--role", "reader", "-t", "nobody"),
        ("why-not", "unknown-1", "", "-t", "harbour", "--json"),
        ("add", "text", "-t", "harbour", "--confidence", "2", "--type", "chunk", "--json"),
        pytest.param(("edit", "unknown-1", "-t", "harbour", "--confidence", "2"), marks=pytest.mark.slow),
        ("get", "unknown-1", "-t", "harbour"),
        pytest.param(("list", "-t", "harbour", "-n", "0"), marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_a_command_fails_in_the_same_way_from_the_service(both: Both, arguments: tuple[str, ...]) -> None:
    assert both.compare(*arguments).status == 1


def test_pages_are_numbered_in_the_service_as_without_it(both: Both) -> None:
    arguments = ("search", "inspect mooring crane", "-t", both.tenant, "--mode", "keyword", "-n", "2")
    cursor = run_command(*arguments).out.splitlines()[-1].rpartition(" ")[2]
    assert both.compare(*arguments, "--cursor", cursor).out.startswith("3. ")


def test_related_has_the_same_result_from_the_service(both: Both) -> None:
    found: Any = json.loads(run_command("search", "moorings", "-t", both.tenant, "--json").out)
    entry_id = found["results"][0]["id"]
    assert json.loads(both.compare("related", entry_id, "-t", both.tenant, "--json").out)["results"]
    assert "shared tags" in both.compare("related", entry_id, "-t", both.tenant).out


def test_a_token_is_for_the_tenant_that_the_service_finds(both: Both) -> None:
    arguments = ("token", "--role", "reader", "-t", both.tenant, "--json")
    asked, opened = run_command(*arguments), both.open(*arguments)
    assert not asked.opened
    assert json.loads(asked.out)["tenant_id"] == opened.json["tenant_id"]


def test_entries_are_listed_read_and_explained_by_the_service(both: Both) -> None:
    items = json.loads(both.compare("list", "-t", both.tenant, "--json").out)["items"]
    entry_id = items[0]["id"]
    assert entry_id in both.compare("get", entry_id, "-t", both.tenant, "--json").out
    why = both.compare("why-not", entry_id, "mooring", "-t", both.tenant, "--tag", "nothing")
    assert why.out.startswith("not among the results\n")


def test_entries_are_written_by_the_service(both: Both, tenant: str) -> None:
    for arguments in (
        ("add", "The pilot boards at the buoy.", "--external-id", "pilot-1"),
        ("edit", "pilot-1", "--title", "Pilot"),
        ("delete", "pilot-1", "--yes"),
    ):
        done = run_command(*arguments, "-t", tenant)
        assert (done.status, done.opened) == (0, False), (arguments, done)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("done", [True, False])
def test_a_write_without_an_answer_is_not_repeated(
    knowledge: CommandLine, tenant: str, monkeypatch: pytest.MonkeyPatch, *, done: bool
) -> None:
    """The service ends after it has got the command, before or after it has done what it was asked."""
    added = knowledge.succeed("add", "The pilot boards.", "--external-id", "pilot-2", "-t", tenant, "--json")
    answer, name = server._answer, f"tug-{done}"

    async def answer_nothing(*given: Any) -> bytes:
        if done:
            await answer(*given)
        return b""

    monkeypatch.setattr(server, "_answer", answer_nothing)
    with running_service():
        for arguments in (
            ("edit", "pilot-2", "--title", "Pilot", "--if-version", "1"),
            ("add", "The tug follows.", "--external-id", name),
            ("delete", "pilot-2", "--yes"),
        ):
            outcome = run_command(*arguments, "-t", tenant)
            assert (outcome.status, outcome.out, outcome.opened) == (1, "", False), (arguments, outcome)
            assert "not known whether this was done" in outcome.err
        assert run_command("list", "-t", tenant).opened
    left = {entry["external_id"]: entry for entry in knowledge.succeed("list", "-t", tenant, "--json").json["items"]}
    assert ("pilot-2" in left, name in left) == (not done, done)
    versions = ("get", added.json["entry"]["id"], "-t", tenant, "--json")
    if not done:
        assert knowledge.succeed(*versions).json["version"] == 1

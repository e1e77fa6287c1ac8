"""Erasing on the command line."""

from __future__ import annotations

from uuid import uuid4

import pytest
from pydantic import TypeAdapter

from app.contract.erasures import Erasure
from tests.cli.conftest import CommandLine
from tests.fixtures.database.cluster import TestDatabase


def test_erase_prints_the_receipt_of_the_http_answer(
    knowledge: CommandLine, tenant: str, cli_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = knowledge("erase", "-t", tenant, "--entry", str(uuid4()), "--yes")
    assert (unknown.status, unknown.err) == (1, "error: there is no entry with this id\n")
    for wrong in ((), ("--files", "--subject", "joe")):
        assert "exactly one is needed" in knowledge("erase", "-t", tenant, *wrong).err
    assert "--yes" in knowledge("erase", "-t", tenant, "--subject", "joe").err
    receipt = knowledge.succeed("erase", "-t", tenant, "--subject", "joe", "--yes", "--json").json
    assert TypeAdapter(Erasure).validate_python(receipt).state == "erased"
    assert "the service itself" in knowledge("erase", "-t", tenant, "--subject", "command-line", "--yes").err
    text = knowledge.succeed("erase", "-t", tenant, "--subject", "joe", "--yes").out
    assert "by design, these remain:\n  data_files: " in text

    assert "DATABASE_ADMIN_URL" in knowledge("erase", "-t", tenant, "--files").err
    monkeypatch.setenv("DATABASE_ADMIN_URL", cli_database.admin_dsn)
    files = knowledge.succeed("erase", "-t", tenant, "--files", "--json").json
    assert (files["refused"], "searches" in files["rewritten"]) == ([], True)

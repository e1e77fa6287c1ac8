"""`knowledge mcp`: the tools over standard input and output."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from app.mcp.tools import SETS
from tests.cli.conftest import PROGRAM, CommandLine
from tests.fixtures.database.cluster import MODEL, TestDatabase
from tests.fixtures.http.inspector import install_inspector
from tests.fixtures.http.mcp_client import READING, WRITING, fail, succeed

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}

UNCHECKED = "was not checked, because no database answers"


@pytest.fixture
def environment(cli_database: TestDatabase, tmp_path: Path) -> Mapping[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "DATABASE_URL": cli_database.service_dsn,
        "EMBEDDING_PROVIDER": "mock",
        "EMBEDDING_DIMENSIONS": str(MODEL.dimensions),
        "HOME": str(tmp_path),
        "KB_MCP_TOOLS": "all",
    }


def program(environment: Mapping[str, str], tmp_path: Path, *arguments: str) -> StdioServerParameters:
    return StdioServerParameters(command=str(PROGRAM), args=["mcp", *arguments], env=dict(environment), cwd=tmp_path)


@pytest.mark.slow
def test_a_client_starts_the_program_and_uses_its_tools(
    knowledge: CommandLine, tenant: str, environment: Mapping[str, str], tmp_path: Path
) -> None:
    server = program(environment, tmp_path, "--tenant", tenant, "--role", "creator")
    answers = asyncio.run(use(server, tmp_path))
    for found, text in answers:
        assert [hit["content"] for hit in found["results"]] == ["The harbour opens at six"]
        assert "The harbour opens at six" in text
    exported = knowledge.succeed("export", "--tenant", tenant)
    assert "The harbour opens at six" in exported.out


async def use(server: StdioServerParameters, tmp_path: Path) -> list[tuple[dict[str, Any], str]]:
    """Add an entry as a creator and search for it ten times at once."""
    with (tmp_path / "errors").open("w+") as errors:
        async with Client(stdio_client(server, errlog=errors)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == [*READING, *WRITING]
            await succeed(client, "kb_add", content="The harbour opens at six")
            answers = await asyncio.gather(*(succeed(client, "kb_search", query="harbour") for _ in range(10)))
            await fail(client, "kb_stats", 403)
            await fail(client, "kb_search", 422, query="")
        errors.seek(0)
        assert "Traceback" not in errors.read()
    return answers


@pytest.mark.slow
def test_a_signal_ends_the_program_while_it_waits_for_a_message(
    knowledge: CommandLine, tenant: str, environment: Mapping[str, str], tmp_path: Path
) -> None:
    with subprocess.Popen(
        [str(PROGRAM), "mcp", "--tenant", tenant],
        env=dict(environment),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(INITIALIZE) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert answer["result"]["serverInfo"]["name"] == "knowledge-search"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors


@pytest.mark.slow
def test_a_client_reads_what_its_groups_may_read(tenant: str, environment: Mapping[str, str], tmp_path: Path) -> None:
    async def use(*arguments: str) -> list[str]:
        server = program(environment, tmp_path, "--tenant", tenant, *arguments)
        async with Client(stdio_client(server)) as client:
            if "creator" in arguments:
                await succeed(client, "kb_add", content="The harbour opens at six", readers=["group:crew"])
            found, _ = await succeed(client, "kb_search", query="harbour")
        return [hit["content"] for hit in found["results"]]

    crew = ("--group", "crew", "--group", "office")
    assert asyncio.run(use(*crew, "--role", "creator")) == ["The harbour opens at six"]
    assert asyncio.run(use(*crew)) == ["The harbour opens at six"]
    assert asyncio.run(use("--group", "guests")) == []


@pytest.mark.slow
def test_an_admin_sees_all_of_a_tenant_with_permissions_only_when_it_asks(
    knowledge: CommandLine, tenant: str, environment: Mapping[str, str], tmp_path: Path
) -> None:
    knowledge.succeed("add", "The harbour opens at six", "--reader", "group:crew", "--tenant", tenant)

    async def use(surroundings: Mapping[str, str]) -> int:
        server = program(surroundings, tmp_path, "--tenant", tenant, "--role", "tenant_admin")
        async with Client(stdio_client(server)) as client:
            found, _ = await succeed(client, "kb_search", query="harbour")
            if "KB_ACCESS" in surroundings:
                await succeed(client, "kb_stats")
            else:
                await fail(client, "kb_stats", 403)
        return len(found["results"])

    assert asyncio.run(use(environment)) == 0
    assert asyncio.run(use({**environment, "KB_ACCESS": "all"})) == 1


def test_the_access_to_all_is_for_admins_and_part_of_the_configuration(
    knowledge: CommandLine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_ACCESS", "all")
    refused = knowledge("mcp", "--tenant", tenant, "--role", "creator", "--config")
    assert (refused.status, refused.out) == (1, "")
    assert refused.err.startswith("error: KB_ACCESS: cannot be all for the role creator")
    printed = knowledge.succeed("mcp", "--tenant", tenant, "--role", "tenant_admin", "--config").json
    assert printed["mcpServers"][f"knowledge-{tenant}"]["env"]["KB_ACCESS"] == "all"


def test_the_configuration_is_printed_for_a_tenant_unless_the_database_has_none(
    knowledge: CommandLine, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("mcp", "--tenant", f"{tenant}-", "--config")
    refused = knowledge(*arguments)
    assert (refused.status, refused.out, refused.err) == (1, "", f"error: there is no tenant '{tenant}-'\n")
    assert "note" not in knowledge.succeed("mcp", "--tenant", tenant, "--config").err
    monkeypatch.setenv("DATABASE_URL", "postgresql://kb_service:secret@127.0.0.1:1/knowledge")
    assert UNCHECKED in knowledge.succeed(*arguments).err.splitlines()[0]
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.setenv("KB_DATA_DIR", "nothing")
    assert UNCHECKED in knowledge.succeed(*arguments).err.splitlines()[0]
    assert not Path("nothing").exists()


def test_a_startup_error_is_one_line(knowledge: CommandLine, tenant: str) -> None:
    unknown = knowledge("mcp", "--tenant", "unknown-tenant")
    assert (unknown.status, unknown.out) == (1, "")
    assert unknown.err.startswith("error: ")
    unnamed = knowledge("mcp", "--tenant", tenant, "--group", " ")
    assert (unnamed.status, unnamed.err.startswith("error: --group: must each have")) == (1, True)
    refused = knowledge("mcp", "--tenant", tenant, "--role", "platform_admin")
    assert refused.status == 2
    assert "platform_admin" in refused.err


@pytest.mark.slow
def test_ten_programs_at_once_answer_their_clients(
    knowledge: CommandLine, tenant: str, environment: Mapping[str, str], tmp_path: Path
) -> None:
    async def ask(number: int) -> None:
        server = program(environment, tmp_path, "--tenant", tenant, "--role", "creator")
        with (tmp_path / f"errors-{number}").open("w+") as errors:
            async with Client(stdio_client(server, errlog=errors)) as client:
                await succeed(client, "kb_add", content=f"The harbour of client {number}")
                found, _ = await succeed(client, "kb_search", query=f"harbour of client {number}")
                # Not always the first: the others' vectors, which have no meaning here, may rank before its own.
                contents = [hit["content"] for hit in found["results"]]
                assert f"The harbour of client {number}" in contents

    async def ask_all() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(10):
                group.create_task(ask(number))

    asyncio.run(ask_all())


@pytest.mark.slow
def test_the_inspector_lists_and_calls_tools_over_stdio(
    knowledge: CommandLine, tenant: str, environment: Mapping[str, str], tmp_path: Path
) -> None:
    inspector = install_inspector(tmp_path)
    variables = [
        part
        for name in ("DATABASE_URL", "EMBEDDING_PROVIDER", "EMBEDDING_DIMENSIONS", "KB_MCP_TOOLS")
        for part in ("-e", f"{name}={environment[name]}")
    ]
    place = ("--connect-timeout", "120000", *variables, str(PROGRAM), "mcp", "--tenant", tenant)
    assert asyncio.run(inspector.list_tools(*place)) == READING
    found = asyncio.run(inspector.call_tool(*place, name="kb_search", arguments={"query": "harbour"}))
    assert found["structuredContent"]["results"] == []
    refused = asyncio.run(inspector.call_tool(*place, name="kb_get", arguments={"entry_id": "x"}))
    assert refused["structuredContent"]["detail"] == "entry_id: must be a UUID"


@pytest.mark.slow
def test_the_printed_configuration_starts_the_program_in_another_folder_without_a_path(
    knowledge: CommandLine, tenant: str, environment: Mapping[str, str]
) -> None:
    printed = knowledge.succeed("mcp", "--tenant", tenant, "--config").json["mcpServers"][f"knowledge-{tenant}"]
    added = {"DATABASE_URL": environment["DATABASE_URL"], "PATH": ""}
    server = StdioServerParameters(
        command=printed["command"], args=printed["args"], env={**printed["env"], **added}, cwd="/"
    )

    async def use() -> None:
        async with Client(stdio_client(server)) as client:
            listed = [tool.name for tool in (await client.list_tools()).tools]
            assert listed == [name for name in READING if name in SETS["core"]]
            await succeed(client, "kb_search", query="harbour")

    asyncio.run(use())


def test_the_printed_configuration_has_absolute_paths(
    knowledge: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("KB_DATA_DIR", "data")
    monkeypatch.setenv("EMBEDDING_PROVIDER", "mock")
    monkeypatch.chdir(tmp_path)
    options = ["--tenant", "acme", "--role", "creator", "--group", "crew"]
    printed = knowledge.succeed("mcp", *options, "--config").json
    program = printed["mcpServers"]["knowledge-acme"]
    assert Path(program["command"]) == PROGRAM
    assert program["args"] == ["mcp", *options]
    assert program["env"]["KB_DATA_DIR"] == str(tmp_path / "data")
    assert program["env"]["EMBEDDING_PROVIDER"] == "mock"


def test_the_printed_configuration_has_the_settings_of_the_environment_and_names_its_secrets(
    knowledge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = {
        "EMBEDDING_PROVIDER": "openai",
        "OPENAI_BASE_URL": "http://127.0.0.1:11434/v1",
        "EMBEDDING_NEXT_PROVIDER": "mock",
        "KB_PUBLIC_URL": "https://kb.example.com",
        "KB_SEARCH_MAX_LIMIT": "20",
        "KB_MCP_TOOLS": "all",
    }
    others = {"KB_PORT": "8001", "JWT_ISSUER": "https://login.example.com"}
    secret = {
        "DATABASE_URL": "postgresql://kb:hunter2@127.0.0.1/kb",
        "DATABASE_REPLICA_URLS": "postgresql://kb:hunter3@127.0.0.1/kb",
        "OPENAI_API_KEY": "sk-hunter4",
    }
    monkeypatch.delenv("EMBEDDING_DIMENSIONS", raising=False)
    monkeypatch.delenv("KB_ENCRYPTION_KEY", raising=False)
    for name, value in {**plain, **others, **secret}.items():
        monkeypatch.setenv(name, value)
    result = knowledge("mcp", "--tenant", "acme", "--config")
    assert result.status == 0
    assert result.json["mcpServers"]["knowledge-acme"]["env"] == plain
    assert result.err.strip().endswith(": DATABASE_URL, DATABASE_REPLICA_URLS, OPENAI_API_KEY")
    assert "hunter" not in result.out + result.err


def test_the_printed_configuration_reads_the_named_file_and_repeats_nothing_of_it(
    knowledge: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DATABASE_URL", "EMBEDDING_PROVIDER", "EMBEDDING_DIMENSIONS", "KB_ENCRYPTION_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kb.env").write_text("KB_DATA_DIR=data\nEMBEDDING_PROVIDER=openai\nOPENAI_API_KEY=sk-hunter2\n")
    result = knowledge("--env-file", "kb.env", "mcp", "--tenant", "acme", "--config")
    program = result.json["mcpServers"]["knowledge-acme"]
    assert program["args"][:3] == ["--env-file", str(tmp_path / "kb.env"), "mcp"]
    assert program["env"] == {"KB_DATA_DIR": str(tmp_path / "data"), "EMBEDDING_PROVIDER": "openai"}
    assert (UNCHECKED in result.err, result.err.count("\n")) == (True, 1)

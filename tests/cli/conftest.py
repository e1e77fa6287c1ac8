"""The commands, run in this process on one shared database of the test cluster.

`embedded` runs a test on an embedded Postgres instead, for what is specific to that mode.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import main
from app.composition.services import build_services
from app.contract.entries import EntryDraft
from app.db.database import Database
from app.db.rows import new_id
from app.embedded import EmbeddedAddress
from app.embedded.server import EmbeddedPostgres
from app.embeddings.factory import ProviderConfig, build_provider
from app.settings import variable_names
from tests.fixtures.database.cluster import MODEL, TestDatabase, execute, new_database
from tests.fixtures.embedded import FAST
from tests.fixtures.logs import restored_logging
from tests.fixtures.workers import run_due

SECRET = "a secret of more than thirty-two bytes for tests"
ENCRYPTION_KEY = "k" * 43
PROGRAM = Path(sys.executable).with_name("knowledge")

ENTRIES: list[EntryDraft] = [
    EntryDraft(content="Moorings are inspected every \x1b[31mMarch.", title="[bold]Moorings", tags=["quay", "safety"]),
    EntryDraft(content="The crane lifts twelve tons.", tags=["quay", "safety", "crane"]),
    EntryDraft(content="Inspecting a mooring takes a diver.", entry_type="lesson", confidence=0.4),
]


@dataclass(frozen=True, slots=True)
class Result:
    """The exit status and the output of a command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class CommandLine:
    """Runs `knowledge` in this process, which saves the time of the imports."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: str) -> Result:
        """Run it and accept any status."""
        self._capture.readouterr()
        status = main(arguments)
        captured = self._capture.readouterr()
        return Result(status, captured.out, captured.err)

    def printed(self) -> Result:
        """The output since the last call, of a command that ended the program itself."""
        captured = self._capture.readouterr()
        return Result(0, captured.out, captured.err)

    def succeed(self, *arguments: str) -> Result:
        """Run it; the test fails unless it succeeds."""
        result = self(*arguments)
        assert result.status == 0, result.err
        return result


@pytest.fixture(scope="session")
async def cli_database(cluster: EmbeddedAddress, template: str) -> AsyncIterator[TestDatabase]:
    """A migrated database with the mock model of 16 dimensions."""
    async with new_database(cluster, template=template) as made:
        yield made


@pytest.fixture(scope="session")
def cli_data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A KB_DATA_DIR whose Postgres is always running, so that each command joins it at once."""
    data_dir = tmp_path_factory.mktemp("cli") / "data"
    with EmbeddedPostgres(data_dir, settings=FAST):
        yield data_dir


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings except the mock provider, and a current folder without an `.env`."""
    for name in (*variable_names(), "KB_URL", "KB_TOKEN", "KB_TENANT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EMBEDDING_PROVIDER", "mock")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def offline(clean_environment: None, capsys: pytest.CaptureFixture[str]) -> Iterator[CommandLine]:
    """The command, for tests without a database."""
    with restored_logging():
        yield CommandLine(capsys)


@pytest.fixture
def checking(offline: CommandLine, cli_database: TestDatabase, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command, on the shared database with the service's role only, which checks the database as always."""
    monkeypatch.setenv("DATABASE_URL", cli_database.service_dsn)
    monkeypatch.setenv("EMBEDDING_DIMENSIONS", str(MODEL.dimensions))
    monkeypatch.setenv("JWT_SECRET", SECRET)
    monkeypatch.setenv("KB_ENCRYPTION_KEY", ENCRYPTION_KEY)
    return offline


async def accept(*_database: Any, **_options: Any) -> None:
    """Stands for a check of the database."""


def leave_out_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands in this process not check the database, which takes half of their time."""
    for name in ("database.check_pooler", "platform.check_database", "services.check_given"):
        monkeypatch.setattr(f"app.composition.{name}", accept)


@pytest.fixture
def knowledge(checking: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The same command, which does not check the database: it is a copy of one that passes."""
    leave_out_checks(monkeypatch)
    return checking


@pytest.fixture
def embedded(checking: CommandLine, cli_data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command, on the shared embedded database, with the mock model at its defaults."""
    for name in ("DATABASE_URL", "EMBEDDING_DIMENSIONS", "JWT_SECRET", "KB_ENCRYPTION_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("KB_DATA_DIR", str(cli_data_dir))
    return checking


@pytest.fixture
def tenant(cli_database: TestDatabase, request: pytest.FixtureRequest) -> str:
    """The slug of a new tenant."""
    slug = re.sub(r"[^a-z0-9]+", "-", str(request.node.name).lower())[-60:].strip("-")
    asyncio.run(create_tenant(cli_database, slug))
    return slug


@pytest.fixture(scope="session")
async def harbour(cli_database: TestDatabase) -> str:
    """The slug of a tenant with three entries and their vectors, which no test changes."""
    await create_tenant(cli_database, "harbour")
    provider = build_provider(ProviderConfig(kind="mock", dimensions=MODEL.dimensions))
    database = Database(cli_database.service_dsn, pool_size=2)
    services = await build_services(database, provider)
    try:
        tenant = await services.tenants.find("harbour")
        for result in await services.entries.create_many(tenant.id, ENTRIES, actor="test"):
            assert result.id is not None
        await run_due(services.worker)
    finally:
        await services.close()
        await provider.close()
        await database.close()
    return "harbour"


@pytest.fixture
def filled(knowledge: CommandLine, harbour: str) -> str:
    """The slug of that tenant."""
    return harbour


async def create_tenant(database: TestDatabase, slug: str) -> None:
    """Add a tenant without a command, which is faster."""
    await execute(database.service_dsn, "select tenancy.create_tenant($1, $2, $2, 1, 'test')", new_id(), slug)


def start_program(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start the real `knowledge` in the current folder, with this process's environment and additional variables."""
    return subprocess.Popen(
        [str(PROGRAM), *arguments],
        env=os.environ | {"KB_DRAIN_SECONDS": "0"} | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def write_lines(path: Path, lines: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


@contextmanager
def running(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = start_program(*arguments, **environment)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def exported(knowledge: CommandLine, tenant: str) -> list[dict[str, Any]]:
    lines = knowledge.succeed("export", "-t", tenant).out.splitlines()
    return [entry for line in lines if (entry := json.loads(line))["kind"] == "entry"]

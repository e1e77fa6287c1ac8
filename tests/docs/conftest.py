"""What a reader of the pages has: the service with the sample knowledge, a token, the command, and a few files."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.auth.principal import Role
from app.cli.demo import SLUG, load_demo
from app.db.schema.registration import register_model
from app.embedded import EmbeddedAddress
from app.embeddings.factory import ProviderConfig, build_provider
from docs.generation.pages import make_pages
from tests.docs.pages import ROOT
from tests.docs.reader import Reader
from tests.fixtures.database.cluster import new_database
from tests.fixtures.http.callers import SECRET, make_token
from tests.fixtures.http.running_service import RunningService, run_service

HANDBOOK = "# Rolling back\n\nTo roll back a deploy, promote the deployment before it.\n"


@dataclass(frozen=True, slots=True)
class Guide:
    """The service that the pages call, and the settings of commands that work on its database."""

    service: RunningService
    settings: dict[str, str]
    token: str


@pytest.fixture(scope="session")
async def guide(cluster: EmbeddedAddress, template: str) -> AsyncIterator[Guide]:
    """One service with the local model and the tenant `demo`, still empty, for all pages."""
    provider = build_provider(ProviderConfig(kind="local"))
    async with new_database(cluster, template=template) as made:
        await register_model(made.admin_dsn, provider.model)
        with run_service(made.service_dsn, provider) as running:
            creation = running.services.tenants.create(SLUG, actor="test")
            tenant = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(creation, running.loop))
            settings = {
                "DATABASE_URL": made.service_dsn,
                "DATABASE_ADMIN_URL": made.admin_dsn,
                "JWT_SECRET": SECRET,
                "NO_PROXY": "127.0.0.1",
                "LOG_LEVEL": "warning",
            }
            yield Guide(running, settings, make_token(tenant.id, Role.TENANT_ADMIN))


@pytest.fixture(scope="session")
async def samples(guide: Guide) -> None:
    """The sample knowledge in the tenant `demo`."""
    loading = load_demo(guide.service.services)
    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(loading, guide.service.loop))


@pytest.fixture(scope="session")
def generated_pages() -> Mapping[str, str]:
    """The generated pages of the reference."""
    return make_pages()


@pytest.fixture(scope="session")
def document(generated_pages: Mapping[str, str]) -> dict[str, Any]:
    """The OpenAPI document."""
    loaded: dict[str, Any] = orjson.loads(generated_pages["reference/openapi.json"])
    return loaded


@pytest.fixture
def reader(guide: Guide, document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A reader with an empty folder that contains only a handbook, and the examples and pages of the repository."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    (tmp_path / "handbook.md").write_text(HANDBOOK)
    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook" / "rolling-back.md").write_text(HANDBOOK)
    shutil.copy(ROOT / "app/samples/documents/incident-handbook.pdf", tmp_path / "handbook.pdf")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "README.md").symlink_to(ROOT / "README.md")
    url = guide.service.url
    variables = {**guide.settings, "TOKEN": guide.token, "KNOWLEDGE_URL": url, "KNOWLEDGE_TOKEN": guide.token}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {
        "PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT / "clients" / "python"),
        **variables,
    }  # fmt: skip
    return Reader(tmp_path, url, environment, document["components"])

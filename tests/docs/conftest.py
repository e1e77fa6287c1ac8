"""What readers of the pages have: in a checkout a service with samples and a token, elsewhere only the command."""

import asyncio
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.auth.principal import Role
from app.composition.demo import SLUG, load_demo
from app.contract.administration import NewTenant
from app.db.schema.owner import register_model
from app.embedded import EmbeddedAddress
from app.embeddings.factory import ProviderConfig, build_provider
from docs.generation.pages import make_pages
from tests.docs.pages import ROOT
from tests.docs.reader import Reader
from tests.fixtures.database.cluster import new_database
from tests.fixtures.http.callers import SECRET, make_token
from tests.fixtures.http.running_service import RunningService, run_service

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


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
            creation = running.services.tenants.create(NewTenant(SLUG), actor="test")
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
def reader(guide: Guide, document: dict[str, Any], tmp_path: Path) -> Iterator[Reader]:
    """A reader in a checkout, with a service, its settings and a token."""
    _require_curl()
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("examples", "docs", "README.md"):
        (folder / name).symlink_to(ROOT / name)
    environment = {
        "PATH": PATH, "HOME": str(tmp_path), "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT / "clients" / "python"),
        **guide.settings, "TOKEN": guide.token,
    }  # fmt: skip
    reader = Reader(folder, guide.service.url, environment, document["components"], tmp_path / "variables")
    yield reader
    reader.end()


@pytest.fixture
def newcomer(document: dict[str, Any], tmp_path: Path) -> Iterator[Reader]:
    """A reader in an empty folder with the command `knowledge`, but no service, settings, token or files.

    A free port is the only setting. pip installs next to the folder, without an index.
    """
    _require_curl()
    folder, installed = tmp_path / "empty", tmp_path / "installed"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    environment = {
        "PATH": PATH, "HOME": str(tmp_path), "LANG": "C.UTF-8", "NO_PROXY": "127.0.0.1", "KB_PORT": str(port),
        "PYTHONPATH": str(installed), "PIP_TARGET": str(installed), "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }  # fmt: skip
    reader = Reader(folder, f"http://127.0.0.1:{port}", environment, document["components"], tmp_path / "variables")
    yield reader
    reader.end()


def _require_curl() -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")

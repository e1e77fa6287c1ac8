"""The packages of the clients, their types, and clients that are generated from the OpenAPI document."""

import inspect
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from email import message_from_string
from pathlib import Path

import httpx
import pytest

from app.auth.principal import Role
from clients import generate
from clients.generate import describe_service
from knowledge_client import AsyncKnowledgeClient, KnowledgeClient, models
from tests.fixtures.http.callers import make_token
from tests.fixtures.http.running_service import RunningService
from tests.fixtures.node import NPM, expect_success, install_packages

SOURCES = Path(__file__).parent
GENERATE_PYTHON = (
    *(sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--meta", "none"),
    *("--config", "config.yml", "--output-path", "knowledge_generated", "--fail-on-warning"),
)
TOOLS = "node_modules"
GENERATE_TYPESCRIPT = (*("node", f"{TOOLS}/openapi-typescript/bin/cli.js", "openapi.json", "--output", "schema.d.ts"),)
CHECK_AND_BUILD = ("node", f"{TOOLS}/typescript/bin/tsc")


def make_project(language: str, folder: Path, service: RunningService) -> Path:
    """A folder with the program and the service's document."""
    shutil.copytree(SOURCES / language, folder, dirs_exist_ok=True)
    document = httpx.get(f"{service.url}/openapi.json", trust_env=False, timeout=60)
    (folder / "openapi.json").write_bytes(document.content)
    return folder


def expect_ok(command: Sequence[str], project: Path, service: RunningService, token: str) -> None:
    done = expect_success(command, project, KNOWLEDGE_URL=service.url, KNOWLEDGE_TOKEN=token)
    assert done.stdout.strip() == "ok"


@pytest.mark.slow
def test_a_generated_python_client_works(tmp_path: Path, service: RunningService, token: str) -> None:
    project = make_project("python", tmp_path, service)
    expect_success(GENERATE_PYTHON, project)
    expect_ok((sys.executable, "workflow.py"), project, service, token)


@pytest.mark.slow
def test_a_generated_typescript_client_type_checks_and_works(
    tmp_path: Path, service: RunningService, token: str
) -> None:
    project = make_project("typescript", tmp_path, service)
    install_packages(project)
    expect_success(GENERATE_TYPESCRIPT, project)
    expect_success(CHECK_AND_BUILD, project)
    expect_ok(("node", "out/workflow.js"), project, service, token)


CLIENT = Path(__file__).parents[2] / "clients" / "typescript"


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """A copy of the TypeScript client's files, with its tools and the service's document."""
    for name in subprocess.check_output(["git", "ls-files", "."], cwd=CLIENT, text=True).splitlines():
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CLIENT / name, target)
    (tmp_path / "openapi.json").write_text(describe_service())
    install_packages(tmp_path)
    return tmp_path


def test_the_typescript_types_are_those_of_the_document(client: Path) -> None:
    expect_success((*NPM, "run", "generate"), client)
    types = Path("src") / "schema.ts"
    assert (client / types).read_text() == (CLIENT / types).read_text(), "run `make clients`"


@pytest.mark.slow
def test_the_typescript_client_works_and_is_packed(client: Path, service: RunningService) -> None:
    (quick_start,) = re.findall(r"```ts\n(.*?)```", (CLIENT / "README.md").read_text(), re.DOTALL)
    for name, place in (("readme.ts", "../src/index.js"), ("readme.mjs", "../dist/index.js")):
        (client / "test" / name).write_text(quick_start.replace("knowledge-client", place))
    tenant_id = service.new_tenant()
    surroundings = {
        "KB_URL": service.url,
        "KB_TOKEN": make_token(tenant_id, Role.TENANT_ADMIN),
        "READER_TOKEN": make_token(tenant_id, Role.READER, subject="joe", groups=["sales"]),
        "NO_PROXY": "127.0.0.1",
    }
    for script in ("build", "test"):
        expect_success((*NPM, "run", script), client, **surroundings)
    shown = expect_success(("node", "test/readme.mjs"), client, **surroundings).stdout
    assert "Harbour hours Ships may enter the harbour" in shown
    expect_success((*NPM, "pack"), client)
    with tarfile.open(next(client.glob("*.tgz"))) as packed:
        names = {Path(name).relative_to("package").as_posix() for name in packed.getnames()}
    assert names >= {"package.json", "README.md", "LICENSE", "dist/index.js", "dist/index.d.ts", "dist/schema.d.ts"}
    assert not [name for name in names if name.startswith(("src/", "test/", "node_modules/", "openapi"))]


def test_the_lock_file_has_pinned_packages_and_no_addresses() -> None:
    lock = json.loads((CLIENT / "package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert all(package["version"] and package["integrity"] and package["dev"] for package in packages.values())
    assert "resolved" not in (CLIENT / "package-lock.json").read_text()


@pytest.mark.parametrize("write", [generate.write_models, generate.write_fields])
def test_the_types_are_those_of_the_contract(write: Callable[[], str]) -> None:
    written = generate.PYTHON / f"{write.__name__.removeprefix('write_')}.py"
    assert written.read_text() == write(), "run `make clients`"


def test_both_clients_have_the_same_documented_calls() -> None:
    def calls(client: type) -> dict[str, inspect.Signature]:
        return {
            name: inspect.signature(member, follow_wrapped=True)
            for name, member in vars(client).items()
            if hasattr(member, "__wrapped__")
        }

    assert calls(KnowledgeClient) == calls(AsyncKnowledgeClient)
    assert len(calls(KnowledgeClient)) > 25
    assert all(inspect.getdoc(getattr(KnowledgeClient, name)) for name in calls(KnowledgeClient))


@pytest.mark.slow
def test_the_package_builds_with_its_types_and_few_dependencies(tmp_path: Path) -> None:
    folder = Path(models.__file__).parents[1]
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", tmp_path, folder], check=True)
    (wheel,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("METADATA"))
    assert {"knowledge_client/py.typed", "knowledge_client/langchain/vectorstore.py"} <= set(names)
    assert all(name.startswith("knowledge_client") for name in names)
    needs = message_from_string(metadata).get_all("Requires-Dist")
    assert needs == [
        "httpx>=0.28",
        "langchain-core>=1.0; extra == 'langchain'",
        "llama-index-core>=0.14; extra == 'llamaindex'",
    ]


def test_the_package_needs_neither_the_service_nor_langchain() -> None:
    code = """
import sys, knowledge_client
names = {module.partition(".")[0] for module in sys.modules}
unwanted = names & {"app", "fastapi", "sqlalchemy", "langchain_core", "orjson", "numpy", "pydantic", "httpx"}
sys.exit(" ".join(unwanted) or 0)
"""
    folder = Path(models.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()

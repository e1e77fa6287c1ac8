"""The Python client: its types are those of the contract, and its package is complete and small."""

import inspect
import subprocess
import sys
import zipfile
from collections.abc import Callable
from email import message_from_string
from pathlib import Path

import pytest

from clients import generate
from knowledge_client import AsyncKnowledgeClient, KnowledgeClient, models


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

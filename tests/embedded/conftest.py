import subprocess
from pathlib import Path

import pytest

from app.embedded.server import EmbeddedPostgres
from tests.fixtures.embedded import FAST, fetch_value


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped data directory to copy; its table `kept` contains the number 7."""
    data_dir = tmp_path_factory.mktemp("template") / "data"
    with EmbeddedPostgres(data_dir, settings=FAST) as postgres:
        fetch_value(postgres.start().dsn(), "create table kept as select 7 as n")
    return data_dir


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A path where a data directory can be created."""
    return tmp_path / "data"


@pytest.fixture
def prepared_dir(template: Path, data_dir: Path) -> Path:
    """A data directory that already exists."""
    subprocess.run(["cp", "-a", template, data_dir], check=True)
    return data_dir

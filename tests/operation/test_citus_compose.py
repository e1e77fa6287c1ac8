"""The compose file of the Citus cluster, and that its nodes keep the guarantees of the one database."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.operation.compose import DIGEST, ROOT, read_compose, service

FOLDER = ROOT / "deploy" / "citus"
NODES = ("database", "node-1", "node-2")
OF_CLUSTER = {"image", "build", "command", "environment", "volumes"}
"""What a node has otherwise than the one database."""


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded = yaml.safe_load((FOLDER / "docker-compose.yml").read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def test_nodes_have_the_guarantees_of_the_one_database(compose: dict[str, Any]) -> None:
    one = service(read_compose(), "database")
    for name in NODES:
        node = service(compose, name)
        assert {key: node[key] for key in node.keys() - OF_CLUSTER} == {
            key: one[key] for key in one.keys() - OF_CLUSTER
        }
        assert node["environment"] == one["environment"] | {"NODE_SQL": "/opt/knowledge/node.sql"}
        assert node["cap_drop"] == ["ALL"]
        assert node["networks"] == ["data"]
        assert "ports" not in node


def test_each_node_runs_the_same_scripts_and_has_a_volume_of_its_own(compose: dict[str, Any]) -> None:
    one = [mount.split(":") for mount in service(read_compose(), "database")["volumes"]]
    data = set()
    scripts = set()
    for name in NODES:
        (volume, folder), *files = (mount.split(":") for mount in service(compose, name)["volumes"])
        data.add(volume)
        assert [volume == "database", folder] == [name == "database", "/var/lib/postgresql"]
        scripts.add(tuple(map(tuple, files)))
        assert all(mount in files for mount in one if mount[0].startswith("./"))
    assert data == {"database", *compose["volumes"]}
    (given,) = scripts
    for path, target, options in given:
        assert (ROOT / path).is_file()
        assert options == "ro"
        assert "initdb.d" not in target or target.endswith(".sh"), "the SQL needs its variables"
    run = [target for _, target, _ in given if "initdb.d" in target]
    assert [target.rpartition("/")[2] for target in run] == ["10-roles.sh", "20-node.sh"]


def test_nodes_have_the_settings_that_citus_needs(compose: dict[str, Any]) -> None:
    for name in NODES:
        program, *words = service(compose, name)["command"]
        assert program == "postgres"
        assert set(words[::2]) == {"-c"}
        settings = dict(word.split("=") for word in words[1::2])
        assert settings["shared_preload_libraries"] == "citus"
        assert settings["wal_level"] == "logical"
        assert settings["citus.enable_unsafe_triggers"] == "on"


def test_nodes_are_registered_when_they_are_healthy_and_before_migrations(compose: dict[str, Any]) -> None:
    register = service(compose, "register")
    assert register["depends_on"] == {name: {"condition": "service_healthy"} for name in NODES}
    named = [register["environment"]["COORDINATOR"], *register["environment"]["WORKERS"].split()]
    assert named == [f"{name}:5432" for name in NODES]
    assert register["user"].split(":")[0] != "0"
    assert (register["read_only"], register["cap_drop"], register["restart"]) == (True, ["ALL"], "no")
    (mount,) = register["volumes"]
    assert register["entrypoint"] == [mount.split(":")[1]]
    assert service(compose, "migrate") == {"depends_on": {"register": {"condition": "service_completed_successfully"}}}
    assert compose["services"].keys() == {*NODES, "register", "migrate"}


def test_cluster_contains_no_secret_and_stops_without_one(compose: dict[str, Any]) -> None:
    for name in (*NODES, "register"):
        for variable, value in service(compose, name)["environment"].items():
            if "PASSWORD" in variable:
                assert re.fullmatch(r"\$\{\w+:\?see deploy/\.env\.example\}", value), variable


def test_image_of_a_node_is_pinned(compose: dict[str, Any]) -> None:
    lines = (FOLDER / "Dockerfile").read_text("utf-8").splitlines()
    defaults = dict(line[len("ARG ") :].split("=") for line in lines if line.startswith("ARG "))
    assert re.fullmatch(r"pgvector/pgvector:pg18-bookworm" + DIGEST, defaults["POSTGRES_IMAGE"])
    assert "FROM ${POSTGRES_IMAGE}" in lines
    version = defaults["CITUS_VERSION"].partition(".citus")[0]
    assert "${CITUS_PACKAGE}=${CITUS_VERSION}" in "\n".join(lines)
    for name in (*NODES, "register"):
        assert service(compose, name)["image"] == f"knowledge-citus:{version}-pg18"
    for name in NODES:
        assert (ROOT / service(compose, name)["build"] / "Dockerfile").samefile(FOLDER / "Dockerfile")

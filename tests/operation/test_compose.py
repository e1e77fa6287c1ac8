"""The guarantees of the compose file, read from the file itself."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from app.settings import variable_names
from tests.operation.compose import DIGEST, OWN_SERVICES, ROOT, read_compose, read_dockerfile, service

SETTING = re.compile(r"\b(?:KB|DATABASE|JWT|EMBEDDING|OPENAI|GEMINI|LOG)_[A-Z_]+\b")
REQUIRED = re.compile(r"\$\{(\w+):\?[^}]+\}")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return read_compose()


def variables_in(path: Path) -> set[str]:
    """Names in an example file of settings, commented out or not."""
    return set(re.findall(r"^#? ?([A-Z][A-Z0-9_]+)=", path.read_text("utf-8"), re.MULTILINE))


def test_compose_pins_every_image_by_tag(compose: dict[str, Any]) -> None:
    for name in compose["services"]:
        image = service(compose, name)["image"]
        assert re.fullmatch(r"[\w./-]+:[\w.-]+" + DIGEST, image), name
        assert not image.endswith(":latest")
    assert service(compose, "database")["image"].startswith("pgvector/pgvector:pg18")


def test_compose_keeps_the_data_where_the_image_of_postgres_18_stores_it(compose: dict[str, Any]) -> None:
    mounts = [mount.split(":") for mount in service(compose, "database")["volumes"]]
    assert [target for source, target, *_ in mounts if source in compose["volumes"]] == ["/var/lib/postgresql"]


def test_compose_mounts_files_that_exist_and_can_run(compose: dict[str, Any]) -> None:
    bound = [
        (ROOT / source, target, options)
        for source, target, *options in (mount.split(":") for mount in service(compose, "database")["volumes"])
        if source.startswith("./")
    ]
    assert bound
    for path, target, options in bound:
        assert path.is_file()
        assert options == ["ro"]
        assert path.suffix != ".sh" or os.access(path, os.X_OK)
        assert path.suffix != ".sql" or "docker-entrypoint-initdb.d" not in target, "it needs its variables"


def test_compose_migrates_before_anything_serves(compose: dict[str, Any]) -> None:
    assert service(compose, "migrate")["command"] == ["migrate", "--service-role", "kb_service"]
    assert service(compose, "migrate")["restart"] == "no"
    for name in OWN_SERVICES:
        assert service(compose, name)["depends_on"]["database"] == {"condition": "service_healthy"}
    for name in ("api", "worker"):
        assert service(compose, name)["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
        assert service(compose, name)["restart"] == "unless-stopped"
    assert service(compose, "api")["environment"]["KB_WORKER"] == "off"


def test_compose_checks_the_health_of_servers_only(compose: dict[str, Any]) -> None:
    assert "pg_isready" in service(compose, "database")["healthcheck"]["test"]
    assert "healthcheck" not in service(compose, "api"), "the image's own check is used"
    for name in ("migrate", "worker"):
        assert service(compose, name)["healthcheck"] == {"disable": True}


def test_compose_drops_privileges(compose: dict[str, Any]) -> None:
    for name in compose["services"]:
        assert service(compose, name)["cap_drop"] == ["ALL"], name
        assert service(compose, name)["security_opt"] == ["no-new-privileges:true"], name
    for name in OWN_SERVICES:
        assert service(compose, name)["read_only"] is True
        assert "cap_add" not in service(compose, name)
    assert "ports" not in service(compose, "database")
    assert all(port.startswith("127.0.0.1:") for port in service(compose, "api")["ports"])


def test_compose_gives_the_table_owner_to_migrations_only(compose: dict[str, Any]) -> None:
    for name in ("api", "worker"):
        environment = service(compose, name)["environment"]
        assert "DATABASE_ADMIN_URL" not in environment
        assert "MIGRATOR_PASSWORD" not in str(environment)
        assert environment["DATABASE_URL"].startswith("postgresql://kb_service:")
    admin_url = service(compose, "migrate")["environment"]["DATABASE_ADMIN_URL"]
    assert admin_url.startswith("postgresql://kb_migrator:")


def test_compose_contains_no_secret_and_stops_without_one(compose: dict[str, Any]) -> None:
    required: set[str] = set()
    for name in compose["services"]:
        for variable, value in service(compose, name)["environment"].items():
            if re.search(r"PASSWORD|SECRET|KEY|_URL$", variable):
                assert value is None or REQUIRED.search(value), variable
                required |= set(REQUIRED.findall(value or ""))
    assert required == {"POSTGRES_PASSWORD", "MIGRATOR_PASSWORD", "SERVICE_PASSWORD", "JWT_SECRET"}
    assert required <= variables_in(ROOT / "deploy" / ".env.example")
    for line in (ROOT / "deploy" / ".env.example").read_text("utf-8").splitlines():
        assert not re.match(r"#?\w*(PASSWORD|SECRET|KEY)=.", line), line


def test_deployment_files_use_only_existing_documented_settings(compose: dict[str, Any]) -> None:
    environments = [service(compose, name)["environment"] for name in OWN_SERVICES]
    used = {variable for environment in environments for variable in environment}
    used |= set(SETTING.findall("\n".join(line for line in read_dockerfile() if line.startswith("ENV "))))
    standard = {name for name in used if name.startswith("OTEL_")}  # read by OpenTelemetry itself
    assert used - standard <= set(variable_names())
    assert used - standard <= variables_in(ROOT / ".env.example")
    page = (ROOT / "docs" / "operations" / "monitoring.md").read_text("utf-8")
    assert all(name in page for name in standard)


def test_compose_forwards_every_setting_that_an_operator_may_change(compose: dict[str, Any]) -> None:
    environments = [service(compose, name)["environment"] for name in OWN_SERVICES]
    forwarded = {variable for environment in environments for variable in environment}
    set_by_the_image = {"KB_HOST", "KB_PORT", "KB_DATA_DIR"}
    instead_of_the_secret = {"JWT_JWKS_URL"}
    assert set(variable_names()) - forwarded == set_by_the_image | instead_of_the_secret


def test_networks_and_limits_contain_a_worker_that_is_broken_into(compose: dict[str, Any]) -> None:
    networks = compose["networks"]
    assert networks["data"] == {"internal": True}
    joined = {name: set(service(compose, name)["networks"]) for name in (*OWN_SERVICES, "database")}
    assert joined == {
        "database": {"data"},
        "migrate": {"data"},
        "api": {"data", "front"},
        "worker": {"data", "outward"},
    }
    for name in OWN_SERVICES:
        assert service(compose, name)["mem_limit"].endswith("g")
        assert 0 < service(compose, name)["pids_limit"] <= 256

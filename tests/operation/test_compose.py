"""Files for Compose."""

import os
import re
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

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


def test_compose_checks_the_health_of_what_runs(compose: dict[str, Any]) -> None:
    assert "pg_isready" in service(compose, "database")["healthcheck"]["test"]
    assert "healthcheck" not in service(compose, "api"), "the image's own check is used"
    assert "'/healthz'" in service(compose, "worker")["healthcheck"]["test"][-1]
    assert "KB_METRICS_PORT" in service(compose, "worker")["environment"]
    assert service(compose, "migrate")["healthcheck"] == {"disable": True}


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


FOLDER = ROOT / "deploy" / "citus"
NODES = ("database", "node-1", "node-2")
OF_CLUSTER = {"image", "build", "command", "environment", "volumes"}
"""What a node has otherwise than the one database."""


@pytest.fixture(scope="module")
def composed() -> dict[str, Any]:
    loaded = yaml.safe_load((FOLDER / "docker-compose.yml").read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def test_nodes_have_the_guarantees_of_the_one_database(composed: dict[str, Any]) -> None:
    one = service(read_compose(), "database")
    for name in NODES:
        node = service(composed, name)
        assert {key: node[key] for key in node.keys() - OF_CLUSTER} == {
            key: one[key] for key in one.keys() - OF_CLUSTER
        }
        assert node["environment"] == one["environment"] | {"NODE_SQL": "/opt/knowledge/node.sql"}
        assert node["cap_drop"] == ["ALL"]
        assert node["networks"] == ["data"]
        assert "ports" not in node


def test_each_node_runs_the_same_scripts_and_has_a_volume_of_its_own(composed: dict[str, Any]) -> None:
    one = [mount.split(":") for mount in service(read_compose(), "database")["volumes"]]
    data = set()
    scripts = set()
    for name in NODES:
        (volume, folder), *files = (mount.split(":") for mount in service(composed, name)["volumes"])
        data.add(volume)
        assert [volume == "database", folder] == [name == "database", "/var/lib/postgresql"]
        scripts.add(tuple(map(tuple, files)))
        assert all(mount in files for mount in one if mount[0].startswith("./"))
    assert data == {"database", *composed["volumes"]}
    (given,) = scripts
    for path, target, options in given:
        assert (ROOT / path).is_file()
        assert options == "ro"
        assert "initdb.d" not in target or target.endswith(".sh"), "the SQL needs its variables"
    run = [target for _, target, _ in given if "initdb.d" in target]
    assert [target.rpartition("/")[2] for target in run] == ["10-roles.sh", "20-node.sh"]


def test_nodes_have_the_settings_that_citus_needs(composed: dict[str, Any]) -> None:
    for name in NODES:
        program, *words = service(composed, name)["command"]
        assert program == "postgres"
        assert set(words[::2]) == {"-c"}
        settings = dict(word.split("=") for word in words[1::2])
        assert settings["shared_preload_libraries"] == "citus"
        assert settings["wal_level"] == "logical"
        assert settings["citus.enable_unsafe_triggers"] == "on"


def test_nodes_are_registered_when_they_are_healthy_and_before_migrations(composed: dict[str, Any]) -> None:
    register = service(composed, "register")
    assert register["depends_on"] == {name: {"condition": "service_healthy"} for name in NODES}
    named = [register["environment"]["COORDINATOR"], *register["environment"]["WORKERS"].split()]
    assert named == [f"{name}:5432" for name in NODES]
    assert register["user"].split(":")[0] != "0"
    assert (register["read_only"], register["cap_drop"], register["restart"]) == (True, ["ALL"], "no")
    (mount,) = register["volumes"]
    assert register["entrypoint"] == [mount.split(":")[1]]
    assert service(composed, "migrate") == {"depends_on": {"register": {"condition": "service_completed_successfully"}}}
    assert composed["services"].keys() == {*NODES, "register", "migrate"}


def test_cluster_contains_no_secret_and_stops_without_one(composed: dict[str, Any]) -> None:
    for name in (*NODES, "register"):
        for variable, value in service(composed, name)["environment"].items():
            if "PASSWORD" in variable:
                assert re.fullmatch(r"\$\{\w+:\?see deploy/\.env\.example\}", value), variable


def test_image_of_a_node_is_pinned(composed: dict[str, Any]) -> None:
    lines = (FOLDER / "Dockerfile").read_text("utf-8").splitlines()
    defaults = dict(line[len("ARG ") :].split("=") for line in lines if line.startswith("ARG "))
    assert re.fullmatch(r"pgvector/pgvector:pg18-bookworm" + DIGEST, defaults["POSTGRES_IMAGE"])
    assert "FROM ${POSTGRES_IMAGE}" in lines
    version = defaults["CITUS_VERSION"].partition(".citus")[0]
    assert "${CITUS_PACKAGE}=${CITUS_VERSION}" in "\n".join(lines)
    for name in (*NODES, "register"):
        assert service(composed, name)["image"] == f"knowledge-citus:{version}-pg18"
    for name in NODES:
        assert (ROOT / service(composed, name)["build"] / "Dockerfile").samefile(FOLDER / "Dockerfile")


@pytest.fixture(scope="module")
def dockerfile() -> list[str]:
    return read_dockerfile()


@pytest.fixture(scope="module")
def runtime(dockerfile: list[str]) -> list[str]:
    """The instructions of the last stage: the contents of the image that runs."""
    last = max(index for index, line in enumerate(dockerfile) if line.startswith("FROM "))
    return dockerfile[last:]


def test_dockerfile_installs_only_what_the_lock_lists(dockerfile: list[str]) -> None:
    installs = re.findall(r"pip install ([^&]*)", "\n".join(dockerfile))
    assert installs
    for arguments in installs:
        assert "--require-hashes" in arguments or {"--no-deps", "--no-build-isolation"} <= set(arguments.split())


def test_dockerfile_takes_build_requirements_from_the_lock(dockerfile: list[str]) -> None:
    pattern = re.search(r"sed -nE '/\^\(([a-z|-]+)\)==/,/(\[\^\\\\]\$)/p'", "\n".join(dockerfile))
    assert pattern is not None
    names, last = pattern.groups()
    assert set(names.split("|")) == {"hatchling", *_requirements("hatchling")}
    lines = (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    for name in names.split("|"):
        start = next(index for index, line in enumerate(lines) if line.startswith(f"{name}=="))
        end = next(index for index in range(start, len(lines)) if re.search(last, lines[index]))
        assert end > start
        assert all("--hash=sha256:" in line for line in lines[start + 1 : end + 1])


def test_wheel_contains_migrations_statements_and_samples(tmp_path: Path) -> None:
    build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    made = subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    with zipfile.ZipFile(tmp_path / made.stdout.split()[-1]) as wheel:
        carried = set(wheel.namelist())
    for folder, inside in ((ROOT / "alembic", "app/alembic"), (ROOT / "app", "app")):
        kept = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert kept
        assert {f"{inside}/{path.relative_to(folder).as_posix()}" for path in kept} <= carried
    assert not [name for name in carried if name.endswith(".pyc") or name.startswith(("tests", "benchmarks"))]


def _requirements(distribution: str) -> set[str]:
    """The names that an installed distribution needs on this Python."""
    return {
        re.split(r"[^A-Za-z0-9-]", line)[0]
        for line in metadata.requires(distribution) or ()
        if "extra" not in line and "python_version" not in line
    }


def test_dockerfile_pins_its_base_images(dockerfile: list[str]) -> None:
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)", "\n".join(dockerfile), re.MULTILINE))
    for line in dockerfile:
        if line.startswith("FROM "):
            image = re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], line.split()[1])
            assert re.fullmatch(r"python:3\.1[1-9]-slim-\w+" + DIGEST, image), image


def test_dockerfile_copies_only_what_dockerignore_allows(dockerfile: list[str]) -> None:
    rules = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    allowed = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = {
        source
        for line in dockerfile
        if line.startswith("COPY ") and "--from=" not in line
        for source in line.split()[1:-1]
    }
    copied |= set(re.findall(r"type=bind,source=([^,\s]+)", "\n".join(dockerfile)))
    assert rules.index("*") < min(rules.index(f"!{name}") for name in allowed)
    assert copied == allowed
    assert "**/.env" in rules


def test_runtime_image_runs_as_an_ordinary_user_without_build_tools(runtime: list[str]) -> None:
    users = [line.split()[1] for line in runtime if line.startswith("USER ")]
    assert users
    assert all(re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user) for user in users)
    started_by = [index for index, line in enumerate(runtime) if line.startswith(("ENTRYPOINT", "CMD"))]
    assert min(started_by) > max(index for index, line in enumerate(runtime) if line.startswith("USER "))
    assert not re.search(r"apt-get|pip install|gcc|curl|wget", "\n".join(runtime))


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_health_check_calls_the_service_on_its_port(runtime: list[str], status: int, healthy: bool) -> None:
    asked: list[str] = []

    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    check = next(line for line in runtime if line.startswith("HEALTHCHECK"))
    program = yaml.safe_load(check[check.index("CMD ") + len("CMD ") :])
    assert program[:2] == ["python", "-c"]
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        server.timeout = 10
        answering = threading.Thread(target=server.handle_request)
        answering.start()
        environment = {"KB_PORT": str(server.server_port), "http_proxy": "http://127.0.0.1:9"}
        done = subprocess.run([sys.executable, *program[1:]], env=environment, capture_output=True, timeout=30)
        answering.join()
    assert asked == ["/healthz"]
    assert (done.returncode == 0) is healthy


def test_runtime_image_listens_on_all_addresses_by_default(runtime: list[str]) -> None:
    assert 'ENTRYPOINT ["knowledge"]' in runtime
    assert 'CMD ["serve"]' in runtime
    assert re.search(r"\bKB_PORT=\d+", "\n".join(runtime))
    assert re.search(r"\bKB_HOST=0\.0\.0\.0", "\n".join(runtime))


def test_roles_script_is_plain_sql_with_two_variables() -> None:
    text = (ROOT / "deploy" / "roles.sql").read_text("utf-8")
    statements = re.sub(r"--.*", "", text)
    assert "\\" not in statements
    assert sorted(re.findall(r"(?<!:):'?(\w+)", statements)) == ["migrator_password", "service_password"]
    assert not re.search(r"\b(superuser|bypassrls)\b(?!')", re.sub(r"'[^']*'", "", statements), re.IGNORECASE)


def test_roles_wrapper_passes_exactly_the_variables_of_the_script() -> None:
    wrapper = (ROOT / "deploy" / "roles.sh").read_text("utf-8")
    script = (ROOT / "deploy" / "roles.sql").read_text("utf-8")
    given = re.findall(r"\\getenv (\w+) (\w+)", wrapper)
    assert {name for name, _ in given} == set(re.findall(r":'(\w+)';", script))
    for _, variable in given:
        assert f'"${{{variable}:?' in wrapper

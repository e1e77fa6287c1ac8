"""The guarantees of the container image, read from the files themselves."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from tests.operation.compose import DIGEST, ROOT, read_dockerfile


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


def test_license_is_the_one_that_the_project_declares() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text("utf-8")

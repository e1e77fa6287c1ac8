"""The pods have the guarantees of the image and the compose file."""

import re
from typing import Any

import pytest

from app.settings import load_settings, variable_names
from docs.version import read_version
from tests.helm.chart import read_setting_names
from tests.helm.rendering import CERTIFICATES, EVERYTHING, REQUIRED, find, helm, pods, render
from tests.operation.compose import OWN_SERVICES, read_compose, read_dockerfile, service

SECRET = re.compile(r"PASSWORD|SECRETS?$|_KEY$|^DATABASE_\w*URLS?$")
GIVEN = {
    "DATABASE_URL": "postgresql://kb_service:x@db.example.com/knowledge",
    "DATABASE_ADMIN_URL": "postgresql://kb_migrator:x@db.example.com/knowledge",
    "JWT_SECRET": "s" * 48,
}
"""What the two Secrets hold."""


@pytest.fixture(scope="module")
def objects() -> list[dict[str, Any]]:
    return render(EVERYTHING)


def secret_keys(container: dict[str, Any]) -> dict[str, str]:
    """Of each variable from a Secret: the Secret's name."""
    return {one["name"]: one["valueFrom"]["secretKeyRef"]["name"] for one in container["env"] if "valueFrom" in one}


def plain_values(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def test_every_pod_is_confined(objects: list[dict[str, Any]]) -> None:
    (user,) = (line.split()[1] for line in read_dockerfile() if line.startswith("USER "))
    uid, gid = map(int, user.split(":"))
    components = {name for name, _, _ in pods(objects)}
    assert components == set(OWN_SERVICES)
    for _, pod, container in pods(objects):
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": uid,
            "runAsGroup": gid,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False, "a Service named kb would set KB_PORT"
        assert not any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC"))
        assert container["resources"]["limits"]["memory"]
        assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/tmp", CERTIFICATES}  # noqa: S108


def test_pods_run_the_commands_of_the_compose_file(objects: list[dict[str, Any]]) -> None:
    compose = read_compose()
    for name, _, container in pods(objects):
        assert container["args"] == service(compose, name)["command"]
        assert "command" not in container, "the image's entrypoint is used"


def test_only_the_migration_gets_the_owner_of_the_tables(objects: list[dict[str, Any]]) -> None:
    keys = {name: secret_keys(container) for name, _, container in pods(objects)}
    assert keys["migrate"].pop("DATABASE_ADMIN_URL") == "kb-migration"
    for found in keys.values():
        assert "DATABASE_ADMIN_URL" not in found
        assert set(found.values()) == {"kb-service"}
    assert not any("JWT" in name for name in keys["worker"] | keys["migrate"])


def test_no_secret_is_a_plain_value(objects: list[dict[str, Any]]) -> None:
    for _, _, container in pods(objects):
        assert not [name for name in plain_values(container) if SECRET.search(name)]
    assert not [name for name in read_setting_names() if SECRET.search(name)]


def test_every_setting_can_be_made() -> None:
    allowed = read_setting_names()
    fixed: set[str] = {"KB_HOST", "KB_PORT", "KB_DATA_DIR"}  # by the image
    for _, _, container in pods(render(REQUIRED | {"settings": {}})):
        fixed |= {name for name in plain_values(container) if name not in allowed}
        fixed |= secret_keys(container).keys()
    assert not allowed & fixed
    standard = {name for name in allowed if name.startswith("OTEL_")}
    assert (allowed - standard) | fixed == set(variable_names())
    environments = [service(read_compose(), name)["environment"] for name in OWN_SERVICES]
    assert standard == {name for one in environments for name in one if name.startswith("OTEL_")}


def test_the_service_accepts_the_variables_of_its_pods(objects: list[dict[str, Any]]) -> None:
    for name, _, container in pods(objects):
        environment = plain_values(container) | {key: GIVEN[key] for key in secret_keys(container) if key in GIVEN}
        settings = load_settings(environment, env_file=None, identity_required=name == "api")
        assert settings.ingestion.worker is (name != "api")
        assert settings.server.metrics_port == (None if name == "migrate" else 9100)


def test_the_migration_runs_before_the_new_version_starts(objects: list[dict[str, Any]]) -> None:
    job = find(objects, "Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    alone = REQUIRED | {"migration": {"enabled": False}, "secrets": {"service": "kb-service"}}
    assert not [one for one in render(alone) if one["kind"] == "Job"]


def test_probes_ask_what_they_are_for(objects: list[dict[str, Any]]) -> None:
    asked = {}
    for name, _, container in pods(objects):
        asked[name] = {probe: container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
    assert asked["api"] == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    assert asked["worker"] == {"livenessProbe": "/healthz"}
    assert asked["migrate"] == {}


@pytest.mark.parametrize(("drain", "grace"), [("10", 40), ("0.5", 31), ("", 33), ("120", 150)])
def test_pods_are_given_the_time_to_drain(drain: str, grace: int) -> None:
    objects = render(REQUIRED | {"settings": {"KB_DRAIN_SECONDS": drain}})
    pod = find(objects, "Deployment", "api")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == grace


def test_a_digest_replaces_the_tag() -> None:
    repository = REQUIRED["image"]["repository"]
    digest = "sha256:" + "0" * 64
    for image, expected in (
        ({}, f":{read_version()}"),
        ({"tag": "9.9.9-ocr"}, ":9.9.9-ocr"),
        ({"tag": "9.9.9", "digest": digest}, f"@{digest}"),
    ):
        for _, _, container in pods(render(REQUIRED | {"image": REQUIRED["image"] | image})):
            assert container["image"] == repository + expected


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"secrets": {"service": ""}}, "/secrets/service"),
        ({"secrets": {"service": "kb-service", "migration": ""}}, "/secrets/migration"),
        ({"image": {"repository": ""}}, "/image/repository"),
        ({"settings": {"KB_WORKERS": 2}}, "/settings/KB_WORKERS"),
        ({"settings": {"KB_LIMIT_BYTES": 107374182400}}, "/settings/KB_LIMIT_BYTES"),
        ({"settings": {"KB_WORKRES": "2"}}, "KB_WORKRES"),
        ({"settings": {"JWT_SECRET": "s" * 48}}, "JWT_SECRET"),
        ({"settings": {"KB_WORKER": "on"}}, "KB_WORKER"),
        ({"replicas": 3}, "replicas"),
        ({"api": {"replicas": 0}}, "/api/replicas"),
        ({"ingress": {"enabled": True}}, "/ingress/host"),
        ({"metrics": {"port": 8000}}, "/metrics/port"),
    ],
)
def test_wrong_values_are_refused_by_name(values: dict[str, Any], named: str) -> None:
    with pytest.raises(helm.HelmValuesError, match=named):
        render(REQUIRED | values)

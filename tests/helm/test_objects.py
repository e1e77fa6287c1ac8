"""The objects of the chart are those that Kubernetes accepts, and refer to each other correctly."""

from typing import Any

import pytest

from tests.helm.chart import CHART
from tests.helm.rendering import EVERYTHING, REQUIRED, find, helm, pods, render

kubernetes_validate = pytest.importorskip("kubernetes_validate")

VERSIONS = ("1.31", "1.34")
"""The oldest version of `kubeVersion` in Chart.yaml, and a later one."""

OPTIONAL = {"Ingress", "HorizontalPodAutoscaler", "NetworkPolicy", "ServiceMonitor"}


@pytest.mark.parametrize("values", [REQUIRED, EVERYTHING], ids=["required", "everything"])
def test_lint_finds_nothing_but_the_missing_icon(values: dict[str, Any]) -> None:
    report = helm.lint(CHART, values, strict=True, kube_version="v1.31.0")
    assert report["errors"] == []
    assert [message["error"] for message in report["messages"]] == ["icon is recommended"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("values", [REQUIRED, EVERYTHING], ids=["required", "everything"])
def test_every_object_has_the_schema_of_kubernetes(values: dict[str, Any], version: str) -> None:
    checked = [one for one in render(values) if one["kind"] != "ServiceMonitor"]
    assert len(checked) >= 5
    for one in checked:
        kubernetes_validate.validate(one, version, strict=True)


def test_the_schemas_refuse_an_unknown_field() -> None:
    service = find(render(REQUIRED), "Service")
    service["spec"]["colour"] = "blue"
    with pytest.raises(kubernetes_validate.ValidationError, match="colour"):
        kubernetes_validate.validate(service, VERSIONS[0], strict=True)


def test_optional_objects_exist_only_on_request() -> None:
    small = {one["kind"] for one in render(REQUIRED)}
    assert small == {"Deployment", "Job", "Service", "PodDisruptionBudget"}
    assert {one["kind"] for one in render(EVERYTHING)} == small | OPTIONAL


def test_selectors_find_the_pods_that_they_are_for() -> None:
    objects = render(EVERYTHING)
    labels = {
        name: find(objects, "Job" if name == "migrate" else "Deployment", name)["spec"]["template"]["metadata"][
            "labels"
        ]
        for name in ("api", "worker", "migrate")
    }

    def select(selector: dict[str, str]) -> set[str]:
        return {name for name, given in labels.items() if selector.items() <= given.items()}

    for name in ("api", "worker"):
        assert select(find(objects, "Deployment", name)["spec"]["selector"]["matchLabels"]) == {name}
    assert select(find(objects, "Service", "api")["spec"]["selector"]) == {"api"}
    assert select(find(objects, "Service", "metrics")["spec"]["selector"]) == set(labels)
    assert select(find(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"]) == {"api"}
    monitored = find(objects, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= find(objects, "Service", "metrics")["metadata"]["labels"].items()
    assert not monitored.items() <= find(objects, "Service", "api")["metadata"]["labels"].items()


def test_ports_are_named_alike_everywhere() -> None:
    objects = render(EVERYTHING)
    ports = {
        name: {port["name"]: port["containerPort"] for port in container.get("ports", ())}
        for name, _, container in pods(objects)
    }
    assert ports == {"api": {"http": 8000, "metrics": 9100}, "worker": {"metrics": 9100}, "migrate": {}}
    assert find(objects, "Service", "api")["spec"]["ports"][0]["targetPort"] == "http"
    assert find(objects, "Service", "metrics")["spec"]["ports"][0]["targetPort"] == "metrics"
    backend = find(objects, "Ingress")["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend["name"] == find(objects, "Service", "api")["metadata"]["name"]
    scaled = find(objects, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"]
    assert scaled == find(objects, "Deployment", "api")["metadata"]["name"]


def test_autoscaling_alone_decides_the_number_of_pods() -> None:
    assert find(render(REQUIRED), "Deployment", "api")["spec"]["replicas"] == 2
    assert "replicas" not in find(render(EVERYTHING), "Deployment", "api")["spec"]


def test_long_release_names_fit() -> None:
    for name in ("a" * 53, "knowledge-search"):
        assert all(len(one["metadata"]["name"]) <= 63 for one in render(EVERYTHING, name=name))
    assert find(render(REQUIRED, "knowledge-search"), "Service")["metadata"]["name"] == "knowledge-search"


def test_network_policies_open_only_what_is_needed() -> None:
    objects = render(EVERYTHING)
    policies = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "NetworkPolicy"}
    every, api, outward = (policies[f"kb-knowledge-search{end}"] for end in ("", "-api", "-outward"))
    assert every["policyTypes"] == ["Ingress", "Egress"]
    assert [rule["ports"][0]["port"] for rule in every["ingress"]] == ["metrics"]
    names, database = every["egress"]
    assert {port["port"] for port in names["ports"]} == {53}
    assert database == {"ports": [{"port": 5432}], "to": [{"ipBlock": {"cidr": "10.0.0.5/32"}}]}
    assert [rule["ports"][0]["port"] for rule in api["ingress"]] == ["http"]
    assert outward["podSelector"]["matchExpressions"][0]["values"] == ["api", "worker"]


def test_network_policies_without_peers_open_nothing() -> None:
    closed = {"enabled": True, "from": [], "metricsFrom": [], "outward": []}
    objects = render(REQUIRED | {"networkPolicy": closed})
    policy = find(objects, "NetworkPolicy")["spec"]
    assert "ingress" not in policy
    assert len(policy["egress"]) == 2

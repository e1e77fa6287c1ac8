"""The chart in deploy/helm, rendered by Helm."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.helm.chart import CHART

helm = pytest.importorskip("helm_python", reason="`make test-helm` installs Helm")

CERTIFICATES = "/etc/knowledge/certificates"

REQUIRED: dict[str, Any] = {
    "image": {"repository": "registry.example.com/knowledge-search"},
    "secrets": {"service": "kb-service", "migration": "kb-migration"},
}
EVERYTHING: dict[str, Any] = REQUIRED | {
    "imagePullSecrets": ["registry"],
    "certificates": "database-ca",
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "annotations": {"nginx.ingress.kubernetes.io/proxy-body-size": "50m"},
        "host": "kb.example.com",
        "tlsSecret": "kb-tls",
    },
    "autoscaling": {"enabled": True},
    "networkPolicy": {
        "enabled": True,
        "metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
        "database": {"to": [{"ipBlock": {"cidr": "10.0.0.5/32"}}]},
    },
    "metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    "podAnnotations": {"example.com/team": "search"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "search", "operator": "Exists"}],
}


def render(values: dict[str, Any], name: str = "kb") -> list[dict[str, Any]]:
    """The objects of a release, its hooks included. Raises HelmError for values that the chart refuses."""
    with helm.Chart.load(CHART) as chart:
        files = chart.render(values, name=name, namespace="search")
    return [
        loaded
        for path, text in files.items()
        if path.endswith(".yaml")
        for loaded in yaml.safe_load_all(text)
        if loaded is not None
    ]


def find(objects: list[dict[str, Any]], kind: str, component: str | None = None) -> dict[str, Any]:
    """The only object of a kind, or the only one whose labels name a component."""
    (found,) = (
        one
        for one in objects
        if one["kind"] == kind and component in (None, one["metadata"]["labels"].get("app.kubernetes.io/component"))
    )
    return found


def pods(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Of each component: its name, its pod, and the pod's only container."""
    for one in objects:
        if one["kind"] in ("Deployment", "Job"):
            pod = one["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            yield one["metadata"]["labels"]["app.kubernetes.io/component"], pod, container

"""The dashboard and the alerts name only metrics, labels and pages that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.operation.traffic import Traffic

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "deploy" / "grafana" / "knowledge-search.json"
PROMETHEUS = ROOT / "deploy" / "prometheus"
PAGES = ROOT / "docs" / "operations"

BY_PROMETHEUS = {"job", "instance"}
"""Labels that a scrape adds."""
SELECTOR = re.compile(r"\b([a-z][a-z0-9_]*)\s*\{([^}]*)\}")
GROUPING = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
NAME = re.compile(r"\b(?:knowledge|process|python)_[a-z0-9_]+\b")


def list_expressions() -> Iterator[tuple[str, str]]:
    """Every query of the dashboard and the alerts, and its location."""
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for group in yaml.safe_load((PROMETHEUS / "alerts.yml").read_text("utf-8"))["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def read_labels(text: str) -> Mapping[str, set[str]]:
    """The label names of each series of a scrape."""
    labels: dict[str, set[str]] = defaultdict(set)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels[sample.name] |= set(sample.labels)
    return labels


def test_every_query_names_metrics_and_labels_that_exist(traffic: Traffic) -> None:
    exposed = read_labels(traffic.after)
    expressions = list(list_expressions())
    assert len(expressions) > 40
    for place, expression in expressions:
        names = set(NAME.findall(expression))
        assert names or expression.startswith("up{"), f"{place} asks for nothing of the service's"
        assert names <= set(exposed), f"{place}: {names - set(exposed)}"
        allowed = BY_PROMETHEUS.union(*(exposed[name] for name in names))
        for name, matchers in SELECTOR.findall(expression):
            used = {re.split("[=!]", part.strip(), maxsplit=1)[0] for part in _split(matchers)}
            assert used <= exposed.get(name, set()) | BY_PROMETHEUS, f"{place}: {name} has no {used}"
        for group in GROUPING.findall(expression):
            used = {part.strip() for part in group.split(",")}
            assert used <= allowed, f"{place}: {used - allowed}"


def _split(matchers: str) -> list[str]:
    return [part for part in re.split(r",(?=\s*[a-z_]+\s*[=!])", matchers) if part.strip()]


def test_every_metric_of_the_service_is_explained(traffic: Traffic) -> None:
    page = (PAGES / "monitoring.md").read_text("utf-8")
    for family in text_string_to_metric_families(traffic.after):
        if family.name.startswith("knowledge_") and not family.name.endswith("_created"):
            assert f"`{family.name}" in page, family.name


def test_alerts_link_to_a_section_that_exists() -> None:
    groups = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        headings = re.findall(r"^#+ (.+)$", (PAGES / page).read_text("utf-8"), re.MULTILINE)
        slugs = {re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings}
        assert anchor in slugs, rule["alert"]
        assert f"`{rule['alert']}`" in (PAGES / "incidents.md").read_text("utf-8"), rule["alert"]


def test_dashboard_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
@pytest.mark.parametrize("arguments", [("check", "config", "prometheus.yml"), ("test", "rules", "alerts_test.yml")])
def test_prometheus_accepts_the_files(arguments: tuple[str, ...]) -> None:
    answer = subprocess.run(["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr

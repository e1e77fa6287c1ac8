"""The files of the chart in deploy/helm."""

import json

from tests.operation.compose import ROOT

CHART = ROOT / "deploy" / "helm"


def read_setting_names() -> set[str]:
    """The variables that the value `settings` accepts."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    return set(schema["properties"]["settings"]["properties"])

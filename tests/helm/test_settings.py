"""The chart knows every setting. These tests need no Helm."""

import re

from app.settings import variable_names
from tests.helm.chart import CHART, read_setting_names

BY_THE_IMAGE = {"KB_HOST", "KB_PORT", "KB_DATA_DIR"}


def test_every_setting_is_accepted_or_made_by_the_chart() -> None:
    pod = (CHART / "templates" / "_pod.tpl").read_text("utf-8")
    by_the_chart = set(re.findall(r'"([A-Z]+_[A-Z_]+)"|- name: ([A-Z_]+)$', pod, re.MULTILINE))
    made = {first or second for first, second in by_the_chart} | BY_THE_IMAGE
    accepted = {name for name in read_setting_names() if not name.startswith("OTEL_")}
    assert not accepted & made
    assert accepted | made == set(variable_names())

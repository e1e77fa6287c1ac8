"""Compute bar charts for templates, in a box of 100 by 100 that scales to the available space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

HOURS = 25
"""The last 24 hours; the first and the last hour are partial."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour: two values, the inner one part of or less than the outer one, and their positions in the box."""

    hour: datetime
    x: float
    width: float
    outer: int
    inner: int
    outer_height: float
    inner_height: float


@dataclass(frozen=True, slots=True)
class HourChart:
    """Bars by hour up to `top`, a round number; `labels` are hours of the day with positions from 0 to 100."""

    bars: Sequence[Bar]
    top: int
    labels: Sequence[tuple[str, float]]


def draw_hours(values: Sequence[tuple[datetime, int, int]], now: datetime) -> HourChart:
    """Build the chart from the outer and inner values by hour; missing hours are empty."""
    last = now.replace(minute=0, second=0, microsecond=0)
    hours = [last - timedelta(hours=n) for n in range(HOURS - 1, -1, -1)]
    found = {hour: (outer, inner) for hour, outer, inner in values}
    top = round_up(max((outer for _, outer, _ in values), default=0))
    slot = 100 / HOURS
    bars = [
        Bar(
            hour,
            x=round(place * slot + slot * 0.12, 3),
            width=round(slot * 0.76, 3),
            outer=found[hour][0],
            inner=found[hour][1],
            outer_height=round(100 * found[hour][0] / top, 3),
            inner_height=round(100 * found[hour][1] / top, 3),
        )
        for place, hour in enumerate(hours)
        if hour in found
    ]
    labels = [
        (f"{hour:%H}:00", round(place * slot + slot / 2, 3)) for place, hour in enumerate(hours) if hour.hour % 6 == 0
    ]
    return HourChart(bars, top, labels)


def round_up(value: int) -> int:
    """Round up to 1, 2, 5, 10, 20, 50 and so on."""
    if value <= 1:
        return 1
    power: int = 10 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= value)

"""Ranks side by side: a column for each ranking and a line for each hit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

WIDTH = 360
ROW = 28
HEAD = 34
MARGIN = 84
"""Space for the labels next to the outer columns."""

RADIUS = 9.0


@dataclass(frozen=True, slots=True)
class Place:
    """The position of an entry in a ranking: its rank, from 1, and its label."""

    rank: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Ranking:
    """One column: the positions of its entries."""

    heading: str
    places: Mapping[UUID, Place]


@dataclass(frozen=True, slots=True)
class Stop:
    """A lane's point in one column, in the chart's units; without a place if the column lacks the entry."""

    x: float
    y: float
    place: Place | None


@dataclass(frozen=True, slots=True)
class Lane:
    """One hit's path through the columns: a stop in each, and lines between those that have it."""

    id: UUID
    title: str
    stops: Sequence[Stop]
    paths: Sequence[str]

    @property
    def everywhere(self) -> bool:
        """Whether each column has the hit."""
        return all(stop.place for stop in self.stops)


@dataclass(frozen=True, slots=True)
class RankChart:
    """The data of the chart and of its table."""

    width: int
    height: int
    headings: Sequence[tuple[float, str]]
    lanes: Sequence[Lane]


def draw_ranks(titles: Mapping[UUID, str], rankings: Sequence[Ranking]) -> RankChart:
    """Lay the chart out.

    Within a column, the entries of `titles` are in the order of their ranks, without gaps: a low rank is shown as a
    number, so that the chart stays small.
    """
    step = (WIDTH - 2 * MARGIN) / (len(rankings) - 1)
    columns = [MARGIN + step * index for index in range(len(rankings))]
    heights = [_stack(titles, ranking) for ranking in rankings]
    lanes = []
    for entry_id, title in titles.items():
        stops = [
            Stop(x, ys.get(entry_id, 0.0), ranking.places.get(entry_id))
            for x, ys, ranking in zip(columns, heights, rankings, strict=True)
        ]
        present = [stop for stop in stops if stop.place]
        paths = [_curve(a, b) for a, b in pairwise(present)]
        lanes.append(Lane(entry_id, title, stops, paths))
    rows = max((len(ys) for ys in heights), default=0)
    headings = [(x, ranking.heading) for x, ranking in zip(columns, rankings, strict=True)]
    return RankChart(WIDTH, HEAD + ROW * rows, headings, lanes)


def _stack(titles: Mapping[UUID, str], ranking: Ranking) -> dict[UUID, float]:
    places = {entry_id: ranking.places[entry_id] for entry_id in titles if entry_id in ranking.places}
    ordered = sorted(places, key=lambda entry_id: places[entry_id].rank)
    return {entry_id: HEAD + ROW * (row + 0.5) for row, entry_id in enumerate(ordered)}


def _curve(start: Stop, end: Stop) -> str:
    left, right = start.x + RADIUS, end.x - RADIUS
    middle = (left + right) / 2
    return f"M{left:g} {start.y:g}C{middle:g} {start.y:g} {middle:g} {end.y:g} {right:g} {end.y:g}"

"""Two plots of the results of the speed benchmark."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.contender import Absent, import_peer
from benchmarks.report.results import Measurement, Report

LATENCY = "speed-latency.png"
THROUGHPUT = "speed-throughput.png"
PANELS = 3
"""Tenant sizes in the throughput plot: the largest ones."""

Lines: TypeAlias = Mapping[str, Sequence[tuple[int, float]]]


def draw_plots(report: Report, folder: Path, remark: Callable[[str], object]) -> list[Path]:
    """Latency against tenant size for one caller, and throughput against callers; nothing without matplotlib."""
    try:
        new_figure = import_peer("matplotlib.figure", "matplotlib").Figure
    except Absent as reason:
        remark(f"no plots: {reason}")
        return []
    cached = [m for m in report.measurements if m.workload == "cached"]
    styles = _styles(report, cached)
    sizes, callers = sorted({m.size for m in cached}), sorted({m.callers for m in cached})
    made: list[Path] = []
    if len(sizes) > 1 and 1 in callers:
        figure = new_figure(figsize=(9, 6.5), layout="constrained")
        lines = _gather([m for m in cached if m.callers == 1], lambda m: (m.size, m.timings.p50))
        axes = figure.add_subplot()
        _draw(axes, lines, styles, sizes)
        axes.set(title="One caller, embedding of the query known", xlabel="entries of the tenant", ylabel="p50, ms")
        made.append(_save(figure, axes, folder / LATENCY))
    if len(callers) > 1:
        shown = sizes[-PANELS:]
        figure = new_figure(figsize=(1.5 + 4 * len(shown), 6.5), layout="constrained")
        panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        for axes, size in zip(panels, shown, strict=True):
            lines = _gather([m for m in cached if m.size == size], lambda m: (m.callers, m.timings.throughput))
            _draw(axes, lines, styles, callers)
            axes.set(title=f"{size:,} entries", xlabel="callers at once")
        panels[0].set_ylabel("answers a second")
        made.append(_save(figure, panels[0], folder / THROUGHPUT))
    return made


def _gather(
    measurements: Sequence[Measurement], point: Callable[[Measurement], tuple[int, float]]
) -> dict[str, list[tuple[int, float]]]:
    lines: dict[str, list[tuple[int, float]]] = {}
    for m in measurements:
        lines.setdefault(m.contender, []).append(point(m))
    return {name: sorted(points) for name, points in lines.items()}


def _styles(report: Report, cached: Sequence[Measurement]) -> dict[str, dict[str, Any]]:
    """One colour for each contender in both plots; peers dashed, the floor dotted. Speed must be read with recall."""
    styles: dict[str, dict[str, Any]] = {}
    for m in cached:
        if m.contender not in styles:
            recalls = [r for r in report.recalls if r.contender == m.contender and not r.rare]
            last = max(recalls, key=lambda r: r.size, default=None)
            known = f" (recall@10 {last.recall:.3f} at {last.size:,})" if last else ""
            styles[m.contender] = {
                "label": m.contender + known,
                "color": f"C{len(styles)}",
                "linestyle": ":" if m.is_floor else "--" if m.is_peer else "-",
                "linewidth": 1.6 if m.is_floor or m.is_peer else 2.6,
                "marker": "o",
            }
    return styles


def _draw(axes: Any, lines: Lines, styles: Mapping[str, Mapping[str, Any]], places: Sequence[int]) -> None:
    for name, points in lines.items():
        axes.plot(*zip(*points, strict=True), **styles[name])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(places, [f"{place:,}" for place in places])
    axes.minorticks_off()
    low, high = axes.get_ylim()
    steps = [step * 10**power for power in range(-1, 6) for step in (1, 2, 5)]
    shown = [step for step in steps if low <= step <= high]
    axes.set_yticks(shown, [f"{step:,g}" for step in shown])
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)


def _save(figure: Any, axes: Any, path: Path) -> Path:
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=150)
    return path

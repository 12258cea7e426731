"""Draw the figures that the other programs have saved: an SVG file beside each JSON file.

    python -m benchmarks.charts [docs/benchmarks/local_upsert.json ...]

Needs matplotlib (extra ``benchmarks``). A chart says which commit was measured, and of which day that is. Draws files
of `local_upsert`, `spark_upsert`, `scaling`, `indexes` and of other programs that save timings. A bar is a median; its
line goes from the fastest to the slowest run. The legend of lines gives the power with which time grows.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.measure import exponent, git

__all__ = ["Bar", "Curves", "Panel", "draw", "measured_commit", "panels_of"]

FOLDER = Path(__file__).parent.parent / "docs" / "benchmarks"
OURS, OTHERS, FLOOR = "#1f6f8b", "#b8bec6", "#5f6b7a"
ENGINES = ("parquet ", "hoodie ", "connect ", "hudi ")
_REVISION = re.compile(r"hoodie (?P<revision>[0-9a-f]{7,40})(?P<dirty>-dirty)?(?: of (?P<day>\d{4}-\d\d-\d\d))?")
SECONDS = "seconds, median; the line shows the fastest and the slowest run"


@attrs.frozen
class Bar:
    """One bar.

    Attributes:
        name: What was measured.
        value: The median.
        spread: The lowest and the highest value.
        text: The text at its end.
    """

    name: str
    value: float
    spread: tuple[float, float]
    text: str

    @classmethod
    def of_runs(cls, name: str, median: float, values: Iterable[float]) -> Bar:
        """A bar for several runs."""
        known = list(values)
        return cls(name, median, (min(known), max(known)), f"{median:.2f}")


@attrs.frozen
class Panel:
    """Bars with a common axis.

    Attributes:
        bars: From top to bottom.
        label: The label of the axis.
        title: The title above the bars.
    """

    bars: Sequence[Bar]
    label: str
    title: str = ""


@attrs.frozen
class Curves:
    """Lines on logarithmic axes: seconds by how many times larger the input is.

    Attributes:
        curves: Name -> the factors, and the CPU seconds of each.
        title: The title above the lines.
    """

    curves: Mapping[str, tuple[Sequence[int], Sequence[float]]]
    title: str

    def legend(self, name: str) -> str:
        """A line's name and its slope: 1 if time grows as the input does.

        Args:
            name: The name.
        """
        return f"{name}: n^{exponent(*self.curves[name]):.2f}"


AXES = {
    "columns": "n x 32 columns, 1,000 rows",
    "partitions": "n x 16 partitions, 20,000 rows",
    "row_bytes": "rows of n x 160 KB",
}
"""The parts of `scaling` that are drawn as lines."""


def panels_of(figures: dict[str, Any]) -> list[list[Panel] | list[Curves]]:
    """Arrange the bars of a file of figures in rows of panels; empty for files of other programs.

    Args:
        figures: The figures that a program saved.
    """
    if "timings" in figures:
        return [[_of_timings(figures["timings"])]]
    parts = [name for name in ("table", "input", "cores", "files") if name in figures]
    curves = [_curves_of(figures[name], title) for name, title in AXES.items() if name in figures]
    if parts or curves:
        return [_of_part(name, figures[name]) for name in parts] + [[curve] for curve in curves]
    kinds = [kind for kind in ("growing", "random") if any(name.startswith(f"{kind} ") for name in figures)]
    return [_of_indexes(kind, figures) for kind in kinds]


def _of_timings(timings: Sequence[dict[str, Any]]) -> Panel:
    """A panel of timings; timings of the same work by different engines follow each other."""
    operations = [_operation(timing["name"]) for timing in timings]
    if len(set(operations)) < len(operations):
        first = {operation: operations.index(operation) for operation in operations}
        timings = sorted(timings, key=lambda timing: first[_operation(timing["name"])])
        ours = [
            operation for timing in timings if _is_ours(timing["name"]) for operation in [_operation(timing["name"])]
        ]
        known = {operation: place for place, operation in enumerate(ours)}
        timings = sorted(timings, key=lambda timing: known.get(_operation(timing["name"]), -1))
    return Panel([Bar.of_runs(t["name"], t["median_seconds"], t["seconds"]) for t in timings], SECONDS)


def _operation(name: str) -> str:
    return next((name.removeprefix(engine) for engine in ENGINES if name.startswith(engine)), name)


def _of_part(part: str, figures: dict[str, dict[str, Any]]) -> list[Panel]:
    """The panels of one part of `scaling`: seconds and memory."""
    seconds = [Bar.of_runs(name, figure["seconds"], figure["spread"]) for name, figure in figures.items()]
    memory = [
        Bar(name, figure["peak_mb"], tuple(figure["peak_spread_mb"]), f"{figure['peak_mb']:.0f}")
        for name, figure in figures.items()
    ]
    titles = {
        "table": "a growing table, the same upsert",
        "input": "a growing input, the same table",
        "cores": "one and two cores",
        "files": "planning on 10,000 base files",
    }
    title = titles[part]
    if part in ("table", "input") and len(figures) > 1:
        curves = _curves_of(figures, title)
        title += "\nCPU seconds " + ", ".join(curves.legend(name).removeprefix(": ") for name in curves.curves)
    return [Panel(seconds, "seconds", title), Panel(memory, "peak memory, MB")]


def _curves_of(figures: dict[str, dict[str, Any]], title: str) -> Curves:
    """The lines of one part of `scaling`, whose figures have names such as ``4x read``."""
    found: dict[str, tuple[list[int], list[float]]] = {}
    for name, figure in figures.items():
        factor, _, call = name.partition("x")
        call = call.strip()
        factors, seconds = found.setdefault(call, ([], []))
        factors.append(int(factor))
        seconds.append(figure["cpu_seconds"])
    return Curves(found, title)


def _of_indexes(kind: str, figures: dict[str, Any]) -> list[Panel]:
    """The panels of the indexes on one kind of keys: CPU seconds of the look-up and of the upsert."""
    found = {name.removeprefix(f"{kind} "): figure for name, figure in figures.items() if name.startswith(f"{kind} ")}

    def bars(figure_name: str) -> list[Bar]:
        values = {name: figure[figure_name] for name, figure in found.items()}
        return [Bar(name, value, (value, value), f"{value:.2f}") for name, value in values.items()]

    return [
        Panel(bars("planning_cpu"), "CPU seconds of the look-up", f"{kind} keys"),
        Panel(bars("upsert_cpu"), "CPU seconds of the upsert"),
    ]


def draw(path: Path) -> Path | None:
    """Draw one file of figures.

    Args:
        path: The JSON file.

    Returns:
        The chart; None if the kind of file is unknown.
    """
    figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    rows = panels_of(figures)
    if not rows:
        return None
    heights = [_height_of(row) for row in rows]
    figure = Figure(figsize=(9, 0.3 + sum(heights)), layout="constrained")
    for row, part in zip(
        rows, figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0], strict=True
    ):
        for place, (panel, axes) in enumerate(zip(row, part.subplots(1, len(row), squeeze=False)[0], strict=True)):
            if isinstance(panel, Curves):
                _draw_curves(panel, axes)
            else:
                _draw_panel(panel, axes, with_names=not place)
    given = figures.get("sizes") or {name: value for name, value in figures.items() if isinstance(value, int)}
    sizes = ", ".join(f"{name.replace('_', ' ')}: {value:,}" for name, value in given.items())
    title = f"{path.stem.replace('_', ' ')} ({sizes})\n{figures['machine']}\n{measured_commit(figures['machine'])}"
    figure.suptitle(title, fontsize=9, x=0.01, ha="left")
    chart = path.with_suffix(".svg")
    # Make the output reproducible: the same figures give the same bytes.
    mpl.rcParams["svg.hashsalt"] = path.stem
    figure.savefig(chart, metadata={"Date": None})
    return chart


def measured_commit(machine: str) -> str:
    """The commit that was measured and its day, in words.

    Args:
        machine: The text of `benchmarks.measure.describe_machine`; earlier ones lack the day, which git then tells.
    """
    found = _REVISION.search(machine)
    if found is None:
        return "measured at an unknown commit"
    revision, is_dirty, day = found["revision"], found["dirty"], found["day"]
    day = day or git("show", "-s", "--format=%cs", revision) or "an unknown day"
    return f"measured at commit {revision} of {day}" + (" with changes that were not committed" if is_dirty else "")


def _height_of(row: Sequence[Panel | Curves]) -> float:
    return max(3.2 if isinstance(panel, Curves) else 0.9 + 0.3 * len(panel.bars) for panel in row)


def _draw_curves(panel: Curves, axes: Axes) -> None:
    for name, (factors, seconds) in panel.curves.items():
        style = "--" if name.startswith("pyarrow") else "-"
        axes.loglog(factors, seconds, style, marker="o", label=panel.legend(name))
    factors = next(iter(panel.curves.values()))[0]
    axes.set_xticks(factors, [f"{factor} x" for factor in factors])
    axes.minorticks_off()
    axes.set_ylabel("CPU seconds")
    axes.set_title(panel.title, fontsize=9, loc="left")
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


def _draw_panel(panel: Panel, axes: Axes, with_names: bool) -> None:
    bars = panel.bars
    places = range(len(bars))
    below = [bar.value - bar.spread[0] for bar in bars]
    above = [bar.spread[1] - bar.value for bar in bars]
    axes.barh(
        places,
        [bar.value for bar in bars],
        xerr=[below, above],
        color=[_color(bar.name) for bar in bars],
        ecolor="#333333",
        height=0.7,
    )
    axes.set_yticks(places, [bar.name if with_names else "" for bar in bars])
    axes.invert_yaxis()
    axes.set_xlabel(panel.label)
    axes.set_title(panel.title, fontsize=9, loc="left")
    longest = max(bar.spread[1] for bar in bars) or 1.0
    axes.set_xlim(0, longest * 1.12)
    for place, bar in zip(places, bars, strict=True):
        axes.text(bar.spread[1] + longest * 0.01, place, bar.text, va="center", fontsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _is_ours(name: str) -> bool:
    return name.startswith("hoodie")


def _color(name: str) -> str:
    if "floor" in name or name.startswith("parquet"):
        return FLOOR
    peers = ("hudi", "deltalake", "duckdb", "lance")
    return OTHERS if name.startswith(peers) else OURS


def main() -> None:
    """Draw the given files, or all files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, default=sorted(FOLDER.glob("*.json")))
    for path in parser.parse_args().files:
        chart = draw(path)
        if chart is None:
            print(f"{path}: nothing is known of figures like these", file=sys.stderr)
        else:
            print(chart)


if __name__ == "__main__":
    main()

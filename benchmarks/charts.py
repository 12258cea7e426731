"""Charts of the figures that the other programs have saved: SVG and PNG beside each JSON file.

    python -m benchmarks.charts [docs/benchmarks/local_upsert.json ...]

Needs matplotlib (extra ``benchmarks``). A bar is a median, its line goes from the fastest to the slowest run.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

__all__ = ["draw"]

FOLDER = Path(__file__).parent.parent / "docs" / "benchmarks"
OURS, OTHERS, FLOOR = "#1f6f8b", "#b8bec6", "#5f6b7a"


def draw(path: Path) -> list[Path]:
    """Draw one file of figures, as `benchmarks.measure.write_json` writes it.

    Args:
        path: The JSON file.

    Returns:
        The charts.
    """
    figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    timings = figures["timings"]
    figure = Figure(figsize=(9, 1.2 + 0.3 * len(timings)), layout="constrained")
    axes = figure.add_subplot()
    medians = [timing["median_seconds"] for timing in timings]
    below = [median - min(timing["seconds"]) for median, timing in zip(medians, timings, strict=True)]
    above = [max(timing["seconds"]) - median for median, timing in zip(medians, timings, strict=True)]
    names = [timing["name"] for timing in timings]
    places = range(len(names))
    axes.barh(
        places, medians, xerr=[below, above], color=[_color(name) for name in names], ecolor="#333333", height=0.7
    )
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set_xlabel("seconds, median; the line shows the fastest and the slowest run")
    longest = max(max(timing["seconds"]) for timing in timings)
    axes.set_xlim(0, longest * 1.12)
    for place, timing in zip(places, timings, strict=True):
        axes.text(max(timing["seconds"]) + longest * 0.01, place, f"{timing['median_seconds']:.2f}", va="center")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    sizes = ", ".join(f"{name.replace('_', ' ')}: {value:,}" for name, value in figures["sizes"].items())
    figure.suptitle(f"{path.stem.replace('_', ' ')} ({sizes})\n{figures['machine']}", fontsize=9, x=0.01, ha="left")
    charts = [path.with_suffix(suffix) for suffix in (".svg", ".png")]
    # The same figures give the same bytes.
    mpl.rcParams["svg.hashsalt"] = path.stem
    figure.savefig(charts[0], metadata={"Date": None})
    figure.savefig(charts[1], dpi=110, metadata={"Software": None})
    return charts


def _color(name: str) -> str:
    if name.startswith("hoodie"):
        return OURS
    return FLOOR if "floor" in name or name.startswith("parquet") else OTHERS


def main() -> None:
    """Draw all files given, or all there are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, default=sorted(FOLDER.glob("*.json")))
    for path in parser.parse_args().files:
        if "timings" in json.loads(path.read_text(encoding="utf-8")):
            print(*draw(path))


if __name__ == "__main__":
    main()

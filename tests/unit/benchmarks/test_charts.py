"""Charts are drawn of what the benchmark programs save."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")

from benchmarks.charts import FOLDER, Curves, Panel, draw, measured_commit, panels_of

RUN = {"seconds": 2.0, "spread": [1.0, 3.0], "cpu_seconds": 2.0, "peak_mb": 200.0, "peak_spread_mb": [190.0, 210.0]}


def timing(name: str) -> dict[str, Any]:
    return {"name": name, "median_seconds": 2.0, "seconds": [1.0, 2.0, 4.0], "profile": []}


def test_what_engines_do_alike_stands_together() -> None:
    names = ["parquet bulk_insert", "hoodie bulk_insert", "hoodie upsert (BLOOM)", "hudi bulk_insert"]
    ((panel,),) = panels_of({"timings": [timing(name) for name in [*names, "hudi upsert (BLOOM)"]]})
    assert [bar.name for bar in panel.bars] == [
        "parquet bulk_insert",
        "hoodie bulk_insert",
        "hudi bulk_insert",
        "hoodie upsert (BLOOM)",
        "hudi upsert (BLOOM)",
    ]
    assert panel.bars[0].spread == (1.0, 4.0)


def test_other_timings_stay_in_their_order() -> None:
    names = ["pyarrow write (floor)", "hoodie upsert (SIMPLE)", "deltalake merge"]
    ((panel,),) = panels_of({"timings": [timing(name) for name in names]})
    assert [bar.name for bar in panel.bars] == names


@pytest.mark.parametrize(
    ("figures", "rows"),
    [
        ({"sizes": {"rows": 9}, "timings": [timing("a"), timing("b")]}, 1),
        ({"runs": 1, "unit_rows": 9, "table": {"1x first": RUN, "4x first": RUN}, "files": {"BLOOM first": RUN}}, 2),
        ({"runs": 1, "table": {"1x first": RUN}, "columns": {"1x write": RUN, "4x write": RUN}}, 2),
        (
            {
                "rows": 9,
                "growing SIMPLE": {"planning_cpu": 1.0, "upsert_cpu": 2.0},
                "random SIMPLE": {"planning_cpu": 0.0, "upsert_cpu": 0.0},
            },
            2,
        ),
        ({"planning": 3}, 0),
    ],
)
def test_a_file_of_figures_becomes_one_chart(tmp_path: Path, figures: dict[str, Any], rows: int) -> None:
    path = tmp_path / "figures.json"
    path.write_text(json.dumps({"machine": "m", **figures}))
    assert len(panels_of(figures)) == rows
    chart = draw(path)
    assert [file.name for file in tmp_path.iterdir() if file != path] == (["figures.svg"] if rows else [])
    assert chart == (tmp_path / "figures.svg" if rows else None)
    assert chart is None or chart.read_text(encoding="utf-8").lstrip().startswith("<?xml")


def test_a_chart_says_the_commit_that_was_measured_and_its_day(tmp_path: Path) -> None:
    told = "2 cores, Python 3.11.7, hoodie 263d2db0-dirty of 2026-11-22, pyarrow 26.0.1"
    said = "measured at commit 263d2db0 of 2026-11-22 with changes that were not committed"
    assert measured_commit(told) == said
    assert measured_commit(told.replace("-dirty", "")) == "measured at commit 263d2db0 of 2026-11-22"
    assert measured_commit("m") == "measured at an unknown commit"
    assert measured_commit("hoodie 0000000, pyarrow 26") == "measured at commit 0000000 of an unknown day"
    path = tmp_path / "figures.json"
    path.write_text(json.dumps({"machine": told, "sizes": {"rows": 9}, "timings": [timing("a")]}))
    chart = draw(path)
    assert chart is not None
    assert said in chart.read_text()


@pytest.mark.parametrize("chart", sorted(FOLDER.glob("*.svg")), ids=lambda path: path.name)
def test_the_charts_of_the_pages_say_their_age(chart: Path) -> None:
    assert "measured at commit " in chart.read_text(encoding="utf-8")


def test_lines_of_an_axis_name_their_exponent(tmp_path: Path) -> None:
    figures = {f"{factor}x read": RUN | {"cpu_seconds": 0.5 * factor**2} for factor in (1, 4, 16, 64)}
    ((curves,),) = panels_of({"columns": figures})
    assert isinstance(curves, Curves)
    assert curves.curves == {"read": ([1, 4, 16, 64], [0.5, 8, 128, 2048])}
    assert curves.legend("read") == "read: n^2.00"
    path = tmp_path / "scaling.json"
    path.write_text(json.dumps({"machine": "m", "columns": figures}))
    chart = draw(path)
    assert chart is not None
    assert "read: n^2.00" in chart.read_text()


def test_the_growth_of_table_and_input_is_named_above_their_bars() -> None:
    grown = {factor: RUN | {"cpu_seconds": 0.5 * factor} for factor in (1, 4)}
    table = {f"{factor}x {call}": figure for factor, figure in grown.items() for call in ("first", "second")}
    of_table, of_input = panels_of(
        {"table": table, "input": {f"{factor}x": figure for factor, figure in grown.items()}}
    )
    assert isinstance(of_table[0], Panel)
    assert isinstance(of_input[0], Panel)
    assert of_table[0].title.splitlines()[1] == "CPU seconds first: n^1.00, second: n^1.00"
    assert of_input[0].title.splitlines()[1] == "CPU seconds n^1.00"

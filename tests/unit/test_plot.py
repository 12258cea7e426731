"""Pictures and their numbers, and the notebook that shows them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

import hoodie
from hoodie import HoodieKey
from hoodie.exception import HoodieException, TableNotFoundException
from tests.support.notebook import run_cells
from tests.support.table_builder import init_table, local_client, rows

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture(autouse=True)
def _no_window() -> Iterator[None]:
    mpl.use("Agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1), ("c", "y", 1)))
        client.upsert(rows(("a", "x", 2), ("d", "z", 2)))
        client.delete([HoodieKey("b", "x")])
    return path


def test_commits_are_counted_and_drawn(path: str) -> None:
    found = hoodie.stats.commits(path).to_pylist()
    counts = [(row["rows_inserted"], row["rows_updated"], row["rows_deleted"]) for row in found]
    assert counts == [(3, 0, 0), (1, 1, 0), (0, 0, 1)]
    assert [row["operation"] for row in found] == ["UPSERT", "UPSERT", "DELETE"]
    assert all(row["time"].strftime("%Y%m%d%H%M%S") == row["instant_time"][:14] for row in found)
    axes = hoodie.plot.commits(path)
    bars = {container.get_label(): [bar.get_height() for bar in container] for container in axes.containers}
    assert bars == {"inserted": [3, 1, 0], "updated": [0, 1, 0], "deleted": [0, 0, -1]}
    assert axes.get_title().startswith("3 commits")
    (after,) = (found for found in axes.figure.axes if found is not axes)
    assert after.lines[0].get_ydata().tolist() == [3, 4, 3]
    assert [text.get_text() for text in axes.get_legend().get_texts()][-1] == "rows of the table"


def test_files_are_drawn_by_partition(path: str) -> None:
    found = hoodie.stats.file_sizes(path)
    assert sorted(found["partition_path"].to_pylist()) == ["x", "y", "z"]
    axes = hoodie.plot.file_sizes(path)
    drawn = {round(x, 9) for x, _ in axes.collections[0].get_offsets().tolist()}
    assert drawn == {round(size / (1 << 20), 9) for size in found["size_bytes"].to_pylist()}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x", "y", "z"]
    # Counts stand on the right; the lines are the defaults of hoodie.parquet.small.file.limit and max.file.size.
    assert [text.get_text() for text in axes.texts] == ["1", "1", "1"]
    assert [line.get_xdata()[0] for line in axes.lines] == [100.0, 120.0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["small below 100.0 MiB", "target 120.0 MiB"]
    axes.figure.draw_without_rendering()
    assert all(text.get_text().endswith("B") for text in axes.get_xticklabels())
    assert hoodie.plot.file_sizes(path, ax=axes) is axes


def test_partitions_with_dollars_are_shown_as_they_are(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.insert(rows(("a", r"$\frac{$", 1), ("b", "$b$", 1)))
    axes = hoodie.plot.file_sizes(path)
    axes.figure.draw_without_rendering()
    labels = axes.get_yticklabels()
    assert sorted(label.get_text() for label in labels) == [r"$\frac{$", "$b$"]
    assert not any(label.get_parse_math() for label in labels)


def test_a_table_without_rows_has_an_empty_picture(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    assert hoodie.stats.commits(path).num_rows == hoodie.stats.file_sizes(path).num_rows == 0
    assert hoodie.plot.commits(path).get_title().startswith("0 commits")
    hoodie.plot.file_sizes(path)
    with pytest.raises(TableNotFoundException):
        hoodie.plot.commits(str(tmp_path / "nowhere"))


def test_without_matplotlib_the_error_names_the_extra(path: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(HoodieException, match=r"pip install 'hoodie\[plot\]'.*hoodie\.stats"):
            hoodie.plot.commits(path)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_prints_and_draws_what_it_shows(notebook: Path) -> None:
    stored: dict[str, Any] = json.loads(notebook.read_text(encoding="utf-8"))
    shown = [cell["outputs"] for cell in stored["cells"] if cell["cell_type"] == "code"]
    for (printed, picture), outputs in zip(run_cells(stored), shown, strict=True):
        texts = ["".join(output["text"]) for output in outputs if output["output_type"] == "stream"]
        assert "".join(texts) == printed
        assert (picture is not None) == any("image/png" in output.get("data", {}) for output in outputs)

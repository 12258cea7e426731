"""Pictures of a table, drawn with matplotlib; `hoodie.stats` gives the numbers below them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie import stats
from hoodie.common.util.shown_table import plural
from hoodie.exception import HoodieException
from hoodie.storage.storage_options import StorageOptions

_KINDS = (("rows_inserted", "inserted", "#1f6f8b"), ("rows_updated", "updated", "#e0a458"))
_DELETED = ("rows_deleted", "deleted", "#b23a48")
_MAX_PARTITIONS = 40
_MIB = 1 << 20


def commits(base_path: str, *, storage_options: StorageOptions | None = None, ax: Any = None) -> Any:
    """Draw the rows that each commit of the active timeline inserted, updated and deleted, over time.

    Deleted rows are drawn downwards. Commits stand side by side, in their order.

    Args:
        base_path: The table's folder.
        storage_options: Options of the storage.
        ax: The matplotlib axes to draw on; None makes a figure.

    Returns:
        The axes (`matplotlib.axes.Axes`).

    Raises:
        HoodieException: matplotlib is not installed; or see `hoodie.stats.commits`.
    """
    found = stats.commits(base_path, storage_options=storage_options)
    axes = _axes(ax)
    places = np.arange(found.num_rows)
    below = np.zeros(found.num_rows)
    for name, label, color in _KINDS:
        heights = _numbers(found, name)
        axes.bar(places, heights, bottom=below, label=label, color=color)
        below = below + heights
    name, label, color = _DELETED
    axes.bar(places, -_numbers(found, name), label=label, color=color)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.margins(y=0.1)
    step = max(1, -(-found.num_rows // 12))
    times = pc.strftime(found["time"], "%Y-%m-%d\n%H:%M:%S").to_pylist()
    axes.set_xticks(places[::step], times[::step], fontsize="small")
    axes.set_ylabel("rows")
    axes.set_title(f"{plural(found.num_rows, 'commit')} (times in UTC)")
    axes.legend(frameon=False)
    return axes


def file_sizes(base_path: str, *, storage_options: StorageOptions | None = None, ax: Any = None) -> Any:
    """Draw the size of each file group's newest slice, by partition.

    Each dot is a file group. Of more than 40 partitions the largest are drawn; the title says how many there are.

    Args:
        base_path: The table's folder.
        storage_options: Options of the storage.
        ax: The matplotlib axes to draw on; None makes a figure.

    Returns:
        The axes (`matplotlib.axes.Axes`).

    Raises:
        HoodieException: matplotlib is not installed; or see `hoodie.stats.file_sizes`.
    """
    found = stats.file_sizes(base_path, storage_options=storage_options)
    axes = _axes(ax)
    totals = found.group_by("partition_path").aggregate([("size_bytes", "sum")]).to_pylist()
    largest = sorted(totals, key=lambda row: -row["size_bytes_sum"])[:_MAX_PARTITIONS]
    shown = sorted(row["partition_path"] for row in largest)
    row_of = {partition: len(shown) - 1 - number for number, partition in enumerate(shown)}
    kept = found.filter(pc.is_in(found["partition_path"], value_set=pa.array(shown, pa.string())))
    heights = [row_of[partition] for partition in kept["partition_path"].to_pylist()]
    axes.margins(0.08)
    axes.scatter(_numbers(kept, "size_bytes") / _MIB, heights, color=_KINDS[0][2], alpha=0.7)
    labels = [partition or "(no partitions)" for partition in shown]
    # A $ in a partition path begins no formula.
    axes.set_yticks([row_of[partition] for partition in shown], labels, parse_math=False)
    axes.set_xlim(0, axes.get_xlim()[1] * 1.02)
    axes.set_xlabel("MiB")
    of = f" of {len(totals)}" if len(totals) > len(shown) else ""
    axes.set_title(
        f"{plural(kept.num_rows, 'file group')} in {len(shown)}{of} {'partition' if len(shown) == 1 else 'partitions'}"
    )
    return axes


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        # Not installed everywhere.
        from matplotlib import pyplot
    except ImportError as error:
        raise HoodieException(
            f"hoodie.plot needs matplotlib ({error}): pip install 'hoodie[plot]'; hoodie.stats gives the numbers "
            "without it"
        ) from error
    return pyplot.subplots(figsize=(9, 4), layout="constrained")[1]


def _numbers(table: pa.Table, name: str) -> Any:
    return table[name].fill_null(0).to_numpy()

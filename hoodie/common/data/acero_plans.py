"""Small plans of Arrow's query engine.

`pyarrow.acero`, which makes the classes of plans public, imports datasets and pandas, and so do
`pyarrow.Table.filter` with an expression and `pyarrow.Table.group_by`. That takes longer than the rest of hoodie.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

try:
    from pyarrow._acero import AggregateNodeOptions, Declaration, FilterNodeOptions, TableSourceNodeOptions
except ImportError:
    # A release of pyarrow whose private module has other names.
    from pyarrow.acero import AggregateNodeOptions, Declaration, FilterNodeOptions, TableSourceNodeOptions


def rows_passing(table: pa.Table, expression: pc.Expression) -> pa.Table:
    """The rows of a table that pass a filter, in their order, computed on this thread.

    Args:
        table: The rows.
        expression: The filter.

    Raises:
        pa.ArrowException: The filter does not fit the rows.
    """
    source = Declaration("table_source", TableSourceNodeOptions(table))
    filtered = Declaration("filter", FilterNodeOptions(expression), inputs=[source])
    return filtered.to_table(use_threads=False)


def aggregated(
    table: pa.Table, keys: Sequence[str], aggregations: Sequence[tuple[str | None, str]], *, use_threads: bool
) -> pa.Table:
    """One row for each group of rows with equal keys, as `pyarrow.TableGroupBy.aggregate` gives it.

    Args:
        table: The rows.
        keys: The columns to group by, at least one.
        aggregations: A column, None for none, and the name of a function: ``("fare", "sum")``, ``(None, "count_all")``.
        use_threads: Whether other threads may take part.

    Returns:
        The keys, then a column for each aggregation: ``fare_sum``, ``count_all``.
    """
    aggregates = [
        ([], f"hash_{function}", None, function)
        if column is None
        else ([column], f"hash_{function}", None, f"{column}_{function}")
        for column, function in aggregations
    ]
    source = Declaration("table_source", TableSourceNodeOptions(table))
    grouped = Declaration("aggregate", AggregateNodeOptions(aggregates, keys=list(keys)), inputs=[source])
    return grouped.to_table(use_threads=use_threads)

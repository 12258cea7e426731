"""The changes of a table as a `pyarrow.dataset.Dataset`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hoodie.exception import HoodieNotSupportedException
from hoodie.query.arrow_reader import scan
from hoodie.query.change_plan import ChangePlan
from hoodie.query.dataset import Columns, HoodieDataset
from hoodie.query.table_query import Filters, to_expression


class HoodieChangeDataset(HoodieDataset):
    """The changes of a plan as a dataset. Columns and filters of scans are those of changes, such as ``op``.

    Args:
        plan: The plan of the changes.
        condition: The filter of changes; None for all.
    """

    def __init__(self, plan: ChangePlan, condition: pc.Expression | None = None) -> None:
        self._open((), plan.result_schema, plan.snapshot.storage, can_scan_files=False)
        self.changes = plan
        self._condition = condition

    def __reduce__(self) -> tuple[Any, ...]:
        return HoodieChangeDataset, (self.changes, self._condition)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.changes!r}>"

    def filter(self, expression: Filters) -> HoodieChangeDataset:
        """The dataset with a filter on top of its present ones."""
        return HoodieChangeDataset(self.changes, self._with(expression))

    def replace_schema(self, schema: pa.Schema) -> HoodieChangeDataset:
        """Refuse: choose columns in scans.

        Raises:
            HoodieNotSupportedException: Always.
        """
        raise HoodieNotSupportedException("replace_schema of changes: choose columns in to_table() or scanner()")

    def get_fragments(self, filter: Filters = None) -> Iterator[ds.Fragment]:
        """Refuse: files do not hold changes as rows.

        Raises:
            HoodieNotSupportedException: Always.
        """
        raise HoodieNotSupportedException("changes have no fragments: call to_table(), to_batches() or scanner()")

    def scanner(self, columns: Columns = None, filter: Filters = None, **options: Any) -> ds.Scanner:
        """A scan of the changes; see `HoodieDataset.scanner`."""
        known = {"batch_size": options["batch_size"]} if options.get("batch_size") else {}
        chosen = columns if columns is None or isinstance(columns, dict) else list(columns)
        return ds.Scanner.from_batches(scan(self.changes), columns=chosen, filter=self._with(filter), **known)

    def count_rows(self, filter: Filters = None, **options: Any) -> int:
        """The number of changes."""
        return int(self.scanner(["op"], filter, **options).count_rows())

    def _with(self, filter: Filters) -> pc.Expression | None:
        more = to_expression(filter)
        return more if self._condition is None else self._condition if more is None else self._condition & more

"""The plan of a query of changes, as a value: the tasks that read them, and the begin of the next query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import attrs
import pyarrow as pa

from hoodie.common.config.property import display_value
from hoodie.common.table.cdc.cdc_inference_case import HoodieCDCInferenceCase
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.shown_table import ShownTable, format_bytes, plural
from hoodie.config.read_config import ChangeForm
from hoodie.query.change_task import HUDI_COLUMNS, ChangeContext, ChangeReadTask, ChangeTask
from hoodie.query.read_task import packed
from hoodie.query.table_query import TableQuery

_CASES = {
    HoodieCDCInferenceCase.AS_IS: "stored changes",
    HoodieCDCInferenceCase.BASE_FILE_INSERT: "inserts, all rows of new files",
    HoodieCDCInferenceCase.BASE_FILE_DELETE: "deletes, all rows of file groups that were left without rows",
    HoodieCDCInferenceCase.LOG_FILE: "log files, compared with the rows before them",
    HoodieCDCInferenceCase.REPLACE_COMMIT: "deletes, all rows of replaced file groups",
    HoodieCDCInferenceCase.ROWS_OF_COMMIT: "inserts into files with older rows, of which no change was stored",
    HoodieCDCInferenceCase.BASE_FILE_COMPARE: "files of which no change was stored, compared with those before them",
    HoodieCDCInferenceCase.STATE_COMPARE: "file groups at the begin and at the end, compared",
}


def _unknown() -> None:
    return None


def _size_of(task: ChangeTask) -> int:
    return task.size_bytes


@attrs.frozen(eq=False, repr=False)
class ChangePlan:
    """The plan of a query of changes. The set of files is fixed.

    Attributes:
        snapshot: The table when the plan was made.
        query: The query.
        context: The settings of its tasks.
        tasks: The parts, in the order of their changes.
        next_begin: The begin of the next query, which misses no change and repeats none; None for a table without
            commits.
        is_compared: Whether the table stores no changes, so that the states at the begin and at the end are compared. A
            change that came and went between them is not seen then.
        read_at: The range in words.
        form: The form of the result.
        find_earliest: Gives the earliest time at which a range can begin.
    """

    snapshot: TableSnapshot
    query: TableQuery
    context: ChangeContext
    tasks: tuple[ChangeTask, ...]
    next_begin: str | None
    is_compared: bool
    read_at: str
    form: ChangeForm = ChangeForm.TYPED
    find_earliest: Callable[[], str | None] = attrs.field(default=_unknown)

    @property
    def schema(self) -> pa.Schema:
        """The columns of changes in the typed form."""
        return self.context.result_schema

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of the result with their types."""
        return self.context.result_schema if self.form is ChangeForm.TYPED else HUDI_COLUMNS

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the result."""
        return tuple(self.result_schema.names)

    @property
    def base_path(self) -> str:
        """The table's folder."""
        return self.snapshot.base_path

    @property
    def size_bytes(self) -> int:
        """The size of the files that are read; those that several tasks read count several times."""
        return sum(task.size_bytes for task in self.tasks)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes, in the order of the plan, on this thread.

        Raises:
            HoodieException: See `ChangeTask.batches`.
        """
        yield from ChangeReadTask(self.context, self.tasks, self.form).batches()

    def read_tasks(self) -> list[ChangeReadTask]:
        """The tasks, small ones put together, in the order of the plan."""
        return [ChangeReadTask(self.context, tasks, self.form) for tasks in packed(self.tasks, _size_of)]

    def explain(self) -> str:
        """The plan as text: where the changes come from, with the number and the size of the files.

        The earliest time at which a range can begin is looked up for this.

        Raises:
            HoodieException: See `hoodie.query.change_planner.earliest_begin`.
        """
        return self._shown(self.find_earliest()).to_text()

    def __repr__(self) -> str:
        return self._shown().to_text()

    def _repr_html_(self) -> str:
        return self._shown().to_html()

    def _shown(self, earliest: str | None = None) -> ShownTable:
        tasks, sizes = Counter(task.case for task in self.tasks), Counter[HoodieCDCInferenceCase]()
        for task in self.tasks:
            sizes[task.case] += task.size_bytes
        rows = [(text, tasks[case], format_bytes(sizes[case])) for case, text in _CASES.items() if tasks[case]]
        notes = [f"next: begin at {self.next_begin}"] if self.next_begin is not None else []
        if earliest is not None:
            notes.append(f"ranges can begin at {earliest} or later")
        if self.is_compared:
            notes.append(
                "the table stores no changes: its states at the begin and at the end are compared, and a change that "
                "came and went between them is not seen"
            )
        if self.context.row_filter is not None:
            notes.append(f"changes: {self.context.row_filter.described}, before or after")
        if len(self.context.columns) < len(self.context.schema) - 5:
            notes.append(f"columns: {', '.join(self.context.columns)}")
        partitions = len({task.partition_path for task in self.tasks})
        path = display_value("hoodie.base.path", self.base_path)
        return ShownTable(
            ("changes", "parts", "size"),
            rows,
            len(rows),
            title=(f"changes of {path}, {self.read_at}, in {plural(partitions, 'partition')}",),
            notes=tuple(notes),
            max_cell_width=80,
        )

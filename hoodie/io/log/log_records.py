"""The records in log files of a file slice: rows, and deletes.

Hudi: org.apache.hudi.common.model.DeleteRecord, and the records of HoodieDataBlock.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa


@attrs.frozen(eq=False)
class LogRows:
    """Consecutive rows of one data block.

    A row may ask for the delete of its key, by ``_hoodie_is_deleted`` or a marker: the merge decides about that.

    Attributes:
        instant_time: The instant that wrote the block.
        rows: The rows, in the wanted columns and types. Columns that the block lacks are null.
        partial_columns: The columns of the block, if it is one of a partial update: stored rows keep their values in
            all other columns. None for a block of whole rows.
        positions: The position of each row in the base file; None if the block has none.
        positions_of: The instant of that base file; the positions hold only for this one. None without positions.
    """

    instant_time: str
    rows: pa.RecordBatch
    partial_columns: frozenset[str] | None = None
    positions: npt.NDArray[np.int64] | None = None
    positions_of: str | None = None


@attrs.frozen(eq=False)
class LogDeletes:
    """Consecutive records of one delete block, whose ordering values have one type.

    Attributes:
        instant_time: The instant that wrote the block.
        record_keys: The keys (string, without nulls).
        partition_paths: The partitions (string); null where the writer left them out.
        ordering: The ordering values in the type of the writer; null for a hard delete, which wins against all older
            rows. Of type null if all are hard deletes. Several ordering fields make a struct with the fields "0", "1"
            and so on, as in `hoodie.merge.ordering_values`.
        positions: See `LogRows`.
        positions_of: See `LogRows`.
        fields_in_millis: Dotted paths of the fields whose times are stored in milliseconds in the writer's rows. Their
            ordering values are in milliseconds, too, if they are plain numbers. Other times are in microseconds.
    """

    instant_time: str
    record_keys: pa.StringArray
    partition_paths: pa.StringArray
    ordering: pa.Array
    positions: npt.NDArray[np.int64] | None = None
    positions_of: str | None = None
    fields_in_millis: frozenset[str] = frozenset()


LogEntries = LogRows | LogDeletes
"""The values that a scan of log files yields."""

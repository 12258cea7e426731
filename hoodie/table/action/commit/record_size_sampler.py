"""Find out how many bytes a record takes on storage before the first file is written.

Hudi has an option for the first commit of a table (``hoodie.copyonwrite.record.size.estimate``): when records have
another size, so do the files. Here some rows of the input are encoded in memory instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs
import pyarrow as pa

from hoodie.common.fs.file_names import make_file_id, new_file_id_prefix
from hoodie.common.model.record_columns import PARTITION_PATH
from hoodie.engine.data import HoodieData
from hoodie.engine.task_identity import TaskIdentity
from hoodie.execution.insert_handler import upserts_only
from hoodie.io.create_handle import HoodieCreateHandle
from hoodie.io.write_context import WriteContext

SAMPLED_ROWS = 1 << 15
"""Rows of each partition of the input that are encoded."""
SAMPLED_BYTES = 32 << 20
"""Arrow bytes at which a sample ends, whatever its rows."""

_SCHEMA = pa.schema([pa.field("rows", pa.int64()), pa.field("bytes", pa.int64())])


def measure_record_size(records: HoodieData, context: WriteContext) -> int | None:
    """Bytes of a record on storage, judged by the first rows of each partition of the input. An action.

    Args:
        records: Batches in flight, persisted or cheap to compute.
        context: The write.

    Returns:
        None when there are no rows.
    """
    samples = records.map_partitions_with_index(_Sampler(context), _SCHEMA).collect()
    assert samples is not None
    rows, size = sum(samples["rows"].to_pylist()), sum(samples["bytes"].to_pylist())
    return math.ceil(size / rows) if rows else None


@attrs.frozen
class _Sampler:
    """Encodes the first rows of a partition of the input."""

    context: WriteContext

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sample: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            piece = upserts_only(batch.slice(0, SAMPLED_ROWS - rows))
            sample.append(piece)
            rows += piece.num_rows
            size += piece.nbytes
            if rows >= SAMPLED_ROWS or size >= SAMPLED_BYTES:
                break
        if not rows:
            return
        joined = pa.Table.from_batches(sample).combine_chunks().to_batches()[0]
        file_id = make_file_id(new_file_id_prefix(), 0)
        handle = HoodieCreateHandle(self.context, joined.column(PARTITION_PATH)[0].as_py(), file_id, task)
        measured = pa.array([handle.measure(joined)], pa.int64())
        yield pa.RecordBatch.from_arrays([pa.array([joined.num_rows], pa.int64()), measured], schema=_SCHEMA)

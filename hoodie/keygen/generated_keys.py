"""Record keys for tables that have no record key fields.

Hudi: org.apache.hudi.keygen.{AutoRecordGenWrapperKeyGenerator, AutoRecordGenWrapperAvroKeyGenerator}.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.record_columns import RECORD_KEY, ROW_IDENTITY
from hoodie.keygen.base_key_generator import KeyGenerator, KeyProblem

_NEW = "__hoodie_new_row_"


@attrs.frozen(kw_only=True)
class AutoRecordGenWrapperKeyGenerator(KeyGenerator):
    """Partition paths are those of another generator; the record key marks a row as a new one.

    The stored key is made by the task that writes the row, see `GeneratedKeys`: only then is it known which of several
    computations of the row counts. The mark holds what `HoodieData.identify_rows` gives, so that rows that are
    computed again go to the same task.

    Attributes:
        paths: Makes the partition paths.

    Hudi: org.apache.hudi.keygen.AutoRecordGenWrapperKeyGenerator. Differs: Hudi makes keys where the input is read, so
        a part of the input that is read again in another order brings other keys for its rows.
    """

    paths: KeyGenerator

    @classmethod
    def of(cls, paths: KeyGenerator) -> AutoRecordGenWrapperKeyGenerator:
        """The generator with the partition paths of another one, which has no record key fields."""
        return cls(
            record_key_fields=(),
            partition_fields=paths.partition_fields,
            hive_style=paths.hive_style,
            url_encode=paths.url_encode,
            consistent_timestamps=paths.consistent_timestamps,
            paths=paths,
        )

    @property
    def generates_keys(self) -> bool:
        return True

    @property
    def has_plain_paths(self) -> bool:
        return self.paths.has_plain_paths

    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        """The marks of rows.

        Args:
            batch: The column `ROW_IDENTITY`.
        """
        return pc.binary_join_element_wise(pa.scalar(_NEW), batch.column(ROW_IDENTITY), "")

    def partition_paths(self, batch: pa.RecordBatch) -> pa.StringArray:
        return self.paths.partition_paths(batch)

    def bind(self, schema: pa.Schema) -> KeyGenerator:
        """See `KeyGenerator.bind`; the columns of the partition path are looked for."""
        self.paths.bind(schema)
        return self

    def problems(self, batch: pa.RecordBatch) -> Iterator[KeyProblem]:
        """See `KeyGenerator.problems`: those of partition paths, because every row gets a key."""
        yield from self.paths.path_problems(batch)


@attrs.define
class GeneratedKeys:
    """The record keys of new rows in one task: ``<instant>_<task number>_<row number>``, as Hudi makes them.

        20261127130150558_0_11   instant, number of the task, number of the new row in the task, from 0

    Attributes:
        instant_time: The instant of the write.
        task_number: A number that only one task of the write has whose files count.
    """

    instant_time: str
    task_number: int
    _count: int = 0

    def of_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with keys instead of marks; rows that brought the key of a stored row keep it.

        Args:
            rows: Rows with a record key, which may be null.
        """
        place = rows.schema.get_field_index(RECORD_KEY)
        keys = rows.column(place)
        is_new = are_new(keys)
        count = is_new.true_count
        if not count:
            return rows
        numbers = pa.array(np.arange(self._count, self._count + count)).cast(pa.string())
        self._count += count
        made = pc.binary_join_element_wise(pa.scalar(f"{self.instant_time}_{self.task_number}_"), numbers, "")
        keys = made if count == len(keys) else pc.replace_with_mask(keys, is_new, made)
        return rows.set_column(place, rows.schema.field(place), keys)


def are_new(keys: pa.Array | pa.ChunkedArray) -> pa.BooleanArray | pa.ChunkedArray:
    """Whether record keys mark new rows, whose keys are not made yet (bool, never null).

    Args:
        keys: Record keys of a table whose keys are generated.
    """
    return pc.fill_null(pc.starts_with(keys, _NEW), False)

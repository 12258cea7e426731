"""The index BLOOM over all partitions: a key is unique in the whole table.

Hudi: org.apache.hudi.index.bloom.HoodieGlobalBloomIndex.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import HoodieBaseFile
from hoodie.common.model.record_columns import PARTITION_PATH, RECORD_KEY
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.index.bloom.bloom_index_helper import BloomIndexHelper
from hoodie.index.index import IndexedTable
from hoodie.index.simple.global_simple_index import HoodieGlobalSimpleIndex, StoredColumns, files_with_copies
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage.storage import HoodieStorage

__all__ = ["HoodieGlobalBloomIndex"]


class HoodieGlobalBloomIndex(HoodieGlobalSimpleIndex):
    """Looks keys up in all partitions, as `hoodie.index.bloom.bloom_index.HoodieBloomIndex` does in one.

    A record whose key lives in another partition moves or stays by ``hoodie.bloom.index.update.partition.path``, as
    with GLOBAL_SIMPLE. The first write of a client reads the footer of every file of the table.

    Hudi: org.apache.hudi.index.bloom.HoodieGlobalBloomIndex.
    """

    def __init__(self, config: HoodieWriteConfig) -> None:
        super().__init__(config, config.index.bloom_update_partition_path)
        self._helper = BloomIndexHelper(config.index)

    def _find(
        self, keys: pa.Table, context: HoodieEngineContext, table: IndexedTable, stored: StoredColumns
    ) -> list[pa.Table]:
        files = table.files
        record_keys = keys[RECORD_KEY].combine_chunks()
        located = self._helper.find(files, [""] * len(files), {"": record_keys}, context, table)
        nothing = pa.schema([("key", pa.string()), ("position", pa.int64())]).empty_table()
        found = [pa.table({"key": k, "position": rows}) if len(k) else nothing for k, rows in located]
        if not stored.names:
            return found
        homes = keys[PARTITION_PATH].combine_chunks()
        moving = {
            number
            for number, (partition_path, _) in enumerate(files)
            if found[number].num_rows and _any_moves(found[number], partition_path, record_keys, homes)
        }
        moving.update(files_with_copies(found, files))
        wanted = sorted(moving)
        items = [(files[number][1].path, located[number][1]) for number in wanted]
        values = dict(zip(wanted, context.run_tasks(items, _ReadStored(table.storage, stored)), strict=True))
        schema = pa.schema(stored.fields)
        nothing = _with_columns(nothing, None, schema)
        return [
            _with_columns(part, values.get(number), schema) if part.num_rows else nothing
            for number, part in enumerate(found)
        ]

    def _files_to_join(
        self, records: HoodieData, keys: pa.Table | None, context: HoodieEngineContext, table: IndexedTable
    ) -> Sequence[tuple[str, HoodieBaseFile]]:
        """Files that hold some of the keys; where keys are too many, files whose key range can."""
        files = table.files
        if keys is None:
            return [files[number] for number in self._helper.search(files, records, context, table, True).files]
        by_group = {"": keys[RECORD_KEY].combine_chunks()}
        found = self._helper.find(files, [""] * len(files), by_group, context, table)
        return [file for file, (held, _) in zip(files, found, strict=True) if len(held)]


@attrs.frozen
class _ReadStored:
    """Task: the stored columns of some rows of a file."""

    storage: HoodieStorage
    stored: StoredColumns

    def __call__(self, task: TaskIdentity, item: tuple[str, np.ndarray]) -> pa.Table:
        path, positions = item
        with HoodieParquetReader(self.storage, path) as reader:
            return self.stored.read(reader).take(pa.array(positions))


def _any_moves(found: pa.Table, partition_path: str, keys: pa.Array, homes: pa.Array) -> bool:
    """Whether a key of a file comes with another partition path than the file's, or with several."""
    own = homes.take(pc.index_in(found["key"].combine_chunks(), value_set=keys))
    stays = pc.fill_null(pc.equal(own, partition_path), False)
    return pc.all(stays).as_py() is False


def _with_columns(found: pa.Table, values: pa.Table | None, schema: pa.Schema) -> pa.Table:
    for field in schema:
        column = pa.nulls(found.num_rows, field.type) if values is None else values[field.name]
        found = found.append_column(field.name, column)
    return found

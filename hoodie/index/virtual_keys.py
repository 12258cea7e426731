"""Look keys up in a table that stores none (``hoodie.populate.meta.fields=false``): they are made from its columns.

The columns of the record key are read in every base file of the partitions that keys come with, or of the whole table,
because such files have neither key ranges nor bloom filters.

Hudi: its simple indexes do so if they are given a key generator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
import pyarrow as pa

from hoodie.common.model.field_path import top_level_name
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import RECORD_KEY
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext, Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieNotSupportedException
from hoodie.index.index import IndexedTable
from hoodie.index.index_report import Decision, FileGroupLook
from hoodie.index.simple.global_simple_index import HoodieGlobalSimpleIndex
from hoodie.index.simple.simple_index import HoodieSimpleIndex
from hoodie.index.stored_keys import (
    LOCATION_SCHEMA,
    NOTHING_FOUND,
    FoundKeys,
    StoredColumns,
    StoredValues,
    keys_among,
    located_keys,
)
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.storage.storage import HoodieStorage


class VirtualKeyIndex(HoodieSimpleIndex):
    """Looks a key up in its partition.

    Args:
        config: The configuration.
        key_generator: The table's.
    """

    searches_slices = False

    def __init__(self, config: HoodieWriteConfig, key_generator: KeyGenerator) -> None:
        super().__init__(config)
        self._key_generator = key_generator

    def _find(
        self, keys: Mapping[str, pa.Array], groups: Sequence[str], context: HoodieEngineContext, table: IndexedTable
    ) -> list[FoundKeys]:
        return _find_made_keys(keys, groups, self._key_generator, context, table)

    def _stored_keys(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        table.work.note_all(table.slices, Decision.KEY_CHECK)
        made = _MadeKeys(table.storage, self._key_generator, table.records.schema)
        return context.generate(table.slices, _MadeLocations(made), LOCATION_SCHEMA)


class GlobalVirtualKeyIndex(HoodieGlobalSimpleIndex):
    """Looks a key up in all partitions.

    Args:
        config: The configuration.
        key_generator: The table's.
    """

    searches_slices = False

    def __init__(self, config: HoodieWriteConfig, key_generator: KeyGenerator) -> None:
        super().__init__(config, update_partition_path=False)
        self._key_generator = key_generator

    def _find(
        self, keys: pa.Table, stored: StoredColumns, context: HoodieEngineContext, table: IndexedTable
    ) -> tuple[list[FoundKeys], StoredValues]:
        incoming = {"": keys[RECORD_KEY].combine_chunks()}
        return _find_made_keys(incoming, [""] * len(table.slices), self._key_generator, context, table), {}

    def _join(
        self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable, keys: pa.Table | None
    ) -> HoodieData:
        raise HoodieNotSupportedException(
            f"{table.base_path} stores no record keys (hoodie.populate.meta.fields=false), and so many keys cannot be "
            "looked up in all of its partitions at once: look them up in parts, or without a global index"
        )


def _find_made_keys(
    keys: Mapping[str, pa.Array],
    groups: Sequence[str],
    key_generator: KeyGenerator,
    context: HoodieEngineContext,
    table: IndexedTable,
) -> list[FoundKeys]:
    """The keys that each slice holds; see `hoodie.index.stored_keys.find_in_key_columns`."""
    shared = context.share(keys)
    try:
        look_up = _LookUpMadeKeys(_MadeKeys(table.storage, key_generator, table.records.schema), shared)
        looked_up = context.run_tasks(list(zip(groups, table.slices, strict=True)), look_up)
    finally:
        shared.release()
    for _, look in looked_up:
        table.work.note(look)
    return [found for found, _ in looked_up]


@attrs.frozen
class _MadeKeys:
    """Makes the keys of the rows of a base file.

    Attributes:
        storage: The storage of the files.
        key_generator: The table's.
        schema: The table's columns.
    """

    storage: HoodieStorage
    key_generator: KeyGenerator
    schema: pa.Schema

    def read(self, file_slice: FileSlice) -> tuple[pa.ChunkedArray, int]:
        """The keys (string) in the order of the rows, and the number of row groups."""
        generator, columns = self.key_generator, None
        if not generator.reads_all_columns:
            columns = [*dict.fromkeys(top_level_name(self.schema, field) for field in generator.record_key_fields)]
        with HoodieParquetReader(self.storage, file_slice.sole_base_file.path) as reader:
            keys = [generator.record_keys(batch) for batch in reader.iter_batches(columns, self.schema)]
            return pa.chunked_array(keys, pa.string()), reader.num_row_groups


@attrs.frozen
class _LookUpMadeKeys:
    """Task: find the incoming keys of a group in a slice."""

    made: _MadeKeys
    keys: Shared

    def __call__(self, task: TaskIdentity, item: tuple[str, FileSlice]) -> tuple[FoundKeys, FileGroupLook]:
        group, file_slice = item
        keys = self.keys.value.get(group)
        look = FileGroupLook(file_slice.partition_path, file_slice.file_id, Decision.KEY_CHECK, found=0)
        if keys is None:
            return NOTHING_FOUND, look
        stored, row_groups = self.made.read(file_slice)
        found = keys_among(stored, keys)
        look = attrs.evolve(
            look, keys=len(keys), found=len(found[0]), row_groups=row_groups, row_groups_read=row_groups
        )
        return found, look


@attrs.frozen
class _MadeLocations:
    """Task: the keys of one slice with their locations."""

    made: _MadeKeys

    def __call__(self, task: TaskIdentity, file_slice: FileSlice) -> Iterator[pa.RecordBatch]:
        keys, _ = self.made.read(file_slice)
        rows = keys.is_valid().combine_chunks().to_numpy(zero_copy_only=False).nonzero()[0]
        if len(rows):
            yield from located_keys(file_slice, keys.drop_null(), rows)

"""Read the keys that file slices hold, and their locations, for all indexes over base files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.key_blocks import distinct_keys
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import PARTITION_PATH, RECORD_KEY, reserved_field
from hoodie.common.util.arrow_buffers import indices_of, numbers_of
from hoodie.engine.engine_context import HoodieEngineContext, Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.index.global_tagging import STORED_PREFIX
from hoodie.index.index import IndexedTable, KeyLocations, keys_by_partition_path, with_location_columns
from hoodie.index.index_report import Decision, FileGroupLook
from hoodie.io.key_lookup_handle import HoodieKeyLookupHandle
from hoodie.io.parquet.key_search import find_keys
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.keygen.base_key_generator import field_column
from hoodie.storage.storage import HoodieStorage

SHARED_KEY_BYTES = 64 << 20
"""Up to this many Arrow bytes of incoming keys every task gets all of them; above, the engine joins."""
BATCH_ROWS = 1 << 16
LOCATION_SCHEMA = with_location_columns(pa.schema([reserved_field(RECORD_KEY), reserved_field(PARTITION_PATH)]))
"""The schema of the locations of keys."""

FoundKeys = tuple[pa.Array, np.ndarray]
"""The incoming keys that a slice holds (string), and their row positions (int64). A key may occur several times."""
StoredValues = dict[int, list[pa.ChunkedArray]]
"""The stored columns of the keys that were found in a slice, by the number of the slice."""
# Not by pa.array, which loads pandas.
NOTHING_FOUND: FoundKeys = (pa.nulls(0, pa.string()), np.zeros(0, dtype=np.int64))


def keys_by_partition(keys: pa.Table) -> dict[str, pa.Array]:
    """Partition path to its distinct incoming keys.

    Args:
        keys: Record key and partition path.
    """
    batch = pa.record_batch({name: keys[name].combine_chunks() for name in (RECORD_KEY, PARTITION_PATH)})
    return {path: distinct_keys(found) for path, _, found in keys_by_partition_path(batch)}


def find_in_key_columns(
    keys: Mapping[str, pa.Array],
    groups: Sequence[str],
    context: HoodieEngineContext,
    table: IndexedTable,
    stored: StoredColumns | None = None,
    homes: pa.Array | None = None,
) -> tuple[list[FoundKeys], StoredValues]:
    """Find the keys in the key column of each slice, and note every slice on ``table.work``.

    The stored columns of a slice are read in the same task if one of its keys comes with another partition path.

    Args:
        keys: Distinct keys (string) by the name of their group.
        groups: The group of keys to look for, for each slice of the table.
        context: The engine.
        table: The table.
        stored: The stored columns; None for no columns.
        homes: The partition path that each key of the only group comes with; needed for stored columns.

    Returns:
        The keys of each slice, and the stored columns that were read.
    """
    shared = context.share((keys, homes))
    try:
        look_up = _LookUpKeys(table.storage, shared, stored or StoredColumns())
        looked_up = context.run_tasks(list(zip(groups, table.slices, strict=True)), look_up)
    finally:
        shared.release()
    for _, _, look in looked_up:
        table.work.note(look)
    values = {number: columns for number, (_, columns, _) in enumerate(looked_up) if columns is not None}
    return [found for found, _, _ in looked_up], values


def keys_among(stored: pa.Array | pa.ChunkedArray, keys: pa.Array) -> FoundKeys:
    """The incoming keys that are among the stored keys, and their positions there.

    Args:
        stored: The stored keys (string).
        keys: Distinct incoming keys (string).
    """
    entries, positions = find_keys(stored, keys)
    return keys.take(indices_of(entries)), positions


def gather_locations(slices: Sequence[FileSlice], found: Sequence[FoundKeys]) -> KeyLocations:
    """Put the keys that were found into one value.

    Args:
        slices: The slices that were searched.
        found: For each slice the keys that it holds.
    """
    schema = pa.schema([("key", pa.string()), ("file", pa.int32()), ("position", pa.int64())])
    parts: dict[str, list[pa.Table]] = {}
    for number, (file_slice, (keys, positions)) in enumerate(zip(slices, found, strict=True)):
        if len(keys):
            file = numbers_of(np.full(len(keys), number, dtype=np.int32), pa.int32())
            part = pa.Table.from_arrays([keys, file, indices_of(positions)], schema=schema)
            parts.setdefault(file_slice.partition_path, []).append(part)
    tables = {partition_path: pa.concat_tables(tables).combine_chunks() for partition_path, tables in parts.items()}
    return KeyLocations(tables, [file_slice.location for file_slice in slices])


@attrs.frozen
class StoredColumns:
    """Columns of stored records that a merge needs; a dotted name names a field of a struct.

    Attributes:
        names: The names of the columns.
        schema: The table's columns.
    """

    names: tuple[str, ...] = ()
    schema: pa.Schema = attrs.field(factory=lambda: pa.schema([]))

    @property
    def fields(self) -> list[pa.Field]:
        """Their fields, with the prefix."""
        empty = pa.RecordBatch.from_pylist([], schema=self._read_schema)
        return [pa.field(STORED_PREFIX + name, field_column(empty, name).type) for name in self.names]

    @property
    def _read_schema(self) -> pa.Schema:
        tops = dict.fromkeys(n if n in self.schema.names else n.partition(".")[0] for n in self.names)
        return pa.schema([self.schema.field(name).with_nullable(True) for name in tops])

    @property
    def top_level_names(self) -> list[str]:
        """The columns that hold them."""
        return list(self._read_schema.names)

    def columns_of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Their values in the rows of a batch.

        Args:
            batch: Rows with the columns `top_level_names`.
        """
        return [field_column(batch, name) for name in self.names]

    def read(self, reader: HoodieParquetReader) -> pa.Table:
        """The values of all rows of a file."""
        schema = pa.schema(self.fields)
        batches = [
            pa.RecordBatch.from_arrays(self.columns_of(batch), schema=schema)
            for batch in reader.iter_batches(None, self._read_schema)
        ]
        return pa.Table.from_batches(batches, schema)


@attrs.frozen
class ReadStored:
    """Task: read the stored columns of rows of a slice."""

    storage: HoodieStorage
    stored: StoredColumns

    def __call__(self, task: TaskIdentity, item: tuple[FileSlice, np.ndarray]) -> pa.Table:
        file_slice, positions = item
        with HoodieParquetReader(
            self.storage, file_slice.sole_base_file.path, size_bytes=file_slice.sole_base_file.size_bytes
        ) as reader:
            return self.stored.read(reader).take(indices_of(positions))


@attrs.frozen
class _LookUpKeys:
    """Task: find the incoming keys of a group in a slice, and read their stored columns if one of the keys moves.

    Attributes:
        storage: The storage of the files.
        keys: A pair: keys by the name of their group, and the partition paths that they come with.
        stored: The stored columns.
    """

    storage: HoodieStorage
    keys: Shared
    stored: StoredColumns

    def __call__(
        self, task: TaskIdentity, item: tuple[str, FileSlice]
    ) -> tuple[FoundKeys, list[pa.ChunkedArray] | None, FileGroupLook]:
        group, file_slice = item
        by_group, homes = self.keys.value
        keys = by_group.get(group)
        look = FileGroupLook(file_slice.partition_path, file_slice.file_id, Decision.KEY_CHECK, found=0)
        if keys is None:
            return NOTHING_FOUND, None, look
        matches = HoodieKeyLookupHandle(self.storage, file_slice.key_file.path, file_slice.key_file.size_bytes).lookup(
            keys
        )
        indices, positions, columns = indices_of(matches.key_indices), matches.row_positions, None
        look = attrs.evolve(
            look, keys=len(keys), found=len(indices), row_groups=matches.row_groups, row_groups_read=matches.row_groups
        )
        if self.stored.names:
            stays = pc.fill_null(pc.equal(homes.take(indices), file_slice.partition_path), False)
            if not pc.all(stays, min_count=0).as_py():
                columns = ReadStored(self.storage, self.stored)(task, (file_slice, positions)).columns
        return (keys.take(indices), positions), columns, look


@attrs.frozen
class StoredKeys:
    """Task: read the keys of one slice, with their locations and stored columns.

    Attributes:
        storage: The storage of the files.
        schema: The schema of the batches: record key, partition path, the three CURRENT columns, then the stored ones.
        stored: The stored columns.
        keys: A shared table of the keys that are wanted; None for all keys.
    """

    storage: HoodieStorage
    schema: pa.Schema = LOCATION_SCHEMA
    stored: StoredColumns = attrs.field(factory=StoredColumns)
    keys: Shared | None = None

    def __call__(self, task: TaskIdentity, file_slice: FileSlice) -> Iterator[pa.RecordBatch]:
        # Stored columns come from merged records, keys from the base file.
        base_file = file_slice.sole_base_file if self.stored.names else file_slice.key_file
        with HoodieParquetReader(self.storage, base_file.path, size_bytes=base_file.size_bytes) as reader:
            if self.keys is None:
                keys = reader.read_record_keys()
                positions = np.arange(len(keys), dtype=np.int64)
            else:
                wanted = self.keys.value[RECORD_KEY].combine_chunks()
                entries, positions = reader.find_record_keys(wanted)
                keys = wanted.take(indices_of(entries))
            if not len(positions):
                return
            columns = self.stored.read(reader).take(indices_of(positions)).columns if self.stored.names else []
        yield from located_keys(file_slice, keys, positions, self.schema, columns)


def located_keys(
    file_slice: FileSlice,
    keys: pa.Array | pa.ChunkedArray,
    positions: np.ndarray,
    schema: pa.Schema = LOCATION_SCHEMA,
    more: Sequence[pa.ChunkedArray] = (),
) -> Iterator[pa.RecordBatch]:
    """Keys of a slice with their locations.

    Args:
        file_slice: The slice.
        keys: Keys of the slice.
        positions: Their row positions.
        schema: See `StoredKeys`.
        more: Further columns.
    """
    count, location = len(positions), file_slice.location
    columns = [
        keys,
        pa.repeat(file_slice.partition_path, count),
        pa.repeat(location.instant_time, count),
        pa.repeat(location.file_id, count),
        pa.array(positions),
        *more,
    ]
    yield from pa.Table.from_arrays(columns, schema=schema).to_batches(max_chunksize=BATCH_ROWS)

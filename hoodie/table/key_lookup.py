"""Look up where the keys of some rows are stored, for reading; nothing is written.

As in an upsert, the keys come to the driver if they fit, and their index names the locations, which tasks then attach
to the rows. Otherwise the engine joins. A look-up differs from an upsert's: no record moves to another partition, and
each location has the row's position, so that the stored row can be read.

In a file slice with log files only merging tells which keys are stored: an index that reads base files looks there
whatever the configured one is, and rows of the slice are read by their keys, not by positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.column_values import ColumnValues
from hoodie.common.data.grouped_rows import group_by, take_rows
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    CURRENT_ROW_POSITION,
    OPERATION,
    PARTITION_PATH,
    PARTITION_PATH_META,
    RECORD_KEY,
    RECORD_KEY_META,
    ROW_NUMBER,
    reserved_field,
)
from hoodie.common.model.unprepared_rows import SAMPLED_BAD_ROWS, failure_of
from hoodie.common.util.arrow_buffers import flags_in, indices_of, numbers_in, scalar_of
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieException, HoodieKeyException
from hoodie.index.index import (
    HashedKeys,
    HoodieIndex,
    IndexedRecords,
    IndexedTable,
    IndexNotes,
    Locations,
    SnapshotListing,
    TagRequest,
    keys_by_partition_path,
    match_keys,
    with_location_columns,
)
from hoodie.index.index_report import IndexWork
from hoodie.index.stored_keys import keys_by_partition
from hoodie.index.virtual_keys import GlobalVirtualKeyIndex, VirtualKeyIndex
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.merged_log_records import LogMergeRules
from hoodie.io.merging_reader import LogMerging
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.table.action.commit.incoming_keys import IncomingKeys, collect_keys
from hoodie.table.action.commit.record_preparer import RecordPreparer
from hoodie.table.missing_files import check_files, known_partitions
from hoodie.table.named_file_groups import NamedFileGroups, named_file_groups
from hoodie.table.table import HoodieTable

EXISTS = "exists"
EXISTENCE_SCHEMA = pa.schema([(RECORD_KEY_META, pa.string()), (PARTITION_PATH_META, pa.string()), (EXISTS, pa.bool_())])
"""The columns that say whether keys are stored."""
_LOCATION = (CURRENT_INSTANT_TIME, CURRENT_FILE_ID, CURRENT_ROW_POSITION)
_KEY = (RECORD_KEY, PARTITION_PATH)
_PLACE = (PARTITION_PATH, CURRENT_FILE_ID, CURRENT_ROW_POSITION)
_MERGED_PLACE = (*_PLACE, RECORD_KEY)
"""The same where slices have log files: there, keys name rows."""
_READ_TASKS_PER_CORE = 4
_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)
_Wanted: TypeAlias = npt.NDArray[np.int64] | pa.Array
"""Rows of the base file from 0, ascending and distinct; of a slice with log files, distinct record keys."""
_UNUSABLE = "Their record key is null, empty or NaN, or their partition path cannot be made."
_CHANGED = (
    "the input was read twice, for its keys and for its rows, and the second reading gave keys that the first one did "
    "not, so they were not looked up. Write the input to a table, or call checkpoint() or cache() on it, and give that"
)


@attrs.frozen
class KeyedInput:
    """A caller's rows, and what makes their keys.

    Attributes:
        rows: The caller's columns; see `RecordPreparer` for rows that bring their keys.
        columns: The columns that keys are made of.
        preparer: Makes record keys and partition paths of these columns.
    """

    rows: HoodieData
    columns: Sequence[str]
    preparer: RecordPreparer

    @property
    def keys(self) -> HoodieData:
        """Record key, partition path and operation of each row."""
        return self.rows.select(self.columns).map_batches(self.preparer, self.preparer.output_schema())


@attrs.frozen(eq=False)
class LookedUpKeys:
    """The keys that were looked up, and their locations; tasks share it.

    Attributes:
        keys: Partition path to the distinct keys that were looked up there.
        locations: The locations of the keys.
    """

    keys: Mapping[str, pa.Array]
    locations: Locations
    _hashed: dict[str, HashedKeys] = attrs.field(factory=dict, init=False, repr=False)

    def tag(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """See `Locations.tag`.

        Raises:
            HoodieException: A key of the batch was not looked up.
        """
        for path, _, keys in keys_by_partition_path(batch):
            known = self.keys.get(path)
            if known is None or (match_keys(keys, known, self._hashed, path)[1] < 0).any():
                raise HoodieException(_CHANGED)
        return self.locations.tag(batch)


class KeyLookup:
    """The look-up of the keys of some rows in a table.

    The index is asked when an object is made; what the methods return may be lazy, so nobody can tell when tasks have
    no more use for the values that they share: an engine frees them with the last result.

    Args:
        table: The table, loaded for this look-up.
        given: The rows.
        exact: Finds the positions of keys, if the index only names file groups, or is a user's.
        key_generator: Makes the keys of stored rows, if the table stores none.
        is_index_chosen: Whether the caller has chosen the index; otherwise the record index may be asked first, see
            `hoodie.table.named_file_groups`.

    Raises:
        HoodieKeyException: Rows have no usable key.
        HoodieIOException: Base files are missing, or storage failed.
    """

    def __init__(
        self,
        table: HoodieTable,
        given: KeyedInput,
        exact: HoodieIndex,
        key_generator: KeyGenerator | None,
        *,
        is_index_chosen: bool = True,
    ) -> None:
        self._table = table
        self._given = given
        self._exact = exact
        self._index = _index_of(table, key_generator)
        metrics = table.metrics
        with metrics.step("read the input and its keys") as step:
            keys = collect_keys(given.keys)
            counts = keys.count_by_partition() if keys is not None else given.keys.count_by([PARTITION_PATH])
            self._refuse_unusable(counts)
            step.count(records=sum(counts["count"].to_pylist()))
        self._paths = frozenset(counts[PARTITION_PATH].to_pylist())
        named = None
        if keys is not None and key_generator is None:
            named = named_file_groups(table, keys.table, is_chosen=is_index_chosen)
        with metrics.step("list base files") as step:
            slices = self._latest_file_slices(named)
            step.count(files=sum(map(len, slices.values())))
        self._merging = None
        if named is not None:
            self._index = exact
        if not all(file_slice.is_base_file_alone for group in slices.values() for file_slice in group):
            self._merging = _log_merging(table, key_generator)
            if key_generator is None and not self._index.names_file_groups:
                self._index = exact
        self._indexed = IndexedTable(
            table.snapshot.storage,
            slices,
            table.snapshot.base_path,
            IndexedRecords(
                table.snapshot.load_schema() if table.snapshot.load_avro_schema() is not None else pa.schema([]),
                table.record_key_fields,
                log_merging=self._merging,
            ),
            TagRequest(
                pending_instants=table.snapshot.active_timeline.filter_pending().times,
                exact=True,
                stays=True,
                reads_only=True,
            ),
            SnapshotListing(table.snapshot),
            IndexNotes(metrics=metrics),
        )
        self._keys: IncomingKeys | None = None
        self._locations: Locations | None = None
        if keys is not None and self._index.decides_by_keys(self._indexed):
            with metrics.step("tag location", table.config.index.index_name) as step:
                self._keys, self._locations = keys, self._find_locations(keys.table)
                step.count(files=len(self._indexed.slices))

    @property
    def work(self) -> IndexWork:
        """The work of the index: what it judges and reads."""
        return self._indexed.work

    @property
    def locations_for_write(self) -> Locations | None:
        """The locations of the keys, if an upsert with this index would find the same ones; else None.

        Global indexes decide besides whether rows move, and rows in log files have no positions.
        """
        is_same = self._index is self._table.index and not self._index.is_global and self._merging is None
        return self._locations if is_same and self._gives_positions else None

    def existence(self) -> HoodieData:
        """Each row's key and whether it is stored, in `EXISTENCE_SCHEMA` and in the order of the rows.

        An engine that has to join gives them in no order.
        """
        is_global = self._index.is_global
        rows = self._given.rows.select(self._given.columns)
        if self._locations is not None:
            return rows.map_batches(_Existence(self._locate(self._locations), is_global), EXISTENCE_SCHEMA)
        tagged = self._joined(rows).select([*_KEY, ROW_NUMBER, CURRENT_INSTANT_TIME])
        once = tagged.combine_by_key([RECORD_KEY] if is_global else list(_KEY), _first_of_rows)
        return once.map_batches(_ExistenceOfJoined(is_global), EXISTENCE_SCHEMA)

    def not_stored(self) -> HoodieData:
        """The rows whose key is not stored, as they were given."""
        rows = self._given.rows
        schema = pa.schema([field for field in rows.schema if field.name not in _LOCATION])
        if self._locations is not None:
            return rows.map_batches(_NotStored(self._locate(self._locations), tuple(schema.names)), schema)
        joined = self._joined(rows)
        return joined.map_batches(_without_location, joined.schema).select(schema.names)

    def located(self) -> HoodieData:
        """The rows with their keys and locations: a row for each location, a row of nulls for a key that is not stored.

        The columns are record key and partition path, those of the input, then the three CURRENT ones. If the index is
        global, the partition path is the one where the key is stored.
        """
        rows = self._given.rows
        columns = [field for field in rows.schema if field.name not in (*_KEY, *_LOCATION)]
        schema = with_location_columns(pa.schema([*EXISTENCE_SCHEMA.remove(2), *columns]))
        if self._locations is not None:
            return rows.map_batches(_Located(self._locate(self._locations), schema), schema)
        names = [*_KEY, *schema.names[2:]]
        return self._joined(rows).select(names).map_batches(_Renamed(schema), schema)

    def stored_rows(self, schema: pa.Schema, columns: Sequence[str]) -> HoodieData:
        """The stored rows with the keys, each once, in no order.

        Args:
            schema: The table's columns, meta columns included.
            columns: The columns to read.
        """
        context = self._table.context
        result = pa.schema([schema.field(name) for name in columns])
        read = _ReadRows(HoodieReaderContext(self._indexed.storage, schema, log_merging=self._merging), result)
        wanted = _PLACE if self._merging is None else _MERGED_PLACE
        if self._keys is not None and self._locations is not None:
            found = _with_location(_tagged(self._locations, self._keys.table)).select(wanted)
            return context.generate(list(_places(found, self._indexed.slices)), read, result)
        joined = self._joined(self._given.rows.select(self._given.columns))
        places = joined.map_batches(_with_location, joined.schema).select(wanted)
        count = max(1, min(len(self._indexed.slices), _READ_TASKS_PER_CORE * context.default_parallelism))
        shared = self._indexed.notes.share(context, self._indexed.slices)
        moved = places.repartition_by([PARTITION_PATH, CURRENT_FILE_ID], count)
        return moved.map_partitions_with_index(_ReadPlaces(shared, read), result)

    def _refuse_unusable(self, counts: pa.Table) -> None:
        """Refuse rows whose key or partition path cannot be made; the counts have them without a partition path."""
        count = sum(counts.filter(counts[PARTITION_PATH].is_null())["count"].to_pylist())
        if not count:
            return
        given = self._given
        rows = given.rows.select(given.columns)
        bad = rows.map_batches(_BadRows(given.preparer), rows.schema).collect()
        why, generator = _UNUSABLE, given.preparer.key_generator
        if bad is not None and bad.num_rows and generator is not None:
            why = generator.explain_bad_rows(bad.slice(0, SAMPLED_BAD_ROWS).combine_chunks().to_batches()[0])
        raise HoodieKeyException(f"{count} of the records to look up have no usable key. {why}")

    def _latest_file_slices(self, named: NamedFileGroups | None) -> dict[str, Sequence[FileSlice]]:
        """The latest slices in which keys are looked for; those of their partitions that commits name must be there.

        Args:
            named: The places that may have the keys, if they are known.
        """
        table = self._table
        table.snapshot.load_avro_schema()
        wanted = known_partitions(table.snapshot, table.view)
        if named is not None:
            wanted = [path for path in wanted if path in named.partition_paths]
        elif not self._index.is_global:
            wanted = [path for path in wanted if path in self._paths]
        slices = table.latest_file_slices(sorted(set(table.view.list_partitions()).intersection(wanted)))
        check_files(table.snapshot, table.view, wanted)
        return slices if named is None else named.chosen(slices, table.snapshot.base_path)

    def _find_locations(self, keys: pa.Table) -> Locations:
        """The locations of keys, with row positions."""
        context, index, indexed = self._table.context, self._index, self._indexed
        if self._gives_positions:
            return index.find_locations(keys, context, indexed)
        by_name = attrs.evolve(indexed, request=attrs.evolve(indexed.request, exact=False))
        named = _tagged(index.find_locations(keys, context, by_name), keys)
        groups = {*zip(*(_with_location(named)[name].to_pylist() for name in _PLACE[:2]), strict=True)}
        slices = [part for part in indexed.slices if (part.partition_path, part.file_id) in groups]
        return self._exact.find_locations(keys, context, indexed.narrowed_to(slices))

    @property
    def _gives_positions(self) -> bool:
        """Whether the index gives positions that need no check."""
        placement = self._index.record_placement(self._indexed.records.record_key_fields)
        return placement.knows_positions and not placement.verifies_positions

    def _locate(self, locations: Locations) -> _Locate:
        """The task that attaches locations to rows."""
        assert self._keys is not None
        looked_up = LookedUpKeys(keys_by_partition(self._keys.table), locations)
        shared = self._indexed.notes.share(self._table.context, looked_up)
        return _Locate(self._given.preparer, tuple(self._given.columns), shared)

    def _joined(self, rows: HoodieData) -> HoodieData:
        """Rows, numbered, with their keys and locations, which the engine joins; see `HoodieIndex.tag_location`."""
        keyed = _WithKeys(
            self._given.preparer, tuple(self._given.columns), None if self._index.is_global else self._paths
        )
        numbered = rows.map_batches(keyed, keyed.schema_of(rows.schema)).number_rows(ROW_NUMBER)
        with self._table.metrics.step("tag location", self._table.config.index.index_name) as step:
            step.count(files=len(self._indexed.slices))
            index = self._index if self._gives_positions else self._exact
            return index.tag_location(numbered, self._table.context, self._indexed)


def _index_of(table: HoodieTable, key_generator: KeyGenerator | None) -> HoodieIndex:
    """The index that finds keys in the table's files: the configured one, if the table stores keys."""
    if key_generator is None:
        return table.index
    kind = GlobalVirtualKeyIndex if table.index.is_global else VirtualKeyIndex
    return kind(table.config, key_generator)


def _keys_of(preparer: RecordPreparer, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Record key, partition path and operation of each row.

    Raises:
        HoodieException: A key cannot be made, which the first reading of the input did not show.
    """
    keys = preparer(batch)
    if keys.column(PARTITION_PATH).null_count:
        raise failure_of(keys.filter(keys.column(PARTITION_PATH).is_null())) or HoodieException(_CHANGED)
    return keys


def _tagged(locations: Locations, keys: pa.Table) -> pa.Table:
    """Keys with their locations."""
    batches = [locations.tag(batch) for batch in keys.combine_chunks().to_batches()]
    return pa.Table.from_batches(batches, with_location_columns(keys.schema))


def _with_location(rows: _Rows) -> _Rows:
    """The tagged rows whose key is stored."""
    return rows.filter(rows.column(CURRENT_INSTANT_TIME).is_valid())


def _without_location(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The tagged rows whose key is not stored."""
    return rows.filter(rows.column(CURRENT_INSTANT_TIME).is_null())


def _log_merging(table: HoodieTable, key_generator: KeyGenerator | None) -> LogMerging:
    """The rule by which the log files of a table are merged."""
    schema = table.snapshot.load_schema()
    merger = table.merge_spec.merger
    return LogMerging.of_table(
        table.snapshot, schema, table.config.log_merge, merger=merger, key_generator=key_generator
    )


def _places(found: pa.Table, slices: Sequence[FileSlice]) -> Iterator[tuple[FileSlice, _Wanted]]:
    """The slices that hold some keys, and the rows of these keys; of a slice with log files, the keys.

    Args:
        found: The columns `_PLACE`, or `_MERGED_PLACE` if slices have log files.
        slices: The table's.
    """
    by_group = {(file_slice.partition_path, file_slice.file_id): file_slice for file_slice in slices}
    is_merged = pc.less(found[CURRENT_ROW_POSITION], scalar_of(0))
    for rows, name in (
        (found.filter(pc.invert(is_merged)), CURRENT_ROW_POSITION),
        (found.filter(is_merged), RECORD_KEY),
    ):
        if not rows.num_rows:
            continue
        grouped = group_by(rows, _PLACE[:2], [(name, "list")])
        paths, file_ids = (grouped[column].to_pylist() for column in _PLACE[:2])
        for path, file_id, values in zip(paths, file_ids, grouped[f"{name}_list"], strict=True):
            file_slice = by_group[path, file_id]
            yield (
                file_slice,
                values.values.unique() if name == RECORD_KEY else np.unique(numbers_in(values.values, np.int64)),
            )


@attrs.frozen
class _BadRows:
    """Task: the rows whose key or partition path cannot be made."""

    preparer: RecordPreparer

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = self.preparer(batch)
        bad = keys.column(PARTITION_PATH).is_null()
        failure = failure_of(keys.filter(bad))
        if failure is not None:
            raise failure
        return batch.filter(bad)


@attrs.frozen
class _Locate:
    """Attaches locations to the keys of rows.

    Attributes:
        preparer: Makes the keys.
        columns: The columns that keys are made of.
        looked_up: The shared `LookedUpKeys`.
    """

    preparer: RecordPreparer
    columns: tuple[str, ...]
    looked_up: Shared

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        """For each location of each row, and for each row without one: key and location, and the row's number."""
        keys = _keys_of(self.preparer, batch.select(self.columns))
        numbers = indices_of(np.arange(keys.num_rows))
        looked_up: LookedUpKeys = self.looked_up.value
        tagged = looked_up.tag(keys.append_column(reserved_field(ROW_NUMBER), numbers))
        return tagged, tagged.column(ROW_NUMBER).to_numpy()


@attrs.frozen
class _Existence:
    """Task: the keys of a batch, and whether they are stored."""

    locate: _Locate
    is_global: bool

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        tagged, numbers = self.locate(batch)
        # All locations of a row follow each other.
        first = np.flatnonzero(np.diff(numbers, prepend=-1))
        return _existence(tagged.take(indices_of(first)), self.is_global)


@attrs.frozen
class _ExistenceOfJoined:
    """Task: the same, of rows that have one location at most."""

    is_global: bool

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return _existence(batch, self.is_global)


def _existence(tagged: pa.RecordBatch, is_global: bool) -> pa.RecordBatch:
    exists = tagged.column(CURRENT_INSTANT_TIME).is_valid()
    paths = tagged.column(PARTITION_PATH)
    if is_global:
        # The key alone was looked for, so the path that the row came with says nothing.
        paths = pc.if_else(exists, paths, scalar_of(None, pa.string()))
    return pa.RecordBatch.from_arrays([tagged.column(RECORD_KEY), paths, exists], schema=EXISTENCE_SCHEMA)


def _first_of_rows(rows: pa.Table) -> pa.Table:
    """Each row of the input once, of joined rows."""
    _, first = np.unique(rows[ROW_NUMBER].to_numpy(), return_index=True)
    return rows.take(indices_of(first))


@attrs.frozen
class _NotStored:
    """Task: the rows of a batch whose key is not stored."""

    locate: _Locate
    columns: tuple[str, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        tagged, numbers = self.locate(batch)
        is_new = flags_in(tagged.column(CURRENT_INSTANT_TIME).is_null())
        return take_rows(batch.select(self.columns), indices_of(numbers[is_new]))


@attrs.frozen
class _Located:
    """Task: the rows of a batch with their keys and locations."""

    locate: _Locate
    schema: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        tagged, numbers = self.locate(batch)
        rows = take_rows(batch.select(self.schema.names[2 : -len(_LOCATION)]), indices_of(numbers))
        columns = [*(tagged.column(name) for name in _KEY), *rows.columns, *_locations_of(tagged)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


@attrs.frozen
class _Renamed:
    """Task: a batch with locations, with other names of its columns."""

    schema: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [*batch.columns[: -len(_LOCATION)], *_locations_of(batch)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _locations_of(tagged: pa.RecordBatch) -> list[pa.Array]:
    """The locations of tagged rows; the position is null where only the file group is known."""
    *others, positions = (tagged.column(name) for name in _LOCATION)
    is_known = pc.greater_equal(positions, 0)
    return [*others, pc.if_else(is_known, positions, scalar_of(None, positions.type))]


@attrs.frozen
class _WithKeys:
    """Task: rows with record key, partition path and operation.

    Attributes:
        preparer: Makes the keys.
        columns: The columns that keys are made of.
        paths: The partition paths that the first reading of the input gave; None if others do no harm.
    """

    preparer: RecordPreparer
    columns: tuple[str, ...]
    paths: frozenset[str] | None

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the result.

        Args:
            schema: The schema of the rows.
        """
        added = [*_KEY, *([] if OPERATION in schema.names else [OPERATION])]
        kept = [field for field in schema if field.name not in (*_KEY, *_LOCATION)]
        return pa.schema([*kept, *map(reserved_field, added)])

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = _keys_of(self.preparer, batch.select(self.columns))
        if self.paths is not None and not self.paths.issuperset(keys.column(PARTITION_PATH).unique().to_pylist()):
            raise HoodieException(_CHANGED)
        schema = self.schema_of(batch.schema)
        own = [name for name in batch.schema.names if name not in (*_KEY, *_LOCATION)]
        columns = [batch.column(name) if name in own else keys.column(name) for name in schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


@attrs.frozen
class _ReadRows:
    """Task: read some rows of a slice.

    Attributes:
        context: The context of the reader.
        result: The columns to read.
    """

    context: HoodieReaderContext
    result: pa.Schema

    def __call__(self, task: TaskIdentity, place: tuple[FileSlice, _Wanted]) -> Iterator[pa.RecordBatch]:
        file_slice, wanted = place
        if isinstance(wanted, np.ndarray):
            context = attrs.evolve(self.context, columns=self.result.names)
            found = HoodieFileGroupReader(context, file_slice).take(wanted)
        else:
            found = self._of_keys(file_slice, wanted)
        for batch in found:
            yield batch.cast(self.result) if batch.schema != self.result else batch

    def _of_keys(self, file_slice: FileSlice, keys: pa.Array) -> Iterator[pa.RecordBatch]:
        """The rows of some keys of a slice with log files."""
        merging = self.context.log_merging
        assert merging is not None
        rules = LogMergeRules(merging.merge_spec, self.context.schema, merging.key_generator)
        columns = list(dict.fromkeys([*self.result.names, *rules.key_columns]))
        searched = ColumnValues(RECORD_KEY_META, keys) if merging.key_generator is None else None
        context = attrs.evolve(self.context, columns=columns, searched=searched)
        for batch in HoodieFileGroupReader(context, file_slice).iter_batches():
            rows = batch.filter(pc.is_in(rules.keys_of(batch), value_set=keys))
            if rows.num_rows:
                yield rows.select(self.result.names)


@attrs.frozen
class _ReadPlaces:
    """Task: read the rows that are stored at the places of a partition.

    Attributes:
        slices: A shared list of the table's slices.
        read: Reads them.
    """

    slices: Shared
    read: _ReadRows

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = _PLACE if self.read.context.log_merging is None else _MERGED_PLACE
        found = pa.Table.from_batches(batches, pa.schema([reserved_field(name) for name in names]))
        for place in _places(found, self.slices.value):
            yield from self.read(task, place)

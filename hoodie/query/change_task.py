"""The parts of a plan of changes that tasks read, each in a process of its own.

The changes of a file group come from stored change data, or from two states of its rows::

    state before   state after   changes
    a1 b1 c1       a1 b2 d1      delete of c1, update of b1 to b2, insert of d1

Only rows that commits between the states wrote can be inserts or updates; their commit times tell. So few rows of
large files are compared. A row that was written again without a change is no change.

Hudi: org.apache.hudi.cdc.CDCFileGroupIterator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.column_values import ColumnValues
from hoodie.common.data.equal_rows import equal_rows
from hoodie.common.data.grouped_rows import take_rows
from hoodie.common.data.json_texts import json_texts
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.model.file_slice import FileSlice, HoodieLogFile
from hoodie.common.model.record_columns import COMMIT_TIME_META, META_COLUMN_SET, RECORD_KEY_META
from hoodie.common.table.cdc.cdc_inference_case import HoodieCDCInferenceCase
from hoodie.common.table.cdc.cdc_operation import HoodieCDCOperation
from hoodie.common.table.cdc.cdc_schemas import AFTER, BEFORE, OP, RECORD_KEY_FIELD, TIME
from hoodie.common.table.timeline.instant_range import InstantRange
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.common.util.arrow_buffers import booleans_of, flags_in, numbers_of
from hoodie.config.read_config import ChangeForm
from hoodie.exception import HoodieCorruptedDataException, HoodieMissingFileException
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.key_lookup_handle import HoodieKeyLookupHandle
from hoodie.io.log.cdc_block import decode_cdc_block
from hoodie.io.log.log_block import HoodieLogBlockType
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.io.log.log_file_reader import open_log_file
from hoodie.io.log.log_record_scanner import HoodieLogRecordScanner
from hoodie.io.log.log_records import LogRows
from hoodie.io.log_row_store import concat_rows
from hoodie.io.merging_reader import LogMerging
from hoodie.io.parquet.key_search import KeyMatcher
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import parent

COMMIT_TIME: Final = COMMIT_TIME_META
"""The column of the commit of a change in the typed form: its requested time."""
HUDI_COLUMNS: Final = pa.schema([(name, pa.string()) for name in (OP, TIME, BEFORE, AFTER)])
"""The columns of changes in Hudi's form: the rows are JSON, of the form of `json_texts`."""
_CHUNK_BYTES = 64 << 20
"""The most bytes of new rows whose older values are looked up at the same time, about."""
_KEYS_AT_ONCE = 1 << 18
"""The most keys of log files whose rows are looked up at the same time."""
_INSERT, _UPDATE, _DELETE = HoodieCDCOperation.INSERT, HoodieCDCOperation.UPDATE, HoodieCDCOperation.DELETE


class ChangePart(StrEnum):
    """The changes of a task: all, or one part, so that all deletes of a commit can come before its other changes."""

    ALL = "all"
    DELETES = "deletes"
    WRITES = "writes"


def changes_in_form(batch: pa.RecordBatch, form: ChangeForm) -> pa.RecordBatch:
    """Changes of the typed form in a form.

    Args:
        batch: The changes.
        form: The form.
    """
    if form is ChangeForm.TYPED:
        return batch
    op, times, before, after = batch.columns
    images = [
        pc.if_else(image.is_valid(), json_texts(image), pa.scalar(None, pa.string())) for image in (before, after)
    ]
    return pa.RecordBatch.from_arrays([op, times, *images], schema=HUDI_COLUMNS)


@attrs.frozen(eq=False)
class SliceState:
    """A file slice as readers of a state of the table see it.

    Attributes:
        file_slice: The slice.
        instants: The instants that count in its log files.
    """

    file_slice: FileSlice
    instants: VisibleInstants

    @property
    def size_bytes(self) -> int:
        """The size of its files."""
        return self.file_slice.size_bytes


@attrs.frozen(eq=False)
class _KeyedRows:
    """Rows, and the number of the key of each."""

    rows: pa.RecordBatch
    numbers: npt.NDArray[np.int32]


@attrs.frozen(eq=False)
class ChangeContext:
    """The settings that all tasks of a plan share; picklable.

    Attributes:
        storage: The storage of the files.
        schema: The table's columns, meta columns included.
        columns: The user's columns that images have.
        log_merging: The merge of log files; None if no slice has any.
        row_filter: The condition on images: a change counts if the row before or after it passes.
    """

    storage: HoodieStorage
    schema: pa.Schema
    columns: tuple[str, ...]
    log_merging: LogMerging | None = None
    row_filter: RowFilter | None = None

    @property
    def images(self) -> pa.Schema:
        """The columns of images in the result."""
        return pa.schema([self.schema.field(name) for name in self.columns])

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of changes in the typed form."""
        return change_columns(self.images)

    @property
    def all_images(self) -> pa.Schema:
        """The user's columns."""
        return pa.schema([field for field in self.schema if field.name not in META_COLUMN_SET])

    @property
    def read_images(self) -> pa.Schema:
        """The columns of images that are read: those of the result and of the filter."""
        names = list(self.columns)
        if self.row_filter is not None:
            of_filter = self.row_filter.read_columns([], self.schema)
            names += [name for name in of_filter if name not in names and name not in (OP, COMMIT_TIME)]
        return pa.schema([self.schema.field(name) for name in names])

    def reader(
        self,
        state: SliceState,
        columns: Sequence[str],
        wrote: frozenset[str] | None = None,
        keys: pa.Array | None = None,
    ) -> HoodieFileGroupReader:
        """A reader of the rows of a slice.

        Args:
            state: The slice.
            columns: The columns of the result.
            wrote: Only rows of these commits; None for all.
            keys: Only rows with these record keys are needed, others may come too; None for all.
        """
        columns = tuple(columns)
        if state.file_slice.is_base_file_alone or self.log_merging is None:
            condition = None if wrote is None else InstantRange(named=wrote).condition
            row_filter = None if condition is None else RowFilter.of(condition, self.schema, "the table")
            context = HoodieReaderContext(self.storage, self.schema, columns, row_filter=row_filter, seeks_few=True)
            return HoodieFileGroupReader(context, state.file_slice)
        context = HoodieReaderContext(
            self.storage,
            self.schema,
            columns,
            attrs.evolve(self.log_merging, block_filter=LogBlockFilter(state.instants)),
            instant_range=None if wrote is None else InstantRange(named=wrote),
            searched=None if keys is None else ColumnValues(RECORD_KEY_META, keys),
        )
        return HoodieFileGroupReader(context, state.file_slice)

    def rows(
        self, state: SliceState, columns: Sequence[str], wrote: frozenset[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a slice, on this thread; see `reader`."""
        yield from self.reader(state, columns, wrote).iter_batches()

    def rows_of_keys(self, state: SliceState, keys: pa.Array, columns: Sequence[str]) -> Iterator[_KeyedRows]:
        """The rows of a slice that have one of some record keys.

        Args:
            state: The slice.
            keys: Distinct keys (string).
            columns: The columns of the result.
        """
        base_file = state.file_slice.base_file
        if base_file is not None and state.file_slice.is_base_file_alone:
            handle = HoodieKeyLookupHandle(self.storage, base_file.path, base_file.size_bytes)
            matches = handle.lookup(keys)
            order = np.argsort(matches.row_positions, kind="stable")
            numbers, first = matches.key_indices[order], 0
            for batch in self.reader(state, columns).take(matches.row_positions[order]) if len(order) else ():
                yield _KeyedRows(batch, numbers[first : first + batch.num_rows])
                first += batch.num_rows
            return
        matcher = KeyMatcher(keys)
        for batch in self.reader(state, [RECORD_KEY_META, *columns], keys=keys).iter_batches():
            numbers, places = matcher.find(batch.column(RECORD_KEY_META))
            if len(places):
                taken = take_rows(batch.select(columns), numbers_of(places.astype(np.int64), pa.int64()))
                yield _KeyedRows(taken, numbers)

    def changes(
        self,
        op: str | pa.Array,
        times: str | pa.Array,
        before: pa.RecordBatch | None,
        after: pa.RecordBatch | None,
        has_before: npt.NDArray[np.bool_] | None = None,
        has_after: npt.NDArray[np.bool_] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Changes in the columns of the result, without those that the filter leaves out.

        Args:
            op: The operation, of all or of each.
            times: The commit, of all or of each.
            before: The rows before, with `read_images`; None for no rows.
            after: The rows after; None for no rows.
            has_before: Whether each change has a row before; None: all of `before`.
            has_after: Likewise after.
        """
        given = before if before is not None else after
        if given is None or not given.num_rows:
            return
        count = given.num_rows
        ops = pa.repeat(pa.scalar(str(op)), count) if isinstance(op, str) else op
        commit_times = pa.repeat(pa.scalar(times), count) if isinstance(times, str) else times
        sides = [(before, has_before), (after, has_after)]
        columns = [ops, commit_times, *(self._image(rows, has, count) for rows, has in sides)]
        found = pa.RecordBatch.from_arrays(columns, schema=self.result_schema)
        if self.row_filter is not None:
            passes = np.zeros(count, dtype=np.bool_)
            for rows, has in sides:
                if rows is not None:
                    passes |= self._passes(rows, has, ops, commit_times)
            if not passes.all():
                found = found.filter(booleans_of(passes))
        if found.num_rows:
            yield found

    def _image(self, rows: pa.RecordBatch | None, has: npt.NDArray[np.bool_] | None, count: int) -> pa.Array:
        fields = list(self.images)
        if rows is None:
            return pa.nulls(count, pa.struct(fields))
        mask = None if has is None else booleans_of(~has)
        return pa.StructArray.from_arrays([rows.column(field.name) for field in fields], fields=fields, mask=mask)

    def _passes(
        self, rows: pa.RecordBatch, has: npt.NDArray[np.bool_] | None, ops: pa.Array, times: pa.Array
    ) -> npt.NDArray[np.bool_]:
        """Whether rows pass the filter."""
        assert self.row_filter is not None
        names = rows.schema.names
        columns = {name: rows.column(name) for name in names} | {
            name: column for name, column in ((OP, ops), (COMMIT_TIME, times)) if name not in names
        }
        places = self.row_filter.places(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))
        passes = np.zeros(rows.num_rows, dtype=np.bool_)
        passes[places] = True
        return passes if has is None else passes & has


def change_columns(images: pa.Schema) -> pa.Schema:
    """The columns of changes in the typed form.

    Args:
        images: The columns of the rows before and after.
    """
    image = pa.struct(list(images))
    return pa.schema([(OP, pa.string()), (COMMIT_TIME, pa.string()), (BEFORE, image), (AFTER, image)])


@attrs.frozen(eq=False)
class ChangeTask:
    """Changes of a file group, or of file groups that replaced each other. Picklable.

    Attributes:
        case: The source of the changes.
        time: The commit of the changes. Of states that are compared, the commit of deletes.
        partition_path: The partition.
        before: The slices before.
        after: The slices after.
        wrote: The commits whose rows can be inserts or updates; None if rows do not tell.
        rows_return: Whether rows of older commits can be inserts or updates too: where an ordering field decides, a row
            that a log file deletes is visible again once a row that loses against it follows the delete.
        change_files: Paths and sizes of files of change data.
        log_files: The log files of the commit, whose keys are the only ones that can have changed; none if other rows
            can.
        part: The part of its changes.
        previous: The file id, and the instant of the base file before, of stored changes: files that were written in
            another mode than the table's may need it.
        begin_after: The begin of a range without the commit of stored changes.
        stores_images: Whether files of change data hold all rows before and after, if they were written in the mode of
            the table. Then the slices are not read.
    """

    case: HoodieCDCInferenceCase
    time: str
    partition_path: str
    before: tuple[SliceState, ...] = ()
    after: tuple[SliceState, ...] = ()
    wrote: frozenset[str] | None = None
    rows_return: bool = False
    change_files: tuple[tuple[str, int], ...] = ()
    log_files: tuple[HoodieLogFile, ...] = ()
    part: ChangePart = ChangePart.ALL
    previous: tuple[str, str] | None = None
    begin_after: str = ""
    stores_images: bool = False

    @property
    def size_bytes(self) -> int:
        """The size of the files that are read."""
        return sum(state.size_bytes for state in self._read_states) + sum(size for _, size in self.change_files)

    @property
    def file_count(self) -> int:
        """The number of files that are read."""
        record_files = sum(len(state.file_slice.record_files) for state in self._read_states)
        return record_files + len(self.change_files)

    @property
    def _read_states(self) -> tuple[SliceState, ...]:
        """The slices that are read, as far as the plan tells."""
        return () if self.stores_images else (*self.before, *self.after)

    def batches(self, context: ChangeContext) -> Iterator[pa.RecordBatch]:
        """The changes, on this thread.

        Memory: the record keys of the slices after, some new rows with the rows before, and one batch. Of stored
        changes, one block, with the rows that it lacks.

        Args:
            context: The settings of the plan.

        Raises:
            HoodieIOException: A file is missing, or storage failed.
            HoodieCorruptedDataException: A file is damaged.
            HoodieSchemaException: The filter cannot be computed for the rows.
        """
        if self.case is HoodieCDCInferenceCase.AS_IS:
            yield from self._stored(context)
        elif self.log_files:
            yield from self._of_log_files(context)
        else:
            if self.part is not ChangePart.WRITES and self.before:
                yield from self._deletes(context)
            if self.part is not ChangePart.DELETES and self.after:
                yield from self._writes(context)

    def _of_log_files(self, context: ChangeContext) -> Iterator[pa.RecordBatch]:
        """The changes of the keys of log files."""
        keys = self._keys_of_log_files(context)
        images = context.all_images
        for first in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys.slice(first, _KEYS_AT_ONCE)
            before, has_before = self._images_of(context, some, self.before, images)
            after, has_after = self._images_of(context, some, self.after, images)
            is_changed = has_before ^ has_after
            same = has_before & has_after
            for name in images.names if same.any() else ():
                is_changed |= same & ~equal_rows(before.column(name), after.column(name))
            places = pa.array(np.flatnonzero(is_changed))
            old, new = has_before[is_changed], has_after[is_changed]
            ops = pc.if_else(
                booleans_of(old & new), str(_UPDATE), pc.if_else(booleans_of(new), str(_INSERT), str(_DELETE))
            )
            yield from context.changes(ops, self.time, take_rows(before, places), take_rows(after, places), old, new)

    def _keys_of_log_files(self, context: ChangeContext) -> pa.Array:
        """The record keys of rows and deletes that the commit wrote to log files, each once."""
        assert context.log_merging is not None
        of_commit = LogBlockFilter(self.after[0].instants, instant_range=InstantRange(named=frozenset([self.time])))
        scanner = HoodieLogRecordScanner(
            context.storage,
            self.log_files,
            context.schema,
            [RECORD_KEY_META],
            of_commit,
            committed=context.log_merging.committed,
        )
        found = [
            entries.rows.column(RECORD_KEY_META) if isinstance(entries, LogRows) else entries.record_keys
            for entries in scanner.scan()
        ]
        return pa.chunked_array(found, pa.string()).combine_chunks().unique()

    def _deletes(self, context: ChangeContext) -> Iterator[pa.RecordBatch]:
        """The rows before whose keys are in no slice after."""
        images = context.read_images.names
        if not self.after:
            for state in self.before:
                for rows in context.rows(state, images):
                    yield from context.changes(_DELETE, self.time, rows, None)
            return
        kept = _keys(context, self.after)
        for state in self.before:
            keys = _keys(context, [state])
            gone = keys.filter(pc.invert(pc.is_in(keys, value_set=kept))).unique()
            if len(gone):
                for found in context.rows_of_keys(state, gone, images):
                    yield from context.changes(_DELETE, self.time, found.rows, None)

    def _writes(self, context: ChangeContext) -> Iterator[pa.RecordBatch]:
        """The rows after that commits wrote, with the rows of their keys before."""
        # All columns decide whether a row is changed.
        images = context.all_images.names if self.before else context.read_images.names
        columns = [RECORD_KEY_META, COMMIT_TIME, *images]
        wrote = None if self.rows_return else self.wrote
        for rows in _chunks(row for state in self.after for row in context.rows(state, columns, wrote)):
            times: str | pa.Array = self.time
            if self.case is HoodieCDCInferenceCase.STATE_COMPARE:
                times = rows.column(COMMIT_TIME)
                if self.rows_return and self.wrote is not None:
                    # The commit that brought an older row back is not known.
                    known = pc.is_in(times, value_set=pa.array(self.wrote, pa.string()))
                    times = pc.if_else(known, times, pa.scalar(self.time))
            after = rows.select(images)
            if not self.before:
                yield from context.changes(_INSERT, times, None, after)
                continue
            before, has_before = self._images_of(context, rows.column(RECORD_KEY_META), self.before, context.all_images)
            differs = ~has_before
            for name in images:
                differs |= ~equal_rows(before.column(name), after.column(name))
            ops = pc.if_else(booleans_of(has_before), str(_UPDATE), str(_INSERT))
            changed = context.changes(ops, times, before, after, has_before)
            if differs.all():
                yield from changed
                continue
            places = pa.array(np.flatnonzero(differs))
            if len(places):
                times = times if isinstance(times, str) else times.take(places)
                before, after = take_rows(before, places), take_rows(after, places)
                yield from context.changes(ops.take(places), times, before, after, has_before[differs])

    def _images_of(
        self, context: ChangeContext, keys: pa.Array, states: Sequence[SliceState], images: pa.Schema
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.bool_]]:
        """The row of each key in slices, and whether there is one. Keys may be null, which have none."""
        encoded = keys.dictionary_encode()
        nothing = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in images], schema=images)
        found = [nothing]
        place_of = np.zeros(len(encoded.dictionary) + 1, dtype=np.int64)
        count = 1
        for state in states:
            for keyed in context.rows_of_keys(state, encoded.dictionary, images.names):
                place_of[keyed.numbers] = count + np.arange(keyed.rows.num_rows)
                found.append(keyed.rows)
                count += keyed.rows.num_rows
        codes = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        rows = place_of[codes]
        return take_rows(concat_rows(found), pa.array(rows)), rows > 0

    def _stored(self, context: ChangeContext) -> Iterator[pa.RecordBatch]:
        """The changes of files of change data; images that they lack are looked up."""
        images = context.read_images
        for path, size in self.change_files:
            with open_log_file(context.storage, path, size or None) as reader:
                for stored in reader.stored_blocks():
                    if stored.block_type is not HoodieLogBlockType.CDC_DATA:
                        raise HoodieCorruptedDataException(
                            f"Cannot read {stored.source}: it holds no change data, or is damaged. Restore the file "
                            "from a copy, or begin after its commit"
                        )
                    found = decode_cdc_block(reader.read(stored), images)
                    yield from self._with_images(context, found, path)

    def _with_images(self, context: ChangeContext, found: pa.RecordBatch, path: str) -> Iterator[pa.RecordBatch]:
        ops = found.column(OP)
        is_insert, is_delete = (flags_in(pc.fill_null(pc.equal(ops, op), False)) for op in (_INSERT, _DELETE))
        sides = []
        for name, lacks, states in ((BEFORE, is_insert, self.before), (AFTER, is_delete, self.after)):
            image, has = found.column(name), ~lacks
            rows = pa.RecordBatch.from_arrays(image.flatten(), schema=context.read_images)
            is_lacking = has & ~flags_in(image.is_valid())
            if is_lacking.any():
                states = states or self._state_before(context, path)
                rows = self._looked_up(context, rows, found.column(RECORD_KEY_FIELD), is_lacking, states, path)
            sides.append((rows, has))
        (before, has_before), (after, has_after) = sides
        yield from context.changes(ops, self.time, before, after, has_before, has_after)

    def _state_before(self, context: ChangeContext, change_file: str) -> tuple[SliceState, ...]:
        """The slice of the base file before, which the plan did not look for.

        Raises:
            HoodieMissingFileException: It was cleaned.
        """
        for status in context.storage.list_directory(parent(change_file)):
            name = parse_base_file_name(status.name)
            if name is not None and (name.file_id, name.instant_time) == self.previous:
                found = FileSlice.of_base_file(self.partition_path, status.path, status.size_bytes)
                return (SliceState(found, VisibleInstants.of(())),)
        raise HoodieMissingFileException(
            f"{change_file} does not store the rows before its changes, and the base file that holds them was cleaned: "
            f"begin at {self.begin_after or self.time} or later"
        )

    def _looked_up(
        self,
        context: ChangeContext,
        rows: pa.RecordBatch,
        keys: pa.Array,
        is_lacking: npt.NDArray[np.bool_],
        states: Sequence[SliceState],
        path: str,
    ) -> pa.RecordBatch:
        """Images with those that are not stored, from the rows of their keys."""
        places = np.flatnonzero(is_lacking)
        wanted = keys.take(pa.array(places))
        images, has = self._images_of(context, wanted, states, context.read_images)
        if not has.all():
            key = wanted[int(np.argmin(has))].as_py()
            raise HoodieCorruptedDataException(
                f"Cannot read {path}: it tells of a change of record key {key!r}, which the base files before and "
                "after it do not have. A file is damaged: restore it from a copy, or begin after its commit"
            )
        order = np.arange(len(is_lacking))
        order[places] = len(is_lacking) + np.arange(len(places))
        return take_rows(concat_rows([rows, images]), pa.array(order))


@attrs.frozen(eq=False)
class ChangeReadTask:
    """Tasks of a plan that are read together, with everything that is needed to read them. Picklable.

    Attributes:
        context: The settings of the plan.
        tasks: The tasks.
        form: The form of the result.
    """

    context: ChangeContext
    tasks: tuple[ChangeTask, ...]
    form: ChangeForm

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes, on this thread; see `ChangeTask.batches`.

        Raises:
            HoodieException: See `ChangeTask.batches`.
        """
        for task in self.tasks:
            for batch in task.batches(self.context):
                yield changes_in_form(batch, self.form)


def _keys(context: ChangeContext, states: Sequence[SliceState]) -> pa.Array:
    """The record keys of slices."""
    found = [batch.column(0) for state in states for batch in context.rows(state, [RECORD_KEY_META])]
    return pa.chunked_array(found, pa.string()).combine_chunks()


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows put together up to a size."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= _CHUNK_BYTES:
            yield concat_rows(held)
            held, size = [], 0
    if held:
        yield concat_rows(held)

"""The file of changes beside the next version of a base file.

Hudi: org.apache.hudi.io.HoodieCDCLogger.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.fs.file_names import make_log_file_name
from hoodie.common.model.supplemental_logging_mode import HoodieCDCSupplementalLoggingMode
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.table.cdc.cdc_operation import HoodieCDCOperation
from hoodie.common.table.cdc.cdc_schemas import AFTER, BEFORE, OP, RECORD_KEY_FIELD
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieException
from hoodie.io.log.cdc_block import change_schema, empty_cdc_block, encode_cdc_blocks
from hoodie.io.write_context import WriteContext
from hoodie.storage.storage import abort_stream
from hoodie.storage.storage_path import join
from hoodie.storage.written_file import named_write_errors

_BUFFERED_BYTES = 32 << 20
"""Changes of so many bytes in memory are written as a block."""
_COPIED_BYTES = 8 << 20


class HoodieCDCLogger:
    """Write the changes of one merge to a ``.cdc`` file, for readers of changes.

    ::

        base files of f     f_0-1-1_10.parquet     f_0-2-2_15.parquet
        its change data                            .f_15.log.1_0-2-2.cdc       the changes of 15

    Each merge writes one file, also where nothing changed: a reader of Hudi fails on a new version of a base file that
    has neither inserts nor change data. Then the file is one block without records.

    A file group holds a key once; where it holds one several times, one change of the key is written: an update, unless
    every changed row of the key was deleted.

    Memory: 32 MiB of changes and their block, and the changes of keys that are stored several times.

    Args:
        context: The write.
        mode: The part of each change that is stored.
        partition_path: The partition.
        file_id: The file group.
        task: The task that writes.

    Attributes:
        file_name: The name of the file.
        path: Its full path.

    Hudi: org.apache.hudi.io.HoodieCDCLogger. Differs: takes batches, in the order of the base file; keeps no map of
    records; writes changes of inserts in each case.
    """

    def __init__(
        self,
        context: WriteContext,
        mode: HoodieCDCSupplementalLoggingMode,
        partition_path: str,
        file_id: str,
        task: TaskIdentity,
    ) -> None:
        self._context = context
        self._mode = mode
        self._partition_path = partition_path
        self.file_name = make_log_file_name(file_id, context.instant_time, 1, task.write_token, is_cdc=True)
        self.path = join(context.base_path, partition_path, self.file_name)
        # Hudi announces log files so. In version 6 a rollback of Hudi 0.15 fails on others.
        self._io_type = IOType.CREATE if context.table_config.timeline_layout_version >= 2 else IOType.APPEND
        self._schema = change_schema(context.records.schema)
        self._stored = [OP, RECORD_KEY_FIELD, BEFORE]
        if mode is HoodieCDCSupplementalLoggingMode.OP_KEY_ONLY:
            self._stored = [OP, RECORD_KEY_FIELD]
        elif mode is HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER:
            self._stored = [OP, BEFORE, AFTER]
        self._buffered: list[pa.RecordBatch] = []
        self._buffered_bytes = self._size_bytes = 0
        self._repeated_keys: pa.Array | None = None
        self._repeated: list[pa.RecordBatch] = []
        self._stream: pa.NativeFile | None = None

    @property
    def has_before(self) -> bool:
        """Whether rows before changes are stored."""
        return BEFORE in self._stored

    @property
    def cdc_stats(self) -> dict[str, int]:
        """The path of the finished file, relative to the table, to its size in bytes: ``cdcStats`` of the commit."""
        return {join(self._partition_path, self.file_name).lstrip("/"): self._size_bytes}

    def open(self, markers: WriteMarkers) -> None:
        """Announce the file by its marker and start it.

        Args:
            markers: The markers of the instant.

        Raises:
            HoodieIOException: Storage failed.
        """
        markers.create(self._partition_path, self.file_name, self._io_type)
        self._stream = self._context.storage.open_output_stream(self.path)

    def expect_repeated(self, keys: pa.Array) -> None:
        """Prepare for keys that the file group holds several times: of each of them, one change is written.

        Args:
            keys: The record keys (string).
        """
        self._repeated_keys = keys if len(keys) else None

    def insert(self, keys: pa.Array, rows: pa.RecordBatch) -> None:
        """Note new rows.

        Args:
            keys: Their record keys (string).
            rows: The user's columns, and perhaps others.
        """
        self._add(HoodieCDCOperation.INSERT, keys, None, rows)

    def update(self, keys: pa.Array, before: pa.RecordBatch | None, after: pa.RecordBatch) -> None:
        """Note replaced rows.

        Args:
            keys: Their record keys (string).
            before: The rows before the change: the user's columns, and perhaps others; a column that is missing holds
                the record keys. None where the mode stores none.
            after: The rows as they are stored now, with the same columns or more.
        """
        self._add(HoodieCDCOperation.UPDATE, keys, before, after)

    def delete(self, keys: pa.Array, before: pa.RecordBatch | None) -> None:
        """Note deleted rows.

        Args:
            keys: Their record keys (string).
            before: See `update`.
        """
        self._add(HoodieCDCOperation.DELETE, keys, before, None)

    def copy(self, path: str) -> None:
        """Write the changes of another file first, whose base file this one's replaces within the commit.

        Args:
            path: Full path of the ``.cdc`` file.

        Raises:
            HoodieIOException: Storage failed.
        """
        with self._context.storage.open_input_stream(path) as source:
            while part := source.read(_COPIED_BYTES):
                self._write(part)

    def finish(self) -> None:
        """Write the remaining changes and finish the file.

        Raises:
            HoodieIOException: Storage failed.
        """
        self._write_repeated()
        self._flush()
        if not self._size_bytes:
            context = self._context
            self._write(empty_cdc_block(context.records.avro_schema, context.instant_time, self._mode))
        with named_write_errors(self.path):
            self._opened().close()
        self._stream = None

    def abort(self) -> None:
        """Leave the file unfinished, if it is open."""
        stream, self._stream = self._stream, None
        if stream is not None:
            abort_stream(stream)

    def delete_file(self) -> None:
        """Delete the file."""
        self._context.storage.delete_file(self.path)

    def delete_marker(self, markers: WriteMarkers) -> None:
        """Delete the marker, once the file is deleted.

        Args:
            markers: The markers of the instant.
        """
        markers.delete(self._partition_path, self.file_name, self._io_type)

    def _add(
        self, operation: HoodieCDCOperation, keys: pa.Array, before: pa.RecordBatch | None, after: pa.RecordBatch | None
    ) -> None:
        count = len(keys)
        if not count:
            return
        columns: dict[str, pa.Array] = {OP: pa.repeat(pa.scalar(operation.value), count), RECORD_KEY_FIELD: keys}
        for name, rows in ((BEFORE, before), (AFTER, after)):
            if name in self._stored:
                columns[name] = self._image(rows, keys)
        # The key is kept until changes of repeated keys are told apart.
        names = [name for name in self._schema.names if name in columns]
        changes = pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)
        if self._repeated_keys is not None:
            is_repeated = pc.is_in(keys, value_set=self._repeated_keys)
            if pc.any(is_repeated).as_py():
                self._repeated.append(changes.filter(is_repeated))
                changes = changes.filter(pc.invert(is_repeated))
        self._buffer(changes.select(self._stored))

    def _image(self, rows: pa.RecordBatch | None, keys: pa.Array) -> pa.Array:
        fields = list(self._context.records.schema)
        if rows is None:
            return pa.nulls(len(keys), pa.struct(fields))
        names = set(rows.schema.names)
        columns = [_of_type(rows.column(field.name), field) if field.name in names else keys for field in fields]
        return pa.StructArray.from_arrays(columns, fields=fields)

    def _buffer(self, changes: pa.RecordBatch) -> None:
        self._buffered.append(changes)
        self._buffered_bytes += changes.nbytes
        if self._buffered_bytes >= _BUFFERED_BYTES:
            self._flush()

    def _write_repeated(self) -> None:
        """Write one change of each repeated key: its last one, but an update rather than a delete."""
        if not self._repeated:
            return
        changes = pa.Table.from_batches(self._repeated).combine_chunks()
        is_delete = pc.equal(changes[OP], HoodieCDCOperation.DELETE.value)
        last: dict[str, int] = {}
        for number, (key, gone) in enumerate(zip(changes[RECORD_KEY_FIELD].to_pylist(), is_delete, strict=True)):
            if not gone.as_py() or key not in last or is_delete[last[key]].as_py():
                last[key] = number
        for batch in changes.take(pa.array(sorted(last.values()))).to_batches():
            self._buffer(batch.select(self._stored))
        self._repeated.clear()

    def _flush(self) -> None:
        if not self._buffered:
            return
        context = self._context
        joined = pa.Table.from_batches(self._buffered).combine_chunks()
        self._buffered, self._buffered_bytes = [], 0
        # A column above 2 GiB comes in several chunks, so this is a loop.
        for batch in joined.to_batches():
            for block in encode_cdc_blocks(batch, context.records.avro_schema, context.instant_time, self._mode):
                self._write(block)

    def _write(self, data: bytes) -> None:
        with named_write_errors(self.path):
            self._opened().write(data)
        self._size_bytes += len(data)

    def _opened(self) -> pa.NativeFile:
        if self._stream is None:
            raise HoodieException(f"the change data {self.path} is not open")
        return self._stream


def _of_type(column: pa.Array, field: pa.Field) -> pa.Array:
    return column.cast(field.type) if pa.types.is_dictionary(column.type) else column

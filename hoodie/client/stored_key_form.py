"""Check that a writer formats timestamps in keys as the stored keys do.

A writer's option decides the format, and tables do not store it. A writer without the option would store every record a
second time, under another key.

Hudi has no such check.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pyarrow as pa

from hoodie.common.data.stored_types import find_field
from hoodie.common.model.field_path import top_level_name, type_at
from hoodie.common.model.record_columns import PARTITION_PATH_META, RECORD_KEY_META
from hoodie.exception import HoodieKeyException
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.keygen.generated_keys import AutoRecordGenWrapperKeyGenerator
from hoodie.keygen.user_key_generator import KeyGeneratorOfUser
from hoodie.table.table import HoodieTable

_PROPERTY = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"


def check_stored_key_form(table: HoodieTable, key_generator: KeyGenerator) -> None:
    """Refuse a writer whose key of a stored row is not the stored key, if the option's other value gives that key.

    This reads one row, of the newest commit that wrote any, and only if a timestamp is part of the keys.

    Args:
        table: The table that is written.
        key_generator: The writer's key generator.

    Raises:
        HoodieKeyException: The stored keys have timestamps in the other format.
    """
    if table.snapshot.load_avro_schema() is None or isinstance(key_generator, KeyGeneratorOfUser):
        return
    if isinstance(key_generator, AutoRecordGenWrapperKeyGenerator):
        key_generator = key_generator.paths
    schema = table.snapshot.load_schema()
    fields = (*key_generator.record_key_fields, *key_generator.partition_fields)
    types = [type_at(schema, field) for field in fields]
    if not any(data_type is not None and pa.types.is_timestamp(data_type) for data_type in types):
        return
    names = dict.fromkeys(top_level_name(schema, field) for field in fields)
    columns = [field for name in names if (field := find_field(schema, name)) is not None]
    meta = [pa.field(name, pa.string()) for name in (RECORD_KEY_META, PARTITION_PATH_META)]
    row = _first_row(table, pa.schema([*meta, *columns]))
    if row is None or row.column(RECORD_KEY_META).null_count:
        return
    other = attrs.evolve(key_generator, consistent_timestamps=not key_generator.consistent_timestamps)
    stored = row.column(RECORD_KEY_META)[0].as_py(), row.column(PARTITION_PATH_META)[0].as_py()
    for stored_text, own_text, other_text in zip(stored, _keys(key_generator, row), _keys(other, row), strict=True):
        if own_text != stored_text and other_text == stored_text:
            raise HoodieKeyException(
                f"the table's keys have timestamps as in {stored_text!r}, and this writer would make {own_text!r} of "
                f"the same record, and store it a second time; nothing was written. Set {_PROPERTY}="
                f"{str(other.consistent_timestamps).lower()}, as the table's other writers do"
            )


def _keys(key_generator: KeyGenerator, row: pa.RecordBatch) -> tuple[str | None, str | None]:
    if not key_generator.record_key_fields:
        return None, key_generator.partition_paths(row)[0].as_py()
    keys, paths = key_generator.keys(row)
    return keys[0].as_py(), paths[0].as_py()


def _first_row(table: HoodieTable, schema: pa.Schema) -> pa.RecordBatch | None:
    """Any row of a base file; None when there is none."""
    context = HoodieReaderContext(table.snapshot.storage, schema)
    for partition_path in _partitions_newest_first(table):
        for file_slice in table.view.latest_file_slices(partition_path):
            if file_slice.base_file is None:
                continue
            # A row that log files change tells the form of its key as well.
            reader = HoodieFileGroupReader(context, attrs.evolve(file_slice, log_files=()))
            for batch in reader.iter_batches(batch_rows=1):
                return batch
    return None


def _partitions_newest_first(table: HoodieTable) -> Iterator[str]:
    """The partition paths, lazily: first those to which the newest commit with rows wrote, then all others.

    Listing all partitions of a table can cost more than the write.
    """
    timeline = table.snapshot.active_timeline
    for instant in reversed(timeline.completed_writes().instants):
        stats = timeline.read_commit_metadata(instant).write_stats
        if newest := dict.fromkeys(str(stat.partition_path) for stat in stats if stat.num_writes):
            yield from newest
            break
    yield from table.view.list_partitions()

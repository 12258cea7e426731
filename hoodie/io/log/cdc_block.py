"""Blocks of change data: a ``.cdc`` file is a sequence of them.

Changes are Arrow rows with these columns, whatever the mode of the table::

    op          string    i, u or d
    record_key  string    null where the mode stores none (DATA_BEFORE_AFTER)
    before      struct    the row before the change, without meta columns; null for an insert
    after       struct    the row after the change; null for a delete

Columns that a mode does not store are null when they are read.

Hudi: org.apache.hudi.common.table.log.block.HoodieCDCDataBlock.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from hoodie.avro.columnar_block import decode_avro_block, encode_avro_block, encode_avro_blocks
from hoodie.avro.schema_converters import to_arrow
from hoodie.common.model.supplemental_logging_mode import HoodieCDCSupplementalLoggingMode
from hoodie.common.table.cdc.cdc_schemas import AFTER, BEFORE, OP, RECORD_KEY_FIELD, TIME, cdc_schema
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.log.data_block import MAX_BLOCK_BYTES
from hoodie.io.log.log_block import HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_block_writer import data_headers, encode_log_block
from hoodie.io.parquet.column_adaptation import adapt_column


def change_schema(rows: pa.Schema) -> pa.Schema:
    """The columns of changes.

    Args:
        rows: The user's columns.
    """
    image = pa.struct(list(rows))
    return pa.schema([(OP, pa.string()), (RECORD_KEY_FIELD, pa.string()), (BEFORE, image), (AFTER, image)])


def encode_cdc_blocks(
    changes: pa.RecordBatch,
    avro_schema: str,
    instant_time: str,
    mode: HoodieCDCSupplementalLoggingMode,
    max_block_bytes: int = MAX_BLOCK_BYTES,
) -> Iterator[bytes]:
    """Encode changes as whole blocks; none without changes.

    Memory: the changes, and one block.

    Args:
        changes: The columns that the mode stores, of `change_schema`.
        avro_schema: The schema of the table's rows as JSON.
        instant_time: The commit, whose time DATA_BEFORE_AFTER stores with each change.
        mode: The mode of the table.
        max_block_bytes: The most bytes of a block's content; one change may take more.

    Raises:
        HoodieSchemaException: A row does not fit the schema.
    """
    if not changes.num_rows:
        return
    schema = cdc_schema(mode, avro_schema)
    stored = to_arrow(schema)
    columns = [
        pa.repeat(pa.scalar(instant_time), changes.num_rows) if name == TIME else changes.column(name)
        for name in stored.names
    ]
    rows = pa.RecordBatch.from_arrays(columns, names=stored.names)
    headers = data_headers(instant_time, schema, None, None)
    for content in encode_avro_blocks(rows, schema, max_block_bytes):
        yield encode_log_block(HoodieLogBlockType.CDC_DATA, headers, content)


def empty_cdc_block(avro_schema: str, instant_time: str, mode: HoodieCDCSupplementalLoggingMode) -> bytes:
    """A block of change data without changes.

    Args:
        avro_schema: See `encode_cdc_blocks`.
        instant_time: The commit.
        mode: The mode of the table.
    """
    schema = cdc_schema(mode, avro_schema)
    rows = pa.RecordBatch.from_pylist([], schema=to_arrow(schema))
    content = encode_avro_block(rows, schema)
    return encode_log_block(HoodieLogBlockType.CDC_DATA, data_headers(instant_time, schema, None, None), content)


def decode_cdc_block(block: HoodieLogBlock, rows: pa.Schema) -> pa.RecordBatch:
    """The changes of a block, in the types of the table.

    Args:
        block: A block of change data.
        rows: The user's columns, as the table has them now; columns that the block lacks are null, and others of the
            block are left out.

    Returns:
        The changes, with the columns of `change_schema`.

    Raises:
        HoodieCorruptedDataException: The block is damaged, or holds something else.
        HoodieSchemaException: A column cannot be read in its type.
    """
    if block.block_type is not HoodieLogBlockType.CDC_DATA or block.schema is None:
        raise HoodieCorruptedDataException(f"Cannot read changes of {block.source}: it holds none")
    written = to_arrow(block.schema)
    found = decode_avro_block(block.content, block.schema, written, block.source)
    wanted = change_schema(rows)
    columns = []
    for field in wanted:
        if field.name in found.schema.names:
            columns.append(adapt_column(found.column(field.name), field.type))
        else:
            columns.append(pa.nulls(found.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=wanted)

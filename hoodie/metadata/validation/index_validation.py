"""Compare the record index and secondary indexes of a metadata table with the rows of its table.

Hudi: org.apache.hudi.utilities.HoodieMetadataTableValidator (validateRecordIndex, validateSecondaryIndex).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import META_COLUMNS, RECORD_KEY_META
from hoodie.exception import HoodieNotSupportedException
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.merging_reader import LogMerging
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.metadata_record_reader import MetadataRecords
from hoodie.metadata.records.metadata_keys import secondary_index_keys
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.validation.metadata_validation import Findings, MetadataDifferenceKind

_RECORD_INDEX = MetadataPartitionType.RECORD_INDEX.partition_path


def validate_record_index(
    metadata: HoodieBackedTableMetadata,
    records: MetadataRecords,
    latest: Mapping[str, Sequence[FileSlice]],
    findings: Findings,
    *,
    is_by_partition: bool,
) -> None:
    """Compare the record index with the keys of all rows.

    A key that lives in several file groups is right if its entry names one of them.

    Memory: all keys of the table, and of the index.

    Args:
        metadata: The metadata table.
        records: All entries of the index.
        latest: The latest slices by partition.
        findings: Gets the differences.
        is_by_partition: Whether a key has an entry for each partition of the table.

    Raises:
        HoodieNotSupportedException: The keys of the table cannot be read.
    """
    schema = _schema_of(metadata, [])
    keys, paths, ids = [], [], []
    for path, slices in latest.items():
        for file_slice in slices:
            for found in _columns_of(metadata, file_slice, schema, [RECORD_KEY_META]).column(0).chunks:
                keys.append(found)
                paths.append(pa.repeat(path, len(found)))
                ids.append(pa.repeat(file_slice.file_id, len(found)))
    stored = _located(keys, paths, ids)
    index = _located([records.keys], [records.rows.column("partition_path")], [records.rows.column("file_id")])
    names = ["key", "path"] if is_by_partition else ["key"]
    stored_ids, index_ids = (_joined(table, names) for table in (stored, index))
    locations = _joined(stored, stored.column_names)
    missing = np.flatnonzero(_absent(stored_ids, index_ids))
    for number in missing.tolist():
        row = stored.slice(number, 1).to_pylist()[0]
        findings.add(_RECORD_INDEX, MetadataDifferenceKind.MISSING, row["key"], _shown(row))
    unexpected, different = _absent(index_ids, stored_ids), _absent(_joined(index, index.column_names), locations)
    for number in np.flatnonzero(different).tolist():
        row = index.slice(number, 1).to_pylist()[0]
        if unexpected[number]:
            findings.add(_RECORD_INDEX, MetadataDifferenceKind.UNEXPECTED, row["key"], "", _shown(row))
            continue
        place = pc.index(stored_ids, index_ids[number]).as_py()
        expected = _shown(stored.slice(place, 1).to_pylist()[0])
        findings.add(_RECORD_INDEX, MetadataDifferenceKind.DIFFERENT, row["key"], expected, _shown(row))


def validate_secondary_index(
    metadata: HoodieBackedTableMetadata,
    partition: str,
    records: MetadataRecords,
    latest: Mapping[str, Sequence[FileSlice]],
    findings: Findings,
) -> None:
    """Compare a secondary index with the values of all rows.

    Memory: all keys and values of the table, and of the index.

    Args:
        metadata: The metadata table.
        partition: The partition of the index.
        records: All its entries.
        latest: The latest slices by partition.
        findings: Gets the differences.

    Raises:
        HoodieNotSupportedException: hoodie does not know which column it indexes, or how Java prints its values; or
            the keys of the table cannot be read; or a key may be in several partitions.
    """
    if metadata.is_record_index_by_partition:
        raise HoodieNotSupportedException(
            "it has one entry for a key that is in several partitions, since the record index is one by partitions; "
            "hoodie's readers do not use it"
        )
    definition = metadata.definitions.get(partition)
    if definition is None or len(definition.source_fields) != 1:
        raise HoodieNotSupportedException("the definitions of indexes do not name its column")
    (column,) = definition.source_fields
    schema = _schema_of(metadata, [column])
    kind = schema.field(column).type
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise HoodieNotSupportedException(f"hoodie compares no values of type {kind} of the column {column}")
    parts = [pa.array([], pa.string())]
    for slices in latest.values():
        for file_slice in slices:
            rows = _columns_of(metadata, file_slice, schema, [RECORD_KEY_META, column]).combine_chunks()
            keys, values = (_plain(rows.column(place)) for place in range(2))
            parts.append(secondary_index_keys(values, keys))
    stored = pa.concat_arrays(parts)
    for kind_of, one, other in (
        (MetadataDifferenceKind.MISSING, stored, records.keys),
        (MetadataDifferenceKind.UNEXPECTED, records.keys, stored),
    ):
        for name in one.filter(pa.array(_absent(one, other))).to_pylist():
            shown = {"expected" if kind_of is MetadataDifferenceKind.MISSING else "found": f"an entry of {column}"}
            findings.add(partition, kind_of, name, **shown)


def _schema_of(metadata: HoodieBackedTableMetadata, columns: Sequence[str]) -> pa.Schema:
    table = metadata.table
    if not table.table_config.populate_meta_fields:
        raise HoodieNotSupportedException("the table stores no record keys (hoodie.populate.meta.fields=false)")
    schema = table.load_schema()
    missing = [name for name in columns if name not in schema.names]
    if missing:
        raise HoodieNotSupportedException(f"the table has no column {', '.join(missing)} on its top level")
    return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *schema])


def _columns_of(
    metadata: HoodieBackedTableMetadata, file_slice: FileSlice, schema: pa.Schema, columns: list[str]
) -> pa.Table:
    """Columns of the rows of a slice, log files merged."""
    table = metadata.table
    wanted = pa.schema([schema.field(name) for name in columns])
    if columns == [RECORD_KEY_META] and file_slice.base_file is not None and file_slice.is_base_file_alone:
        with HoodieParquetReader(table.storage, file_slice.base_file.path) as reader:
            return pa.Table.from_arrays([reader.read_record_keys().cast(pa.string())], schema=wanted)
    merging = None if file_slice.is_base_file_alone else LogMerging.of_table(table, schema)
    reading = HoodieFileGroupReader(table.storage, file_slice, schema, log_merging=merging, columns=columns)
    batches = [pa.Table.from_batches([batch]).cast(wanted) for batch in reading.iter_batches()]
    return pa.concat_tables([wanted.empty_table(), *batches])


def _located(keys: list[pa.Array], paths: list[pa.Array], ids: list[pa.Array]) -> pa.Table:
    columns = [pa.chunked_array(part, pa.string()) for part in (keys, paths, ids)]
    return pa.table(columns, names=["key", "path", "file_id"])


def _joined(table: pa.Table, names: list[str]) -> pa.ChunkedArray:
    """One text for some columns."""
    columns = [table.column(name).cast(pa.large_string()) for name in names]
    return (
        columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, pa.scalar("\0", pa.large_string()))
    )


def _absent(values: pa.Array | pa.ChunkedArray, others: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Which values are not among others."""
    return np.asarray(pc.invert(pc.is_in(values, value_set=others)))


def _plain(column: pa.ChunkedArray) -> pa.Array:
    return pc.cast(column, pa.string()).combine_chunks()


def _shown(row: Mapping[str, str]) -> str:
    return f"{row['path']}/{row['file_id']}".lstrip("/")

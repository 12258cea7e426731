"""Comparison of the record index and secondary indexes of a metadata table with the rows of its table.

Hudi: org.apache.hudi.utilities.HoodieMetadataTableValidator (validateRecordIndex, validateSecondaryIndex).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import META_COLUMNS, RECORD_KEY_META
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieNotSupportedException
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.merging_reader import LogMerging
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.merge.merge_modes import payload_of_table
from hoodie.merge.payload_rules import MERGER_PREFIX
from hoodie.merge.record_merger import HoodieRecordMerger
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.metadata_record_reader import MetadataRecords
from hoodie.metadata.records.metadata_keys import secondary_index_keys
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.validation.key_places import FileGroup, KeyPlaces, shown_group
from hoodie.validation.metadata_validation import Findings, MetadataDifferenceKind

_RECORD_INDEX = MetadataPartitionType.RECORD_INDEX.partition_path


def validate_record_index(
    metadata: HoodieBackedTableMetadata,
    records: MetadataRecords,
    latest: Mapping[str, Sequence[FileSlice]],
    findings: Findings,
    *,
    is_by_partition: bool,
    merger: HoodieRecordMerger | None = None,
) -> None:
    """Compare the record index with the keys of all rows.

    A key in several file groups, of the table or of a partition, is ambiguous: its entry names only one of them.

    Memory: all keys of the table, twice, and all keys of the index.

    Args:
        metadata: The metadata table.
        records: All entries of the index.
        latest: The latest slices by partition.
        findings: Gets the differences.
        is_by_partition: Whether the index is partitioned, with an entry of a key for each partition.
        merger: The record merger of a table that merges by one.

    Raises:
        HoodieNotSupportedException: The keys of the table cannot be read.
    """
    stored = KeyPlaces.of(_stored_keys(metadata, latest, merger), is_by_partition=is_by_partition)
    paths, ids = (records.rows.column(name) for name in ("partition_path", "file_id"))
    numbers = stored.numbers_of(records.keys)
    indexed = stored.entries_of(numbers, paths)
    for pair in np.flatnonzero(~np.isin(stored.entries, indexed)).tolist():
        findings.add(_RECORD_INDEX, MetadataDifferenceKind.MISSING, stored.key_of(pair), stored.place_of(pair))
    is_known = np.isin(indexed, stored.entries)
    is_place = stored.are_places(numbers, paths, ids)
    for number in np.flatnonzero(~(is_known & is_place)).tolist():
        key, found = records.keys[number].as_py(), shown_group(paths[number].as_py(), ids[number].as_py())
        if is_known[number]:
            expected = stored.place_of(int(np.searchsorted(stored.entries, indexed[number])))
            findings.add(_RECORD_INDEX, MetadataDifferenceKind.DIFFERENT, key, expected, found)
        else:
            findings.add(_RECORD_INDEX, MetadataDifferenceKind.UNEXPECTED, key, "", found)
    order = np.argsort(indexed, kind="stable")
    for first, end in stored.ambiguous():
        place = int(np.searchsorted(indexed, stored.entries[first], sorter=order))
        number = int(order[place]) if place < len(order) else -1
        has_entry = number >= 0 and indexed[number] == stored.entries[first]
        found = shown_group(paths[number].as_py(), ids[number].as_py()) if has_entry else ""
        expected = " and ".join(map(stored.place_of, range(first, end)))
        findings.add(_RECORD_INDEX, MetadataDifferenceKind.AMBIGUOUS, stored.key_of(first), expected, found)
        findings.advice[_RECORD_INDEX] = _ambiguous_advice(is_by_partition=is_by_partition)


def _stored_keys(
    metadata: HoodieBackedTableMetadata, latest: Mapping[str, Sequence[FileSlice]], merger: HoodieRecordMerger | None
) -> Iterator[tuple[FileGroup, pa.ChunkedArray]]:
    """The file groups of a table, each with the keys of its rows."""
    if not any(latest.values()):
        # The table may have no columns yet: perhaps nothing was ever written.
        return
    schema = _schema_of(metadata, [])
    for path, slices in latest.items():
        for file_slice in slices:
            rows = _columns_of(metadata, file_slice, schema, [RECORD_KEY_META], merger)
            yield (path, file_slice.file_id), rows.column(0)


def _ambiguous_advice(*, is_by_partition: bool) -> str:
    option = f"hoodie.metadata.{'' if is_by_partition else 'global.'}record.level.index.enable"
    across = "" if is_by_partition else ", across_partitions=True"
    return (
        "it names one file group of each ambiguous key, and readers that trust it miss the rows in the others; it "
        f"cannot be built anew while they are there. Drop it by a write with {option}=false; then delete surplus rows "
        f"with hoodie.table.repair.drop_duplicates(client{across}), and build it again; or do without it"
    )


def validate_secondary_index(
    metadata: HoodieBackedTableMetadata,
    partition: str,
    records: MetadataRecords,
    latest: Mapping[str, Sequence[FileSlice]],
    findings: Findings,
    *,
    merger: HoodieRecordMerger | None = None,
) -> None:
    """Compare a secondary index with the values of all rows.

    Memory: all keys and values of the table, and of the index.

    Args:
        metadata: The metadata table.
        partition: The partition of the index.
        records: All its entries.
        latest: The latest slices by partition.
        findings: Gets the differences.
        merger: The record merger of a table that merges by one.

    Raises:
        HoodieNotSupportedException: The indexed column or Java's form of its values is not known; or the keys of the
            table cannot be read; or a key may be in several partitions.
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
    stored = pa.concat_arrays([pa.array([], pa.string()), *_stored_entries(metadata, latest, column, merger)])
    for kind_of, one, other in (
        (MetadataDifferenceKind.MISSING, stored, records.keys),
        (MetadataDifferenceKind.UNEXPECTED, records.keys, stored),
    ):
        for name in one.filter(pa.array(_absent(one, other))).to_pylist():
            shown = {"expected" if kind_of is MetadataDifferenceKind.MISSING else "found": f"an entry of {column}"}
            findings.add(partition, kind_of, name, **shown)


def _stored_entries(
    metadata: HoodieBackedTableMetadata,
    latest: Mapping[str, Sequence[FileSlice]],
    column: str,
    merger: HoodieRecordMerger | None,
) -> Iterator[pa.Array]:
    """The entries that the rows of file slices need (string)."""
    if not any(latest.values()):
        # The table may have no columns yet: perhaps nothing was ever written.
        return
    schema = _schema_of(metadata, [column])
    kind = schema.field(column).type
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise HoodieNotSupportedException(f"hoodie compares no values of type {kind} of the column {column}")
    for slices in latest.values():
        for file_slice in slices:
            rows = _columns_of(metadata, file_slice, schema, [RECORD_KEY_META, column], merger).combine_chunks()
            keys, values = (_plain(rows.column(place)) for place in range(2))
            yield secondary_index_keys(values, keys)


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
    metadata: HoodieBackedTableMetadata,
    file_slice: FileSlice,
    schema: pa.Schema,
    columns: list[str],
    merger: HoodieRecordMerger | None,
) -> pa.Table:
    """The given columns of the rows of a slice, with its log files merged."""
    table = metadata.table
    wanted = pa.schema([schema.field(name) for name in columns])
    if columns == [RECORD_KEY_META] and file_slice.base_file is not None and file_slice.is_base_file_alone:
        with HoodieParquetReader(table.storage, file_slice.base_file.path) as reader:
            return pa.Table.from_arrays([reader.read_record_keys().cast(pa.string())], schema=wanted)
    merging = None if file_slice.is_base_file_alone else _merging_of(table, schema, merger)
    reading = HoodieFileGroupReader(HoodieReaderContext(table.storage, schema, columns, merging), file_slice)
    batches = [pa.Table.from_batches([batch]).cast(wanted) for batch in reading.iter_batches()]
    return pa.concat_tables([wanted.empty_table(), *batches])


def _merging_of(table: TableSnapshot, schema: pa.Schema, merger: HoodieRecordMerger | None) -> LogMerging:
    try:
        return LogMerging.of_table(table, schema, merger=merger)
    except HoodieNotSupportedException as error:
        name = payload_of_table(table.table_config.properties, table.table_config.table_version)
        if merger is not None or not name.startswith(MERGER_PREFIX):
            raise
        raise HoodieNotSupportedException(
            f"the table merges the rows of its log files by the Python class {name.removeprefix(MERGER_PREFIX)}: call "
            "hoodie.metadata.validate with merger=, an object of that class"
        ) from error


def _absent(values: pa.Array | pa.ChunkedArray, others: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """True for values that are not among the others."""
    return np.asarray(pc.invert(pc.is_in(values, value_set=others)))


def _plain(column: pa.ChunkedArray) -> pa.Array:
    return pc.cast(column, pa.string()).combine_chunks()

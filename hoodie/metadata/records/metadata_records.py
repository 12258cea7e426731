"""Conversion of the values of a metadata table between Avro and Arrow columns.

A record holds one payload, by its type. Rows of a payload have these columns, whichever release wrote them; ``type`` is
the number in `MetadataRecordType`:

==================  ================================================================================================
payload             columns beside ``type`` (int32)
==================  ================================================================================================
``FILES``           files: map of string to struct<size_bytes: int64, is_deleted: bool>
``BLOOM_FILTER``    bloom_type: string, timestamp: string, bloom_filter: binary, is_deleted: bool
``COLUMN_STATS``    file_name: string, column_name: string, min_value: VARIANT, max_value: VARIANT, value_count: int64,
                    null_count: int64, total_size: int64, total_uncompressed_size: int64, is_deleted: bool,
                    is_tight_bound: bool, value_type: int32, value_type_info: string
``RECORD_INDEX``    partition_path: string, file_id: string, instant_millis: int64, position: int64
``SECONDARY_INDEX`` is_deleted: bool
==================  ================================================================================================

``VARIANT`` is `hoodie.avro.schema_reader.VARIANT`; its ``branch`` is the place in
`hoodie.metadata.records.metadata_record_schema.WRAPPERS`. ``value_type`` is the number of a
`hoodie.common.model.column_range.ValueType`. Columns that the writer did not have are null.

Keys are not among the columns: the field ``key`` is always "", since the HFile holds the key of an entry.

Hudi: org.apache.hudi.metadata.HoodieMetadataPayload.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.avro_type import AvroType
from hoodie.avro.columnar_decoder import decode_records
from hoodie.avro.schema_reader import VARIANT
from hoodie.common.model.record_columns import FILE_NAME_META
from hoodie.common.util.arrow_buffers import maps_like, pieces_of
from hoodie.exception import HoodieCorruptedDataException, HoodieException, HoodieSchemaException
from hoodie.metadata.records.metadata_partition_type import MetadataRecordType
from hoodie.metadata.records.metadata_record_schema import (
    COLUMN_STATS_FIELD,
    KEY_FIELD,
    TYPE_FIELD,
    WRAPPERS,
    record_tree,
    schema_of_payload,
    wrapper_numbers,
)
from hoodie.metadata.records.record_index_location import RECORD_INDEX_FIELDS, file_ids_of, stored_file_ids

FILE_INFO = pa.struct([pa.field("size_bytes", pa.int64()), pa.field("is_deleted", pa.bool_())])
"""The entry of a file in the metadata table."""
_TYPE = pa.field("type", pa.int32())
_FEW_ROWS = 1000
_MAX_NUMBER = 1 << 62
_MAX_COLUMN_BYTES = (1 << 31) - 1


class MetadataPayload(Enum):
    """A payload field of the records of a metadata table.

    Attributes:
        field: Its name in Hudi's schema.
        schema: The columns that it is read as.
        record_types: The types of records that have it.
    """

    FILES = (
        "filesystemMetadata",
        (pa.field("files", pa.map_(pa.string(), FILE_INFO)),),
        (MetadataRecordType.ALL_PARTITIONS, MetadataRecordType.FILES),
    )
    BLOOM_FILTER = (
        "BloomFilterMetadata",
        (
            pa.field("bloom_type", pa.string()),
            pa.field("timestamp", pa.string()),
            pa.field("bloom_filter", pa.binary()),
            pa.field("is_deleted", pa.bool_()),
        ),
        (MetadataRecordType.BLOOM_FILTERS,),
    )
    COLUMN_STATS = (
        COLUMN_STATS_FIELD,
        (
            pa.field("file_name", pa.string()),
            pa.field("column_name", pa.string()),
            pa.field("min_value", VARIANT),
            pa.field("max_value", VARIANT),
            pa.field("value_count", pa.int64()),
            pa.field("null_count", pa.int64()),
            pa.field("total_size", pa.int64()),
            pa.field("total_uncompressed_size", pa.int64()),
            pa.field("is_deleted", pa.bool_()),
            pa.field("is_tight_bound", pa.bool_()),
            pa.field("value_type", pa.int32()),
            pa.field("value_type_info", pa.string()),
        ),
        (MetadataRecordType.COLUMN_STATS, MetadataRecordType.PARTITION_STATS),
    )
    RECORD_INDEX = (
        "recordIndexMetadata",
        (
            pa.field("partition_path", pa.string()),
            pa.field("file_id", pa.string()),
            pa.field("instant_millis", pa.int64()),
            pa.field("position", pa.int64()),
        ),
        (MetadataRecordType.RECORD_INDEX,),
    )
    SECONDARY_INDEX = (
        "SecondaryIndexMetadata",
        (pa.field("is_deleted", pa.bool_()),),
        (MetadataRecordType.SECONDARY_INDEX,),
    )

    def __init__(self, field: str, columns: tuple[pa.Field, ...], record_types: tuple[MetadataRecordType, ...]) -> None:
        self.field = field
        self.schema = pa.schema([_TYPE, *columns])
        self.record_types = record_types

    @classmethod
    def of(cls, record_type: MetadataRecordType) -> MetadataPayload:
        """The payload of records of a type."""
        return next(payload for payload in cls if record_type in payload.record_types)


# --- decoding ---------------------------------------------------------------------------------------------------------


def decode_values(
    values: pa.Array, writer_schema: str, payload: MetadataPayload, source: str = "a metadata table"
) -> pa.RecordBatch:
    """Decode values to rows.

    Most values of a record index are equal to others, so equal values are decoded once.

    Args:
        values: Avro records (binary, no nulls).
        writer_schema: The schema that the values were written with, meta columns included; their log block or HFile
            stores it.
        payload: The payload to read. Other payloads are skipped; a record without this one gets nulls.
        source: The origin of the values, for messages.

    Returns:
        One row for each value, with the columns of the payload's schema.

    Raises:
        HoodieCorruptedDataException: A value is not a record of that schema.
        HoodieNotSupportedException: The schema has types of values that hoodie does not know.
        HoodieSchemaException: It is not a schema of records of a metadata table.
    """
    if payload is MetadataPayload.RECORD_INDEX:
        distinct = values.dictionary_encode()
        rows = _decoded(distinct.dictionary, writer_schema, payload, source)
        return rows if len(rows) == len(values) else rows.take(distinct.indices)
    return _decoded(values, writer_schema, payload, source)


def _decoded(values: pa.Array, writer_schema: str, payload: MetadataPayload, source: str) -> pa.RecordBatch:
    tree = record_tree(writer_schema)
    wanted = [_TYPE]
    if payload.field in tree.names:
        wanted.append(pa.field(payload.field, _node(tree, payload.field).arrow_type))
    if values.null_count:
        raise HoodieCorruptedDataException(f"Cannot read records of {source}: {values.null_count} values are null")
    content = values.buffers()[2] if len(values) else None
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    bounds = offsets.astype(np.int64) if len(values) else np.zeros(1, np.int64)
    decoded = decode_records(
        writer_schema, content or b"", bounds[:-1], bounds[1:], pa.schema(wanted), has_variants=True
    ).require_good(source)
    if len(wanted) == 1:
        missing = [pa.nulls(len(values), field.type) for field in list(payload.schema)[1:]]
        return pa.RecordBatch.from_arrays([decoded.column(0), *missing], schema=payload.schema)
    columns = _COLUMNS_OF[payload](decoded.column(1), writer_schema)
    return pa.RecordBatch.from_arrays([decoded.column(0), *columns], schema=payload.schema)


def _files_columns(files: pa.Array, writer_schema: str) -> list[pa.Array]:
    wanted = MetadataPayload.FILES.schema.field("files").type
    infos = pa.StructArray.from_arrays(files.items.flatten(), fields=list(FILE_INFO))
    return [maps_like(files, infos, wanted)]


def flat_files(files: pa.MapArray) -> tuple[npt.NDArray[np.int64], pa.Array, pa.StructArray]:
    """The files of all rows in one flat list.

    Args:
        files: The column of `MetadataPayload.FILES`.

    Returns:
        The row of each file, its name (string), and its `FILE_INFO`.
    """
    if not len(files):
        return np.empty(0, np.int64), pa.array([], pa.string()), pa.array([], FILE_INFO)
    offsets = np.frombuffer(files.buffers()[1], np.int32)[files.offset : files.offset + len(files) + 1]
    begin, end = int(offsets[0]), int(offsets[-1])
    owners = np.repeat(np.arange(len(files)), np.diff(offsets))
    return owners, files.keys[begin:end], files.items[begin:end]


def _bloom_columns(blooms: pa.Array, writer_schema: str) -> list[pa.Array]:
    found = _fields(blooms)
    return [found[name] for name in ("type", "timestamp", "bloomFilter", "isDeleted")]


def _column_stats_columns(stats: pa.Array, writer_schema: str) -> list[pa.Array]:
    found = _fields(stats)
    names = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize", "isDeleted")
    kind = _fields(found["valueType"]) if "valueType" in found else {}
    return [
        found["fileName"],
        found["columnName"],
        *(_renumbered(found[name], wrapper_numbers(writer_schema, name)) for name in ("minValue", "maxValue")),
        *(found[name] for name in names),
        found.get("isTightBound", pa.nulls(len(stats), pa.bool_())),
        kind.get("typeOrdinal", pa.nulls(len(stats), pa.int32())),
        kind.get("additionalInfo", pa.nulls(len(stats), pa.string())),
    ]


def _record_index_columns(entries: pa.Array, writer_schema: str) -> list[pa.Array]:
    found = _fields(entries)
    return [
        found["partitionName"],
        file_ids_of(*(found[name] for name in RECORD_INDEX_FIELDS)),
        found["instantTime"],
        found.get("position", pa.nulls(len(entries), pa.int64())),
    ]


def _secondary_index_columns(entries: pa.Array, writer_schema: str) -> list[pa.Array]:
    return [_fields(entries)["isDeleted"]]


_COLUMNS_OF = {
    MetadataPayload.FILES: _files_columns,
    MetadataPayload.BLOOM_FILTER: _bloom_columns,
    MetadataPayload.COLUMN_STATS: _column_stats_columns,
    MetadataPayload.RECORD_INDEX: _record_index_columns,
    MetadataPayload.SECONDARY_INDEX: _secondary_index_columns,
}


def _fields(records: pa.Array) -> dict[str, pa.Array]:
    return dict(zip((field.name for field in records.type), records.flatten(), strict=True))


def _renumbered(values: pa.Array, numbers: tuple[int, ...]) -> pa.Array:
    """Variants with branch numbers of `WRAPPERS` in place of those of the writer's schema."""
    if numbers == tuple(range(len(numbers))):
        return values
    columns = values.flatten()
    branches = pa.array(numbers, pa.int8()).take(columns[0])
    return pa.StructArray.from_arrays([branches, *columns[1:]], fields=list(VARIANT), mask=values.is_null())


# --- encoding ---------------------------------------------------------------------------------------------------------


def encode_values(
    rows: pa.RecordBatch, writer_schema: str, payload: MetadataPayload, base_file_name: str | None = None
) -> pa.Array:
    """Encode rows to values, byte for byte as Java does.

    Args:
        rows: The columns of the payload's schema, in any order. Columns that the writer's schema lacks must be null or
            missing. Equal rows of a record index are encoded once.
        writer_schema: The schema to write, meta columns included.
        payload: The payload of all rows.
        base_file_name: The name of the base file of a compaction, as Hudi stores it in the rows there; None for log
            files.

    Returns:
        binary, one value for each row.

    Raises:
        HoodieSchemaException: A column is missing, has another type, or has values that the writer's schema has no
            field for.
        HoodieException: The values take 2 GB or more: encode fewer at a time.
    """
    if payload is MetadataPayload.RECORD_INDEX and rows.num_rows > _FEW_ROWS:
        distinct, places = _distinct_rows(rows)
        if distinct.num_rows < rows.num_rows // 2:
            return _encoded(distinct, writer_schema, payload, base_file_name).take(places)
    return _encoded(rows, writer_schema, payload, base_file_name)


def _distinct_rows(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array]:
    """The distinct rows, and the place of each row among them."""
    numbers, largest = np.zeros(rows.num_rows, np.int64), 1
    for column in rows.columns:
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode("encode")
        count = len(coded.dictionary)
        if count == 1:
            continue
        if largest * count > _MAX_NUMBER:
            _, numbers = np.unique(numbers, return_inverse=True)
            largest = rows.num_rows
        numbers = numbers * count + coded.indices.to_numpy()
        largest *= count
    _, first, places = np.unique(numbers, return_index=True, return_inverse=True)
    return rows.take(pa.array(first)), pa.array(places)


def _encoded(
    rows: pa.RecordBatch, writer_schema: str, payload: MetadataPayload, base_file_name: str | None
) -> pa.Array:
    tree = record_tree(writer_schema)
    count = rows.num_rows
    given = dict(zip(rows.schema.names, rows.columns, strict=True))
    columns: dict[str, pa.Array] = {}
    for name, node in zip(tree.names, tree.inner, strict=True):
        if name == payload.field:
            columns[name] = _PAYLOAD_OF[payload](given, _one_record(node), writer_schema)
        elif name == TYPE_FIELD:
            columns[name] = _column(given, "type", pa.int32())
        elif name == KEY_FIELD:
            columns[name] = pa.repeat("", count)
        elif name == FILE_NAME_META and base_file_name is not None:
            columns[name] = pa.repeat(base_file_name, count)
        else:
            columns[name] = pa.nulls(count, pa.string())
    if payload.field not in tree.names:
        raise HoodieSchemaException(f"Cannot write records with {payload.field}: the schema has no such field")
    # Imported here: readers encode nothing, and start earlier without.
    from hoodie.avro.columnar_encoder import encode_records

    encoded = encode_records(
        pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)),
        schema_of_payload(writer_schema, payload.field),
        has_variants=True,
    )
    if len(encoded.data) > _MAX_COLUMN_BYTES:
        raise HoodieException(f"{count} records take {len(encoded.data)} bytes: encode fewer at a time")
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(encoded.lengths, out=offsets[1:])
    return pieces_of(encoded.data, offsets)


def _files_payload(given: dict[str, pa.Array], node: AvroType, writer_schema: str) -> pa.Array:
    files = _column(given, "files", MetadataPayload.FILES.schema.field("files").type)
    infos = pa.StructArray.from_arrays(files.items.flatten(), names=["size", "isDeleted"])
    return maps_like(files, infos, pa.map_(pa.string(), infos.type))


def _bloom_payload(given: dict[str, pa.Array], node: AvroType, writer_schema: str) -> pa.Array:
    schema = MetadataPayload.BLOOM_FILTER.schema
    columns = {
        avro: _column(given, name, schema.field(name).type)
        for avro, name in (
            ("type", "bloom_type"),
            ("timestamp", "timestamp"),
            ("bloomFilter", "bloom_filter"),
            ("isDeleted", "is_deleted"),
        )
    }
    return _payload(columns, node)


def _column_stats_payload(given: dict[str, pa.Array], node: AvroType, writer_schema: str) -> pa.Array:
    schema = MetadataPayload.COLUMN_STATS.schema
    count = len(_column(given, "type", pa.int32()))
    columns = {
        avro: _column(given, name, schema.field(name).type)
        for avro, name in (
            ("fileName", "file_name"),
            ("columnName", "column_name"),
            ("valueCount", "value_count"),
            ("nullCount", "null_count"),
            ("totalSize", "total_size"),
            ("totalUncompressedSize", "total_uncompressed_size"),
            ("isDeleted", "is_deleted"),
        )
    }
    for avro, name in (("minValue", "min_value"), ("maxValue", "max_value")):
        columns[avro] = _stored_branches(_column(given, name, VARIANT), wrapper_numbers(writer_schema, avro))
    if "is_tight_bound" in given:
        tight = given["is_tight_bound"]
        columns["isTightBound"] = tight.fill_null(False) if "isTightBound" in node.names else tight
    if "value_type" in given:
        ordinals = given["value_type"].cast(pa.int32())
        infos = given.get("value_type_info", pa.nulls(count, pa.string())).cast(pa.string())
        columns["valueType"] = pa.StructArray.from_arrays(
            [ordinals, infos], names=["typeOrdinal", "additionalInfo"], mask=ordinals.is_null()
        )
    return _payload(columns, node)


def _record_index_payload(given: dict[str, pa.Array], node: AvroType, writer_schema: str) -> pa.Array:
    partitions = _column(given, "partition_path", pa.string())
    columns = {"partitionName": partitions, "instantTime": _column(given, "instant_millis", pa.int64())}
    file_ids = _column(given, "file_id", pa.string())
    columns.update(zip(RECORD_INDEX_FIELDS, stored_file_ids(file_ids), strict=True))
    if "position" in given:
        columns["position"] = given["position"]
    return _payload(columns, node)


def _secondary_index_payload(given: dict[str, pa.Array], node: AvroType, writer_schema: str) -> pa.Array:
    return _payload({"isDeleted": _column(given, "is_deleted", pa.bool_())}, node)


_PAYLOAD_OF = {
    MetadataPayload.FILES: _files_payload,
    MetadataPayload.BLOOM_FILTER: _bloom_payload,
    MetadataPayload.COLUMN_STATS: _column_stats_payload,
    MetadataPayload.RECORD_INDEX: _record_index_payload,
    MetadataPayload.SECONDARY_INDEX: _secondary_index_payload,
}


def _column(given: dict[str, pa.Array], name: str, arrow_type: pa.DataType) -> pa.Array:
    if name not in given:
        raise HoodieSchemaException(f"Cannot write records of a metadata table: their column {name!r} is missing")
    values = given[name]
    return values if values.type == arrow_type else values.cast(arrow_type)


def _payload(columns: dict[str, pa.Array], node: AvroType) -> pa.Array:
    """A struct with the fields of the writer's schema."""
    count = len(next(iter(columns.values())))
    for name, values in columns.items():
        if name not in node.names and values.null_count < count:
            raise HoodieSchemaException(f"Cannot write records of a metadata table: their schema has no field {name}")
    fields = {
        name: columns[name] if name in columns else pa.nulls(count, field.arrow_type)
        for name, field in zip(node.names, node.inner, strict=True)
    }
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


def _stored_branches(values: pa.Array, numbers: tuple[int, ...]) -> pa.Array:
    """Variants with the branch numbers of a writer's schema."""
    if numbers == tuple(range(len(WRAPPERS))):
        return values
    places = [numbers.index(number) if number in numbers else None for number in range(len(WRAPPERS))]
    columns = values.flatten()
    branches = pa.array(places, pa.int8()).take(columns[0])
    if branches.null_count > columns[0].null_count:
        unknown = pc.filter(columns[0], pc.and_(branches.is_null(), columns[0].is_valid()))[0].as_py()
        raise HoodieSchemaException(
            f"Cannot write column statistics: the schema has no {WRAPPERS[unknown]} for a smallest or largest value"
        )
    return pa.StructArray.from_arrays([branches, *columns[1:]], fields=list(VARIANT), mask=values.is_null())


def _node(tree: AvroType, name: str) -> AvroType:
    return tree.inner[tree.names.index(name)]


def _one_record(node: AvroType) -> AvroType:
    return next(branch for branch in node.inner if branch.kind != "null") if node.kind == "union" else node

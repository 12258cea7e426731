"""Timeline files in Avro: plans and metadata of rollbacks, cleans, savepoints, compactions and clusterings.

Each is an Avro object container with one record and no compression. The record has Hudi's full name, because Java
resolves by name. `encode` and `decode` work on attrs classes, for records that hoodie writes; `encode_record` and
`decode_record` on dicts with Hudi's field names, for every record of `RECORDS`.

Schemas are those of Hudi 0.15, but for the metadata of commits in timeline layout 2 and the partitions of an indexing,
whose schemas are those of Hudi 1.x. A newer writer's additional fields are skipped, an older one's missing fields get
their defaults.

Hudi: the records of package org.apache.hudi.avro.model, org.apache.hudi.common.table.timeline.TimelineMetadataUtils.
"""

from __future__ import annotations

import functools
import json
import os
import re
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import ModuleType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import attrs

from hoodie.avro.datum_encoder import DatumEncoder, datum_encoder
from hoodie.exception import HoodieCorruptedDataException, HoodieException

NAMESPACE = "org.apache.hudi.avro.model"
"""The namespace of all records here."""

RECORDS: Mapping[str, str] = {
    "HoodieActionInstant": "timestamp string; action string; state string",
    "HoodieArchivedMetaEntry": (
        "hoodieCommitMetadata HoodieCommitMetadata?; hoodieCleanMetadata HoodieCleanMetadata?; "
        "hoodieCompactionMetadata HoodieCompactionMetadata?; hoodieRollbackMetadata HoodieRollbackMetadata?; "
        "hoodieSavePointMetadata HoodieSavepointMetadata?; commitTime string?; actionType string?; version int?=1; "
        "hoodieCompactionPlan HoodieCompactionPlan?; hoodieCleanerPlan HoodieCleanerPlan?; actionState string?; "
        "hoodieReplaceCommitMetadata HoodieReplaceCommitMetadata?; "
        "hoodieRequestedReplaceMetadata HoodieRequestedReplaceMetadata?; "
        "HoodieInflightReplaceMetadata HoodieCommitMetadata?; hoodieIndexCommitMetadata HoodieIndexCommitMetadata?; "
        "stateTransitionTime string?"
    ),
    "HoodieCleanFileInfo": "filePath string?; isBootstrapBaseFile boolean?",
    "HoodieCleanMetadata": (
        "startCleanTime string; timeTakenInMillis long; totalFilesDeleted int; earliestCommitToRetain string; "
        'lastCompletedCommitTimestamp string=""; partitionMetadata {HoodieCleanPartitionMetadata}; version int?=1; '
        "bootstrapPartitionMetadata {HoodieCleanPartitionMetadata}?; extraMetadata {string}?"
    ),
    "HoodieCleanPartitionMetadata": (
        "partitionPath string; policy string; deletePathPatterns [string]; successDeleteFiles [string]; "
        "failedDeleteFiles [string]; isPartitionDeleted boolean?"
    ),
    "HoodieCleanerPlan": (
        'earliestInstantToRetain HoodieActionInstant?; lastCompletedCommitTimestamp string=""; policy string; '
        "filesToBeDeletedPerPartition {[string]}?; version int?=1; "
        "filePathsToBeDeletedPerPartition {[HoodieCleanFileInfo]}?; partitionsToBeDeleted [string]?; "
        "extraMetadata {string}?"
    ),
    "HoodieClusteringGroup": (
        "slices [HoodieSliceInfo]?; metrics {double}?; numOutputFileGroups int?=1; extraMetadata {string}?; "
        "version int?=1"
    ),
    "HoodieClusteringPlan": (
        "inputGroups [HoodieClusteringGroup]?; strategy HoodieClusteringStrategy?; extraMetadata {string}?; "
        "version int?=1; preserveHoodieMetadata boolean?"
    ),
    "HoodieClusteringStrategy": "strategyClassName string?; strategyParams {string}?; version int?=1",
    "HoodieCommitMetadata": (
        "partitionToWriteStats {[HoodieWriteStat]}?; extraMetadata {string}?; version int?=1; operationType string?"
    ),
    "HoodieCompactionMetadata": "partitionToCompactionWriteStats {[HoodieCompactionWriteStat]}?!",
    "HoodieCompactionOperation": (
        "baseInstantTime string?!; deltaFilePaths [string]?; dataFilePath string?; fileId string?!; "
        "partitionPath string?; metrics {double}?; bootstrapFilePath string?"
    ),
    "HoodieCompactionPlan": (
        "operations [HoodieCompactionOperation]?; extraMetadata {string}?; version int?=1; "
        "strategy HoodieCompactionStrategy?; preserveHoodieMetadata boolean?=false"
    ),
    "HoodieCompactionStrategy": "compactorClassName string?; strategyParams {string}?; version int?=1",
    "HoodieCompactionWriteStat": (
        "partitionPath string?; totalLogRecords long?; totalLogFiles long?; totalUpdatedRecordsCompacted long?; "
        "hoodieWriteStat HoodieWriteStat?"
    ),
    "HoodieIndexCommitMetadata": (
        "version int?=1; operationType string?; indexPartitionInfos [HoodieIndexPartitionInfo]?"
    ),
    "HoodieIndexPartitionInfo": (
        "version int?=1; metadataPartitionPath string?; indexUptoInstant string?; extraMetadata {string}?"
    ),
    "HoodieIndexPlan": "version int?=1; indexPartitionInfos [HoodieIndexPartitionInfo]?",
    "HoodieInstantInfo": "commitTime string; action string",
    "HoodieMergeArchiveFilePlan": "version int?=1; candidate [string]?; mergedArchiveFileName string?",
    "HoodieReplaceCommitMetadata": (
        "partitionToWriteStats {[HoodieWriteStat]}?; extraMetadata {string}?; version int?=1; operationType string?; "
        "partitionToReplaceFileIds {[string]}?"
    ),
    "HoodieRequestedReplaceMetadata": (
        "operationType string?; clusteringPlan HoodieClusteringPlan?; extraMetadata {string}?; version int?=1"
    ),
    "HoodieRestoreMetadata": (
        "startRestoreTime string; timeTakenInMillis long; instantsToRollback [string]; "
        "hoodieRestoreMetadata {[HoodieRollbackMetadata?]}; version int?=1; restoreInstantInfo [HoodieInstantInfo]=[]"
    ),
    "HoodieRestorePlan": (
        "instantsToRollback [HoodieInstantInfo]=[]; version int?=2; savepointToRestoreTimestamp string?"
    ),
    "HoodieRollbackMetadata": (
        "startRollbackTime string; timeTakenInMillis long; totalFilesDeleted int; commitsRollback [string]; "
        "partitionMetadata {HoodieRollbackPartitionMetadata}; version int?=1; instantsRollback [HoodieInstantInfo]=[]"
    ),
    "HoodieRollbackPartitionMetadata": (
        "partitionPath string; successDeleteFiles [string]; failedDeleteFiles [string]; rollbackLogFiles {long}?; "
        "logFilesFromFailedCommit {long}?"
    ),
    "HoodieRollbackPlan": (
        "instantToRollback HoodieInstantInfo?; RollbackRequests [HoodieRollbackRequest]?; version int?=1"
    ),
    "HoodieRollbackRequest": (
        "partitionPath string; fileId string?; latestBaseInstant string?; filesToBeDeleted [string]=[]; "
        "logBlocksToBeDeleted {long}?"
    ),
    "HoodieSavepointMetadata": (
        "savepointedBy string; savepointedAt long; comments string; "
        "partitionMetadata {HoodieSavepointPartitionMetadata}; version int?=1"
    ),
    "HoodieSavepointPartitionMetadata": "partitionPath string; savepointDataFile [string]",
    "HoodieSliceInfo": (
        "dataFilePath string?; deltaFilePaths [string]?; fileId string?!; partitionPath string?; "
        "bootstrapFilePath string?; version int?=1"
    ),
    "HoodieWriteStat": (
        "fileId string?; path string?; prevCommit string?; numWrites long?; numDeletes long?; numUpdateWrites long?; "
        "totalWriteBytes long?; totalWriteErrors long?; partitionPath string?; totalLogRecords long?; "
        "totalLogFiles long?; totalUpdatedRecordsCompacted long?; numInserts long?; totalLogBlocks long?; "
        "totalCorruptLogBlock long?; totalRollbackBlocks long?; fileSizeInBytes long?"
    ),
}
"""Record name to fields in their order: ``[T]`` is an array, ``{T}`` a map with string keys, ``T=x`` has the default x.
``T?`` is null or T with the default null, ``T?!`` the same without a default, ``T?=x`` is T or null with the default x.
"""

RECORDS_OF_LAYOUT_2: Mapping[str, str] = {
    **RECORDS,
    "HoodieClusteringPlan": (
        "inputGroups [HoodieClusteringGroup]?; strategy HoodieClusteringStrategy?; extraMetadata {string}?; "
        "version int?=1; preserveHoodieMetadata boolean?; missingSchedulePartitions [string]?"
    ),
    "HoodieCompactionPlan": (
        "operations [HoodieCompactionOperation]?; extraMetadata {string}?; version int?=1; "
        "strategy HoodieCompactionStrategy?; preserveHoodieMetadata boolean?=false; "
        "missingSchedulePartitions [string]?"
    ),
    "HoodieCommitMetadata": (
        "partitionToWriteStats {[HoodieWriteStat]}?; compacted boolean?; extraMetadata {string}?; version int?=1; "
        "operationType string?"
    ),
    "HoodieReplaceCommitMetadata": (
        "partitionToWriteStats {[HoodieWriteStat]}?; compacted boolean?; extraMetadata {string}?; version int?=1; "
        "operationType string?; partitionToReplaceFileIds {[string]}?"
    ),
    "HoodieRuntimeStats": "totalScanTime long?; totalCreateTime long?; totalUpsertTime long?",
    "HoodieWriteStat": (
        "fileId string?; path string?; prevCommit string?; numWrites long?; numDeletes long?; numUpdateWrites long?; "
        "totalWriteBytes long?; totalWriteErrors long?; partitionPath string?; totalLogRecords long?; "
        "totalLogFiles long?; totalUpdatedRecordsCompacted long?; numInserts long?; totalLogBlocks long?; "
        "totalCorruptLogBlock long?; totalRollbackBlocks long?; fileSizeInBytes long?; logVersion int?; "
        "logOffset long?; baseFile string?; logFiles [string]?; cdcStats {long}?; prevBaseFile string?; "
        "minEventTime long?; maxEventTime long?; runtimeStats HoodieRuntimeStats?; totalLogFilesCompacted long?; "
        "totalLogReadTimeMs long?; totalLogSizeCompacted long?; tempPath string?; numUpdates long?"
    ),
}
"""`RECORDS` as timeline layout 2 has them."""

_NEWEST_LAYOUT = 2
"""Plans are read and written as this layout has them: Hudi 0.15 skips the fields that it does not know."""
_METADATA_ENCODER = datum_encoder({"type": "map", "values": "string"})
"""Encodes the header of a container; its values are bytes, which have the same encoding as strings."""
_LONG_ENCODER = datum_encoder("long")
_STRING = {"type": "string", "avro.java.string": "String"}
_PRIMITIVES = frozenset({"boolean", "int", "long", "double"})
_FIELD = re.compile(r"(?P<name>\w+) (?P<type>[^=?!\s]*(?:\?[\]}]+)?)(?P<nullable>\??)(?P<bare>!?)(?:=(?P<default>.+))?")
_T = TypeVar("_T")


def avro_field(name: str) -> dict[str, str]:
    """Metadata of an attribute whose Avro field is not the attribute's name in camelCase.

    Args:
        name: The field in Hudi's schema.
    """
    return {"name": name}


@attrs.frozen
class HoodieInstantInfo:
    """An instant that is being rolled back, or was."""

    commit_time: str
    action: str


@attrs.frozen
class HoodieRollbackRequest:
    """The files and log blocks that a rollback deletes in one partition.

    Attributes:
        partition_path: The partition.
        file_id: The file group whose log blocks are undone; None if only files are deleted.
        latest_base_instant: The base instant of that group's slice.
        files_to_be_deleted: Full paths.
        log_blocks_to_be_deleted: Full path of a log file to its size in bytes.
    """

    partition_path: str
    file_id: str | None = None
    latest_base_instant: str | None = None
    files_to_be_deleted: tuple[str, ...] = ()
    log_blocks_to_be_deleted: Mapping[str, int] | None = attrs.field(factory=dict)


@attrs.frozen
class HoodieRollbackPlan:
    """The content of a requested rollback: the instant, and the files to delete."""

    instant_to_rollback: HoodieInstantInfo | None
    rollback_requests: tuple[HoodieRollbackRequest, ...] = attrs.field(
        default=(), metadata=avro_field("RollbackRequests")
    )
    version: int | None = 1


@attrs.frozen
class HoodieRollbackPartitionMetadata:
    """The files that a rollback deleted in one partition, as full paths."""

    partition_path: str
    success_delete_files: tuple[str, ...] = ()
    failed_delete_files: tuple[str, ...] = ()
    rollback_log_files: Mapping[str, int] | None = attrs.field(factory=dict)
    log_files_from_failed_commit: Mapping[str, int] | None = attrs.field(factory=dict)


@attrs.frozen
class HoodieRollbackMetadata:
    """The content of a completed rollback.

    Attributes:
        start_rollback_time: The rollback's own instant time.
        time_taken_ms: The duration.
        total_files_deleted: The number of deleted files.
        commits_rollback: The instant times that were rolled back.
        partition_metadata: Partition path -> the files deleted there.
        version: 1.
        instants_rollback: The instants that were rolled back, with their actions.
    """

    start_rollback_time: str
    time_taken_ms: int = attrs.field(metadata=avro_field("timeTakenInMillis"))
    total_files_deleted: int
    commits_rollback: tuple[str, ...]
    partition_metadata: Mapping[str, HoodieRollbackPartitionMetadata] = attrs.field(factory=dict)
    version: int | None = 1
    instants_rollback: tuple[HoodieInstantInfo, ...] = ()


@attrs.frozen
class HoodieSliceInfo:
    """A file slice that a clustering rewrites.

    Attributes:
        data_file_path: Full path of its base file, with a scheme; "" if it has none.
        delta_file_paths: Full paths of its log files, the newest first.
        file_id: Its file group.
        partition_path: Its partition.
        bootstrap_file_path: "", because bootstrapped tables are not supported.
        version: 1.
    """

    data_file_path: str | None
    delta_file_paths: tuple[str, ...]
    file_id: str | None
    partition_path: str | None
    bootstrap_file_path: str | None = ""
    version: int | None = 1


@attrs.frozen
class HoodieClusteringGroup:
    """File slices of one partition that a clustering rewrites together.

    Attributes:
        slices: The slices.
        metrics: The size of the work, by Hudi's names.
        num_output_file_groups: The expected number of new files.
        extra_metadata: Additional strings of a strategy; Hudi's consistent hashing uses them.
        version: 1.
    """

    slices: tuple[HoodieSliceInfo, ...]
    metrics: Mapping[str, float] | None = attrs.field(factory=dict)
    num_output_file_groups: int | None = 1
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = 1


@attrs.frozen
class HoodieClusteringStrategy:
    """The rewriting of the groups of a clustering: the full name of Hudi's execution class, and its parameters."""

    strategy_class_name: str | None
    strategy_params: Mapping[str, str] | None = attrs.field(factory=dict)
    version: int | None = 1


@attrs.frozen
class HoodieClusteringPlan:
    """The plan of a clustering.

    Attributes:
        input_groups: The slices that are rewritten.
        strategy: The way in which they are.
        extra_metadata: Additional strings.
        version: 1.
        preserve_hoodie_metadata: Whether rows keep their commit times; None counts as true.
        missing_schedule_partitions: The partitions that were not looked at to their end. The next plan of Hudi 1.2.0
            looks at these, and at those that were written since this one. Hudi 0.15 has no such field.
    """

    input_groups: tuple[HoodieClusteringGroup, ...]
    strategy: HoodieClusteringStrategy | None = None
    extra_metadata: Mapping[str, str] | None = attrs.field(factory=dict)
    version: int | None = 1
    preserve_hoodie_metadata: bool | None = True
    missing_schedule_partitions: tuple[str, ...] | None = ()


@attrs.frozen
class HoodieRequestedReplaceMetadata:
    """The content of a requested replace commit; all None for an insert overwrite or a delete of partitions.

    Attributes:
        operation_type: CLUSTER for a clustering.
        clustering_plan: The plan of a clustering.
        extra_metadata: Additional strings.
        version: 1 with a clustering plan.
    """

    operation_type: str | None = None
    clustering_plan: HoodieClusteringPlan | None = None
    extra_metadata: Mapping[str, str] | None = None
    version: int | None = None


def encode(value: attrs.AttrsInstance) -> bytes:
    """The timeline file of one of this module's classes, with all of their fields in both layouts.

    Raises:
        HoodieException: An attribute has a value that its schema does not allow.
    """
    return encode_record(type(value).__name__, _to_value(value), _NEWEST_LAYOUT)


def decode(data: bytes, cls: type[_T], source: str = "") -> _T:
    """Read a timeline file into one of this module's classes.

    Args:
        data: The file's content.
        cls: The class, which has the record's name.
        source: The path of the file, for the error message.

    Raises:
        HoodieCorruptedDataException: The file is empty, cut short or damaged, or holds another record.
    """
    decoded: _T = _from_value(cls, decode_record(data, cls.__name__, source, _NEWEST_LAYOUT))
    return decoded


def encode_record(name: str, value: Mapping[str, Any], layout: int = 1) -> bytes:
    """The timeline file of a record.

    Args:
        name: One of `RECORDS`.
        value: Avro field to value; every field is there.
        layout: The version of the timeline's layout.

    Raises:
        HoodieException: A field has a value that its schema does not allow.
    """
    [datum] = encode_datums(name, [value], layout)
    return _container(_schema_text(name, layout), datum)


def _container(schema: str, datum: bytes) -> bytes:
    sync_marker = os.urandom(16)
    out = bytearray(b"Obj\x01")
    _METADATA_ENCODER(out, {"avro.codec": "null", "avro.schema": schema})
    out += sync_marker
    _LONG_ENCODER(out, 1)
    _LONG_ENCODER(out, len(datum))
    return bytes(out + datum + sync_marker)


def decode_record(data: bytes, name: str, source: str = "", layout: int = 1) -> dict[str, Any]:
    """Read a timeline file as a dict of Avro field to value.

    Args:
        data: The file's content.
        name: One of `RECORDS`; the file must hold exactly one.
        source: The path of the file, for the error message.
        layout: The version of the timeline's layout whose fields are given; those that the writer lacks are defaults.

    Raises:
        HoodieCorruptedDataException: The file is empty, cut short or damaged, or holds another record.
    """
    return _the_record(data, lambda: _reader().read_container(data, _schema_text(name, layout), limit=2), name, source)


def decode_as_written(data: bytes, names: Collection[str], source: str = "") -> dict[str, Any]:
    """Read a timeline file as a dict of the Avro fields that its writer gave to their values.

    Args:
        data: The file's content.
        names: Records of the package `NAMESPACE`; the file must hold exactly one, of one of these.
        source: The path of the file, for the error message.

    Raises:
        HoodieCorruptedDataException: The file is empty, cut short or damaged, or holds another record.
    """

    def read() -> list[dict[str, Any]]:
        name, records = _reader().read_container_as_written(data, limit=2)
        if name.removeprefix(f"{NAMESPACE}.") not in names:
            raise ValueError(f"it holds a {name}")
        found: list[dict[str, Any]] = records
        return found

    return _the_record(data, read, " or ".join(sorted(names)), source)


def changed_record(data: bytes, change: Callable[[Any], Any], source: str = "") -> bytes:
    """A timeline file after a change of its record; in the schema that its writer gave it.

    Args:
        data: The file's content.
        change: Takes the record as a dict of Avro field to value, and returns it changed, or equal.
        source: The path of the file, for the error message.

    Returns:
        The content; ``data`` itself if the record stays equal.

    Raises:
        HoodieCorruptedDataException: The file is damaged.
    """
    record = _the_record(data, lambda: _reader().read_container_as_written(data, limit=2)[1], "record", source)
    schema = _reader().schema_of_container(data)
    changed = change(record)
    return data if changed == record else _container(schema, _encoded_as(schema, changed, source))


def changed_datum(schema: str, datum: bytes, change: Callable[[Any], Any], source: str = "") -> bytes:
    """A bare Avro record after a change; see `changed_record`.

    Args:
        schema: The schema that it was written with.
        datum: The record.
        change: See `changed_record`.
        source: The path of the file, for the error message.

    Raises:
        HoodieCorruptedDataException: The schema or the record is damaged.
    """
    [record] = decode_datums(schema, [datum], source)
    changed = change(record)
    return datum if changed == record else _encoded_as(schema, changed, source)


def _encoded_as(schema: str, value: Any, source: str) -> bytes:
    out = bytearray()
    try:
        datum_encoder(json.loads(schema))(out, value)
    except (AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
        raise HoodieException(f"Cannot write {source} again: {_describe(error)}") from error
    return bytes(out)


def _the_record(data: bytes, read: Callable[[], list[dict[str, Any]]], name: str, source: str) -> dict[str, Any]:
    """The one record of a container.

    Raises:
        HoodieCorruptedDataException: There is none, or the container cannot be read.
    """
    what = f"{source or 'a timeline file'} as a {name}"
    if not data:
        raise HoodieCorruptedDataException(f"Cannot read {what}: it is empty")
    try:
        records = read()
    except ImportError as error:
        raise _missing_module(what, error) from error
    except Exception as error:  # Whatever the library raises on bytes that nobody checked.
        raise HoodieCorruptedDataException(
            f"Cannot read {what} ({len(data)} bytes): {_describe(error)}. The file is damaged, cut short or another's."
        ) from error
    if len(records) != 1 or not isinstance(records[0], dict):
        raise HoodieCorruptedDataException(f"Cannot read {what}: it holds {len(records) or 'no'} records, not one")
    return records[0]


def _missing_module(what: str, error: ImportError) -> HoodieException:
    """The error for a module that the reading needs: the file is good, the installation is not."""
    return HoodieException(
        f"Cannot read {what}: the Python module {error.name or error} cannot be imported ({error}); install it. The "
        "file is not damaged"
    )


def encode_datums(name: str, values: Iterable[Mapping[str, Any]], layout: int = 1) -> list[bytes]:
    """Bare Avro records, as blocks of a log file hold them.

    Args:
        name: One of `RECORDS`; the schema of its records is `schema_of`.
        values: Avro field to value; every field is there, in nested records too.
        layout: The version of the timeline's layout.

    Raises:
        HoodieException: A field has a value that its schema does not allow.
    """
    encoder = _datum_encoder(name, layout)
    datums = []
    for value in values:
        datum = bytearray()
        try:
            encoder(datum, value)
        except (AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
            raise HoodieException(f"Cannot write a {name}: {_describe(error)}") from error
        datums.append(bytes(datum))
    return datums


def decode_datums(schema: str, datums: Sequence[bytes], source: str = "") -> list[dict[str, Any]]:
    """Read bare Avro records, as blocks of a log file hold them.

    Args:
        schema: The schema that they were written with, of a record.
        datums: One record each.
        source: The path of the file, for the error message.

    Raises:
        HoodieCorruptedDataException: The schema or a record is damaged.
    """
    return _decoded(lambda: _reader().read_datums(schema, datums), source)


def decode_datum_as(schema: str, datum: bytes, name: str, source: str = "") -> dict[str, Any]:
    """Read a bare Avro record as a record of `RECORDS`: fields that its writer did not know get their defaults.

    Args:
        schema: The schema that it was written with.
        datum: The record.
        name: One of `RECORDS`.
        source: The path of the file, for the error message.

    Raises:
        HoodieCorruptedDataException: The schema or the record is damaged, or is that of another record.
    """
    return decode_record(_container(schema, datum), name, source)


def decode_heads(
    schema: str, datums: Sequence[bytes], names: Sequence[str], source: str = ""
) -> list[dict[str, str | None]]:
    """Read some fields of bare Avro records, which is cheap even if the other fields are large.

    Args:
        schema: The schema of a record with which they were written.
        datums: The bytes of the records.
        names: Fields of strings; fields that the schema lacks are None.
        source: The path of the file, for the error message.

    Raises:
        HoodieCorruptedDataException: The schema or a record is damaged.
    """
    return _decoded(lambda: _reader().read_fields(schema, datums, names), source)


def _decoded(read: Callable[[], list[_T]], source: str) -> list[_T]:
    try:
        return read()
    except ImportError as error:
        raise _missing_module(f"Avro records of {source or 'a log block'}", error) from error
    except Exception as error:  # As in decode_record.
        raise HoodieCorruptedDataException(
            f"Cannot read Avro records of {source or 'a log block'}: {_describe(error)}"
        ) from error


def schema_of(name: str, layout: int = 1) -> dict[str, Any]:
    """The Avro schema of a record of `RECORDS`, as the value of its JSON.

    The first use of a nested record defines it, later ones name it.

    Args:
        name: The record.
        layout: The version of the timeline's layout.
    """
    fields = _Schemas(RECORDS if layout == 1 else RECORDS_OF_LAYOUT_2, {name}).fields_of(name)
    return {"type": "record", "name": name, "namespace": NAMESPACE, "fields": fields}


def complete(record: str, value: Any, layout: int = 1) -> dict[str, Any]:
    """A value with exactly the fields of its record; missing ones get their defaults.

    Args:
        record: One of `RECORDS`.
        value: Avro field to value.
        layout: The version of the timeline's layout.

    Raises:
        HoodieCorruptedDataException: The value is no mapping.
    """
    if not isinstance(value, Mapping):
        raise HoodieCorruptedDataException(f"a {record} is a {type(value).__name__}, not an object")
    return {name: value.get(name, default) for name, default in _defaults(record, layout)}


@functools.cache
def _defaults(record: str, layout: int) -> tuple[tuple[str, Any], ...]:
    return tuple((field["name"], field.get("default")) for field in schema_of(record, layout)["fields"])


@attrs.frozen
class _Schemas:
    """Makes the schema of one record.

    Attributes:
        records: The fields of all records.
        defined: The records whose definition the schema holds already.
    """

    records: Mapping[str, str]
    defined: set[str]

    def fields_of(self, name: str) -> list[dict[str, Any]]:
        return [self._field_of(text.strip()) for text in self.records[name].split(";")]

    def _field_of(self, text: str) -> dict[str, Any]:
        match = _FIELD.fullmatch(text)
        if match is None:
            raise ValueError(f"not a field: {text!r}")
        field = {"name": match["name"], "type": self._type_of(match["type"])}
        if match["nullable"] and match["default"]:
            return field | {"type": [field["type"], "null"], "default": json.loads(match["default"])}
        if match["nullable"]:
            return field | {"type": ["null", field["type"]]} | ({} if match["bare"] else {"default": None})
        return field | {"default": json.loads(match["default"])} if match["default"] else field

    def _type_of(self, text: str) -> Any:
        if text.endswith("?"):
            return ["null", self._type_of(text[:-1])]
        if text.startswith("["):
            return {"type": "array", "items": self._type_of(text[1:-1])}
        if text.startswith("{"):
            return {"type": "map", "values": self._type_of(text[1:-1]), "avro.java.string": "String"}
        if text == "string":
            return _STRING
        if text in _PRIMITIVES or text in self.defined:
            return text
        self.defined.add(text)
        return {"type": "record", "name": text, "fields": self.fields_of(text)}


@functools.cache
def _schema_text(name: str, layout: int = 1) -> str:
    return json.dumps(schema_of(name, layout), separators=(",", ":"))


@functools.cache
def _datum_encoder(name: str, layout: int) -> DatumEncoder:
    return datum_encoder(schema_of(name, layout))


def _reader() -> ModuleType:
    """Here, so that a start without Avro to read does not take as long."""
    from hoodie.avro import datum_reader

    return datum_reader


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:300]


@functools.cache
def _attributes_of(cls: type) -> tuple[tuple[str, str, Callable[[Any], Any] | None], ...]:
    """Each attribute of a class, its Avro field, and the conversion of the decoded value, which its type decides."""
    types = get_type_hints(cls)
    return tuple(
        (field.name, field.metadata.get("name") or _in_camel_case(field.name), _conversion_to(types[field.name]))
        for field in attrs.fields(cls)
    )


def _in_camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _conversion_to(hint: Any) -> Callable[[Any], Any] | None:
    """The conversion of a decoded value to a type; None if the value needs none.

    An absent array is an empty tuple, and an absent map an empty dict, unless the type allows None.
    """
    kind, arguments = get_origin(hint), get_args(hint)
    if kind is UnionType:
        inner = _conversion_to(arguments[0])
        return inner and (lambda value: None if value is None else inner(value))
    if kind is tuple:
        of_item = _conversion_to(arguments[0])
        return lambda values: tuple(map(of_item, values or ()) if of_item else values or ())
    if kind is Mapping:
        of_value = _conversion_to(arguments[1])
        return of_value and (lambda values: {key: of_value(value) for key, value in (values or {}).items()})
    return functools.partial(_from_value, hint) if isinstance(hint, type) and attrs.has(hint) else None


def _to_value(value: Any) -> Any:
    cls: type = type(value)
    if attrs.has(cls):
        return {field: _to_value(getattr(value, name)) for name, field, _ in _attributes_of(cls)}
    if isinstance(value, Mapping):
        return {key: _to_value(item) for key, item in value.items()}
    return [_to_value(item) for item in value] if isinstance(value, tuple | list) else value


def _from_value(cls: type, value: Mapping[str, Any]) -> Any:
    return cls(*[convert(value[field]) if convert else value[field] for _, field, convert in _attributes_of(cls)])

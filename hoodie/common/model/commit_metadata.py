"""The metadata of a commit, delta commit or replace commit: JSON in table version 6, an Avro record in 8 and 9.

The JSON has the fields, their order and the layout of Hudi 0.15 (which Jackson prints), so that files of both writers
look alike. Any JSON of that shape can be read: unknown fields are ignored, missing ones have Hudi's defaults.

A stat without a path belongs to the profile of an inflight instant. Hudi writes ``"partitionPath" : null`` for it, and
so does `HoodieCommitMetadata.to_json`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from hoodie.avro.timeline_metadata import complete
from hoodie.common.model.write_operation_type import REWRITES, WriteOperationType
from hoodie.common.model.write_stat import NULL_COMMIT, HoodieWriteStat, RuntimeStats
from hoodie.exception import HoodieCorruptedDataException
from hoodie.storage.storage_path import check_inside

logger = logging.getLogger(__name__)

SCHEMA_KEY = "schema"
"""The key of the writer's Avro schema, without meta columns, in the extra metadata."""
RESERVED_METADATA_KEYS = frozenset({SCHEMA_KEY, "latest_schema"})
"""Keys in the extra metadata whose values Hudi reads as schemas: the writer's, and that of schema evolution on read."""
READS_ROWS_KEY = "hoodie.write.reads.stored.rows"
"""The key in the extra metadata of a commit of hoodie that was computed from stored rows: ``true``."""

_COUNTS = (
    ("numWrites", "num_writes"),
    ("numDeletes", "num_deletes"),
    ("numUpdateWrites", "num_update_writes"),
    ("numInserts", "num_inserts"),
    ("totalWriteBytes", "total_write_bytes"),
    ("totalWriteErrors", "total_write_errors"),
    ("totalLogRecords", "total_log_records"),
    ("totalLogFilesCompacted", "total_log_files_compacted"),
    ("totalLogSizeCompacted", "total_log_size_compacted"),
    ("totalUpdatedRecordsCompacted", "total_updated_records_compacted"),
    ("totalLogBlocks", "total_log_blocks"),
    ("totalCorruptLogBlock", "total_corrupt_log_block"),
    ("totalRollbackBlocks", "total_rollback_blocks"),
    ("fileSizeInBytes", "file_size_bytes"),
)
_COUNTS_BEFORE_TEMP_PATH = 6
_MetadataT = TypeVar("_MetadataT", bound="HoodieCommitMetadata")


@attrs.frozen
class HoodieCommitMetadata:
    """The metadata of an instant that wrote files.

    Attributes:
        partition_to_write_stats: Partition path ("" in a table without partitions) -> one stat for each written file.
        extra_metadata: Strings that are stored with the commit; the writer's schema is under `SCHEMA_KEY`.
        operation_type: The operation of the commit.
        compacted: Whether a compaction made the commit.

    Hudi: org.apache.hudi.common.model.HoodieCommitMetadata.
    """

    partition_to_write_stats: Mapping[str, tuple[HoodieWriteStat, ...]] = attrs.field(factory=dict)
    extra_metadata: Mapping[str, str] = attrs.field(factory=dict)
    operation_type: WriteOperationType = WriteOperationType.UNKNOWN
    compacted: bool = False

    @property
    def reads_rows(self) -> bool:
        """Whether a commit of hoodie was computed from stored rows of a table with buckets."""
        return self.extra_metadata.get(READS_ROWS_KEY) == "true"

    @property
    def only_rewrites(self) -> bool:
        """Whether the commit wrote rows again and changed none: a clustering or a compaction."""
        return self.compacted or self.operation_type in REWRITES

    def to_json(self) -> bytes:
        """The metadata in the JSON of Hudi 0.15, as UTF-8."""
        return _pretty(self._to_json_value(), 0).encode()

    def to_avro_value(self) -> dict[str, Any]:
        """The Avro record of timeline layout 2: Avro field to value. It has the fields of the JSON and further ones.

        See `hoodie.avro.timeline_metadata.RECORDS_OF_LAYOUT_2`.
        """
        value = {
            **self._to_json_value(),
            "partitionToWriteStats": {
                partition: [_stat_to_avro(stat) for stat in stats]
                for partition, stats in self.partition_to_write_stats.items()
            },
            "version": None,
        }
        return complete(type(self).__name__, value, layout=2)

    @classmethod
    def from_json(
        cls: type[_MetadataT], data: bytes, source: str = "commit metadata", allow_empty: bool = False
    ) -> _MetadataT:
        """Parse metadata that Hudi or hoodie wrote.

        Args:
            data: The file's content.
            source: The path that it comes from, for the error message.
            allow_empty: Whether empty content means empty metadata, as in an inflight file.

        Raises:
            HoodieCorruptedDataException: It is not JSON of that shape, or names a path outside of the table.
        """
        if not data and allow_empty:
            return cls()
        try:
            value = json.loads(data.decode("utf-8"))
        except RecursionError as error:
            raise HoodieCorruptedDataException(f"Cannot read {source}: its JSON is nested too deeply") from error
        except ValueError as error:
            raise HoodieCorruptedDataException(
                f"Cannot read {source} ({len(data)} bytes) as the JSON of a commit: {error}. "
                "The file is damaged or was cut short; restore it or roll the instant back."
            ) from error
        return cls.from_value(value, source)

    @classmethod
    def from_value(cls: type[_MetadataT], value: Any, source: str = "commit metadata") -> _MetadataT:
        """Build metadata from decoded JSON, or from the Avro record of an archived commit, which has the same fields.

        Args:
            value: A mapping of fields to values.
            source: The path that it comes from, for the error message.

        Raises:
            HoodieCorruptedDataException: It does not have that shape, or names a path outside of the table.
        """
        try:
            return cls(**cls._fields_from_json(_object(value, "the top level")))
        except ValueError as error:
            raise HoodieCorruptedDataException(
                f"Cannot read {source} as the metadata of a commit: {error}. "
                "The file is damaged; restore it or roll the instant back."
            ) from error

    def _to_json_value(self) -> dict[str, Any]:
        return {
            "partitionToWriteStats": {
                partition: [_stat_to_json(stat) for stat in stats]
                for partition, stats in self.partition_to_write_stats.items()
            },
            "compacted": self.compacted,
            "extraMetadata": dict(self.extra_metadata),
            "operationType": self.operation_type.value,
        }

    @classmethod
    def _fields_from_json(cls, value: dict[str, Any]) -> dict[str, Any]:
        partitions = _object(value.get("partitionToWriteStats"), "partitionToWriteStats")
        return {
            "partition_to_write_stats": {
                _path(partition, "partition path"): tuple(
                    _stat_from_json(_object(stat, f"a stat of partition {partition!r}"), partition)
                    for stat in _array(stats, f"the stats of partition {partition!r}")
                )
                for partition, stats in partitions.items()
            },
            "extra_metadata": {
                key: text if isinstance(text, str) else json.dumps(text)
                for key, text in _object(value.get("extraMetadata"), "extraMetadata").items()
                if text is not None
            },
            "operation_type": _operation_type(value.get("operationType")),
            "compacted": value.get("compacted") is True,
        }

    @property
    def write_stats(self) -> Iterator[HoodieWriteStat]:
        """The stats of all partitions."""
        for stats in self.partition_to_write_stats.values():
            yield from stats

    @property
    def schema(self) -> str | None:
        """The writer's Avro schema (JSON, no meta columns); None if the commit has none."""
        return self.extra_metadata.get(SCHEMA_KEY) or None

    @property
    def total_partitions_written(self) -> int:
        """The number of partitions with a stat."""
        return len(self.partition_to_write_stats)

    @property
    def total_files_inserted(self) -> int:
        """The number of files that start a file group."""
        return sum(1 for stat in self.write_stats if stat.prev_commit == NULL_COMMIT)

    @property
    def total_files_updated(self) -> int:
        """The number of files that are later versions of a file group."""
        return sum(1 for stat in self.write_stats if stat.prev_commit != NULL_COMMIT)

    @property
    def total_records_written(self) -> int:
        """The number of rows in all new files."""
        return sum(stat.num_writes for stat in self.write_stats)

    @property
    def total_inserts(self) -> int:
        """The number of new rows."""
        return sum(stat.num_inserts for stat in self.write_stats)

    @property
    def total_updates(self) -> int:
        """The number of replaced rows."""
        return sum(stat.num_update_writes for stat in self.write_stats)

    @property
    def total_deletes(self) -> int:
        """The number of deleted rows."""
        return sum(stat.num_deletes for stat in self.write_stats)

    @property
    def total_bytes_written(self) -> int:
        """The size of all new files, in bytes."""
        return sum(stat.total_write_bytes for stat in self.write_stats)

    @property
    def total_write_errors(self) -> int:
        """The number of failed records."""
        return sum(stat.total_write_errors for stat in self.write_stats)

    @property
    def replaced_file_groups(self) -> tuple[tuple[str, str], ...]:
        """Partition path and file id of the file groups that readers must no longer show; only a replace commit
        has any.
        """
        return ()


@attrs.frozen
class HoodieReplaceCommitMetadata(HoodieCommitMetadata):
    """The metadata of an insert overwrite, a delete of partitions or a clustering: the files written and replaced.

    Attributes:
        partition_to_replace_file_ids: Partition path -> the file groups that readers must no longer show.

    Hudi: org.apache.hudi.common.model.HoodieReplaceCommitMetadata.
    """

    partition_to_replace_file_ids: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)

    @property
    def replaced_file_groups(self) -> tuple[tuple[str, str], ...]:
        """See `HoodieCommitMetadata.replaced_file_groups`."""
        return tuple((path, file_id) for path, ids in self.partition_to_replace_file_ids.items() for file_id in ids)

    def _to_json_value(self) -> dict[str, Any]:
        replaced = {partition: list(file_ids) for partition, file_ids in self.partition_to_replace_file_ids.items()}
        return {**HoodieCommitMetadata._to_json_value(self), "partitionToReplaceFileIds": replaced}

    @classmethod
    def _fields_from_json(cls, value: dict[str, Any]) -> dict[str, Any]:
        replaced = _object(value.get("partitionToReplaceFileIds"), "partitionToReplaceFileIds")
        return {
            **HoodieCommitMetadata._fields_from_json(value),
            "partition_to_replace_file_ids": {
                _path(partition, "partition path"): _strings(
                    file_ids, f"the replaced file ids of partition {partition!r}"
                )
                for partition, file_ids in replaced.items()
            },
        }


@attrs.frozen
class FileGroupWorkload:
    """The planned work of an instant in one file group.

    Attributes:
        file_id: The file group.
        base_instant_time: The instant of its newest base file.
        num_updates: The number of records that update or delete rows of it.
        num_inserts: The number of new records that go into it.
    """

    file_id: str
    base_instant_time: str
    num_updates: int = 0
    num_inserts: int = 0


def build_workload_profile(
    operation_type: WriteOperationType,
    partition_to_inserts: Mapping[str, int],
    partition_to_file_groups: Mapping[str, Sequence[FileGroupWorkload]],
) -> HoodieCommitMetadata:
    """Build the metadata for the inflight file of a write.

    Each partition gets one stat with file id "" for its inserts, then one stat for each touched file group:

        build_workload_profile(UPSERT, {"2024": 3}, {"2024": [FileGroupWorkload("f-0", "20240101000000000", 2)]})
            "2024": file id "",    prev commit "null",              3 inserts
                    file id "f-0", prev commit "20240101000000000", 2 updates

    Args:
        operation_type: The operation.
        partition_to_inserts: Partition path -> the number of new records.
        partition_to_file_groups: Partition path -> the file groups that the write touches.
    """
    profile: dict[str, tuple[HoodieWriteStat, ...]] = {}
    for partition in dict.fromkeys((*partition_to_inserts, *partition_to_file_groups)):
        inserts = HoodieWriteStat("", partition, num_inserts=partition_to_inserts.get(partition, 0))
        touched = (
            HoodieWriteStat(
                group.file_id,
                partition,
                prev_commit=group.base_instant_time,
                num_update_writes=group.num_updates,
                num_inserts=group.num_inserts,
            )
            for group in partition_to_file_groups.get(partition, ())
        )
        profile[partition] = (inserts, *touched)
    return HoodieCommitMetadata(profile, operation_type=operation_type)


def _stat_to_json(stat: HoodieWriteStat) -> dict[str, Any]:
    counts = [(key, getattr(stat, name)) for key, name in _COUNTS]
    runtime = stat.runtime_stats
    value: dict[str, Any] = {
        "fileId": stat.file_id,
        "path": stat.path,
        "cdcStats": None if stat.cdc_stats is None else dict(stat.cdc_stats),
        "prevCommit": stat.prev_commit,
        **dict(counts[:_COUNTS_BEFORE_TEMP_PATH]),
        "tempPath": None,
        "partitionPath": None if stat.path is None else stat.partition_path,
        **dict(counts[_COUNTS_BEFORE_TEMP_PATH:]),
        "minEventTime": stat.min_event_time,
        "maxEventTime": stat.max_event_time,
        "runtimeStats": runtime
        and {
            "totalScanTime": runtime.total_scan_time,
            "totalUpsertTime": runtime.total_upsert_time,
            "totalCreateTime": runtime.total_create_time,
        },
    }
    if stat.log_version is not None:
        value |= {
            "logVersion": stat.log_version,
            "logOffset": stat.log_offset or 0,
            "baseFile": stat.base_file or "",
            "logFiles": list(stat.log_files or ()),
            "recordsStats": {"val": None},
        }
    return value


def _stat_to_avro(stat: HoodieWriteStat) -> dict[str, Any]:
    further = {"prevBaseFile": stat.prev_base_file, "totalLogReadTimeMs": 0, "numUpdates": 0}
    return complete("HoodieWriteStat", {**_stat_to_json(stat), **further}, layout=2)


def _stat_from_json(value: dict[str, Any], partition_path: str) -> HoodieWriteStat:
    runtime = value.get("runtimeStats")
    cdc_stats = value.get("cdcStats")
    path = _string(value, "path")
    return HoodieWriteStat(
        file_id=_string(value, "fileId") or "",
        partition_path=_path(_string(value, "partitionPath") or partition_path, "partition path"),
        path=None if path is None else _path(path, "path"),
        prev_commit=_string(value, "prevCommit") or NULL_COMMIT,
        min_event_time=_integer(value, "minEventTime"),
        max_event_time=_integer(value, "maxEventTime"),
        runtime_stats=None if runtime is None else _runtime_stats(_object(runtime, "runtimeStats")),
        cdc_stats=None if cdc_stats is None else _sizes(_object(cdc_stats, "cdcStats")),
        base_file=_string(value, "baseFile"),
        log_files=None if value.get("logFiles") is None else _strings(value["logFiles"], "logFiles"),
        log_version=_integer(value, "logVersion"),
        log_offset=_integer(value, "logOffset"),
        prev_base_file=_string(value, "prevBaseFile"),
        **{name: _integer(value, key) or 0 for key, name in _COUNTS},
    )


def _runtime_stats(value: dict[str, Any]) -> RuntimeStats:
    keys = ("totalScanTime", "totalUpsertTime", "totalCreateTime")
    return RuntimeStats(*(_integer(value, key) or 0 for key in keys))


def _operation_type(value: Any) -> WriteOperationType:
    """Parse the operation type. Newer releases of Hudi have more operations: an unknown name becomes UNKNOWN."""
    if value is None:
        return WriteOperationType.UNKNOWN
    if not isinstance(value, str):
        raise ValueError(f"operationType is {_describe(value)}, not a name")
    try:
        return WriteOperationType(value.upper())
    except ValueError:
        logger.debug("Commit metadata names the unknown operation %s", value)
        return WriteOperationType.UNKNOWN


def _object(value: Any, what: str) -> dict[str, Any]:
    if value is None and what != "the top level":
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{what} is {_describe(value)}, not an object")
    return value


def _array(value: Any, what: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{what} are {_describe(value)}, not an array")
    return value


def _strings(value: Any, what: str) -> tuple[str, ...]:
    values = _array(value, what)
    for item in values:
        if not isinstance(item, str):
            raise ValueError(f"{what} hold {_describe(item)}, not only strings")
    return tuple(values)


def _string(value: dict[str, Any], key: str) -> str | None:
    item = value.get(key)
    if item is not None and not isinstance(item, str):
        raise ValueError(f"{key} is {_describe(item)}, not a string")
    return item


def _path(path: str, what: str) -> str:
    """Check that a path stays below the base path, because files are opened and deleted by it."""
    try:
        return check_inside(path)
    except ValueError as error:
        raise ValueError(f"it names the {what} {path!r}, which {error}; only data files are allowed") from error


def _integer(value: dict[str, Any], key: str) -> int | None:
    item = value.get(key)
    if item is not None and (not isinstance(item, int) or isinstance(item, bool)):
        raise ValueError(f"{key} is {_describe(item)}, not an integer")
    return item


def _sizes(value: dict[str, Any]) -> dict[str, int]:
    return {key: _integer(value, key) or 0 for key in value}


def _describe(value: Any) -> str:
    return f"a JSON {type(value).__name__}" if value is not None else "null"


def _pretty(value: Any, depth: int) -> str:
    """Format JSON like Jackson's default pretty printer: arrays in one line, ``" : "``, empty objects as ``{ }``."""
    if isinstance(value, dict):
        if not value:
            return "{ }"
        indent = "  " * (depth + 1)
        items = (f"{indent}{_scalar(key)} : {_pretty(item, depth + 1)}" for key, item in value.items())
        return "{\n" + ",\n".join(items) + "\n" + "  " * depth + "}"
    if isinstance(value, list):
        return f"[ {', '.join(_pretty(item, depth) for item in value)} ]" if value else "[ ]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)

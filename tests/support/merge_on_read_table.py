"""A merge-on-read table whose services are tested: `ServicesTable` with log files, and what hudi-rs reads of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from hudi import HudiTableBuilder

from hoodie.avro.timeline_metadata import decode_record, encode_record
from hoodie.common.fs.file_names import make_base_file_name, make_log_file_name, parse_log_file_name
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import IOType, WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.io.log.log_block import HeaderMetadataType
from hoodie.io.log.log_file_reader import read_log_blocks
from tests.support.folders import files_below
from tests.support.services_table import ServicesTable
from tests.support.table_builder import SCHEMA

__all__ = ["Block", "MergeOnReadTable", "read_by_hudi_rs"]


@attrs.frozen
class Block:
    """What a test asks about a block of a log file."""

    kind: str
    instant_time: str | None
    target: str | None = None


class MergeOnReadTable(ServicesTable):
    """As its base class; keys that are there are changed in log files."""

    def __init__(self, base_path: Path, **arguments: Any) -> None:
        super().__init__(base_path, **{"table_type": "MERGE_ON_READ", **arguments})

    def read(self) -> list[tuple[Any, ...]]:
        """The rows as hudi-rs reads them."""
        return read_by_hudi_rs(self.base_path)

    def data_files(self, pattern: str = "*") -> list[str]:
        """Paths of base files and log files in the table's folder, sorted."""
        patterns = (f"{pattern}.parquet", f"{pattern}.log.*")
        return sorted(
            path.relative_to(self.base_path).as_posix()
            for path in files_below(self.base_path)
            if any(path.match(one) for one in patterns) and ".hoodie" not in path.parts and path.suffix != ".crc"
        )

    def log_files(self) -> list[str]:
        """Paths of log files in the table's folder, sorted."""
        return [path for path in self.data_files() if ".log." in path]

    def blocks(self, path: str) -> list[Block]:
        """The blocks of a log file."""
        found = read_log_blocks((self.base_path / path).read_bytes(), path)
        return [
            Block(
                block.block_type.name,
                block.headers.get(HeaderMetadataType.INSTANT_TIME),
                block.headers.get(HeaderMetadataType.TARGET_INSTANT_TIME),
            )
            for block in found
        ]

    def command_blocks(self) -> list[tuple[str, Block]]:
        """All command blocks, each with its file."""
        return [(path, block) for path in self.log_files() for block in self.blocks(path) if block.kind == "COMMAND"]

    def compaction_plan(self) -> bytes:
        """A plan of a compaction of all slices with log files, as Hudi writes it."""
        view = self.load().view()
        slices = [part for path in view.list_partitions() for part in view.latest_file_slices(path) if part.log_files]
        operations = [
            {
                "baseInstantTime": part.base_instant_time,
                "deltaFilePaths": [log_file.file_name for log_file in part.log_files],
                "dataFilePath": part.base_file.file_name if part.base_file is not None else None,
                "fileId": part.file_id,
                "partitionPath": part.partition_path,
                "metrics": {"TOTAL_LOG_FILES_SIZE": 1.0},
                "bootstrapFilePath": None,
            }
            for part in slices
        ]
        plan = {"operations": operations, "extraMetadata": {}, "version": 2, "strategy": None,
                "preserveHoodieMetadata": False, "missingSchedulePartitions": []}  # fmt: skip
        return encode_record("HoodieCompactionPlan", plan, self.layout.version)

    def schedule_compaction(self) -> str:
        """Plan a compaction of all slices with log files."""
        return self.load().active_timeline.create_new_instant_time(Action.COMPACTION, self.compaction_plan())

    def run_compaction(self, instant_time: str) -> None:
        """Carry out a plan of `schedule_compaction`; each partition has one file group."""
        timeline = self.load().active_timeline
        requested = HoodieInstant(instant_time, Action.COMPACTION, State.REQUESTED)
        plan = decode_record(timeline.read_details(requested), "HoodieCompactionPlan")
        timeline.transition_requested_to_inflight(instant_time, Action.COMPACTION)
        stats = {}
        for operation in plan["operations"]:
            path, file_id = operation["partitionPath"], operation["fileId"]
            old = self.base_path / path / operation["dataFilePath"]
            # What was planned, without later log files.
            rows = self._rows_at(instant_time).filter(pc.field("_hoodie_partition_path") == path)
            name = make_base_file_name(file_id, "5-5-5", instant_time)
            pq.write_table(rows.cast(pq.read_schema(old)), self.base_path / path / name)
            stat = HoodieWriteStat(file_id=file_id, path=f"{path}/{name}", partition_path=path)
            size = (self.base_path / path / name).stat().st_size
            previous = operation["baseInstantTime"]
            stats[path] = (attrs.evolve(stat, prev_commit=previous, num_writes=rows.num_rows, file_size_bytes=size),)
        last = timeline.completed_writes().last_instant
        assert last is not None
        schema = timeline.read_commit_metadata(last).extra_metadata
        metadata = HoodieCommitMetadata(stats, schema, WriteOperationType.COMPACT, compacted=True)
        timeline.save_as_complete(instant_time, Action.COMPACTION, metadata)

    def compact(self) -> str:
        """Compact all slices with log files."""
        instant_time = self.schedule_compaction()
        self.run_compaction(instant_time)
        return instant_time

    def _rows_at(self, instant_time: str) -> pa.Table:
        options = {"hoodie.read.as.of.timestamp": instant_time}
        batches = HudiTableBuilder.from_base_uri(str(self.base_path)).with_options(options).build().read()
        return pa.Table.from_batches(batches)

    def append_unannounced(self, path: str, instant_time: str) -> str:
        """Another log file of an instant without a marker, as writers that died have left them; the copy of a file."""
        name = parse_log_file_name(Path(path).name)
        assert name is not None
        copy = make_log_file_name(name.file_id, name.instant_time, name.version + 1, "7-7-7")
        target = self.base_path / Path(path).parent / copy
        target.write_bytes((self.base_path / path).read_bytes())
        return target.relative_to(self.base_path).as_posix()

    def announce(self, instant_time: str, partition_path: str, name: str, io_type: IOType = IOType.APPEND) -> None:
        """The marker of a file."""
        snapshot = TableSnapshot.load(str(self.base_path))
        WriteMarkers(snapshot.storage, snapshot.meta_path, instant_time).create(partition_path, name, io_type)


def read_by_hudi_rs(base_path: Path) -> list[tuple[Any, ...]]:
    """What hudi-rs reads, in order."""
    batches = HudiTableBuilder.from_base_uri(str(base_path)).build().read()
    if not batches:
        return []
    return sorted(tuple(row.values()) for row in pa.Table.from_batches(batches).select(SCHEMA.names).to_pylist())

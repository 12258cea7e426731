"""A merge-on-read table whose services are tested: `ServicesTable` with log files, and what hudi-rs reads of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import pyarrow as pa
from hudi import HudiTableBuilder

from hoodie.avro.timeline_metadata import encode_record
from hoodie.common.fs.file_names import make_log_file_name, parse_log_file_name
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.table_snapshot import TableSnapshot
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
        with self.client() as client:
            instant_time = client.schedule_compaction()
        assert instant_time is not None
        return instant_time

    def run_compaction(self, instant_time: str) -> None:
        """Carry out a plan of `schedule_compaction`."""
        with self.client() as client:
            assert client.compact(instant_time) is not None

    def compact(self) -> str:
        """Compact all slices with log files."""
        instant_time = self.schedule_compaction()
        self.run_compaction(instant_time)
        return instant_time

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


def read_by_hudi_rs(base_path: Path, by_metadata_table: bool = True) -> list[tuple[Any, ...]]:
    """What hudi-rs reads, in order.

    Args:
        base_path: The table.
        by_metadata_table: Whether it may list by the table's metadata table, by which hudi-rs 0.5 passes over file
            groups without a base file; otherwise it reads a copy of the table that has none.
    """
    if not by_metadata_table:
        with TemporaryDirectory() as folder:
            return read_by_hudi_rs(_copy_without_metadata_table(base_path, Path(folder) / base_path.name))
    batches = HudiTableBuilder.from_base_uri(str(base_path)).build().read()
    if not batches:
        return []
    return sorted(tuple(row.values()) for row in pa.Table.from_batches(batches).select(SCHEMA.names).to_pylist())


def _copy_without_metadata_table(base_path: Path, target: Path) -> Path:
    shutil.copytree(base_path, target, ignore=lambda folder, _: ["metadata"] if folder.endswith("/.hoodie") else [])
    properties = target / ".hoodie/hoodie.properties"
    lines = properties.read_text().splitlines(keepends=True)
    properties.write_text("".join(line for line in lines if not line.startswith("hoodie.table.metadata.partitions")))
    return target

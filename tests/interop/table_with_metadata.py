"""A table of hoodie and real Hudi with a metadata table that both keep up to date, and how that is shown."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.metadata import validate
from hoodie.metadata.records.metadata_records import MetadataPayload
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE, Row, TableModel, assert_all_agree, rows_of
from tests.support.metadata_tampering import Change, copied, tamper

__all__ = ["OFF", "SCHEMA", "WITH", "WITHOUT", "TableWithMetadata", "leave_out", "lie", "rows_in_order"]

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
WITH, WITHOUT = {"hoodie.metadata.enable": "true"}, {"hoodie.metadata.enable": "false"}
FILES_ALONE = {"hoodie.metadata.index.column.stats.enable": "false"}
OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
PARTITIONS = "hoodie.datasource.write.partitions.to.delete"
REPLACING = ("insert_overwrite", "delete_partition")


class TableWithMetadata:
    """The table, and its model.

    Args:
        base_path: Its folder; without a table there it is made.
        hudi: Real Hudi.
        options: For all writes of both: what the metadata table holds, and its services.
    """

    def __init__(self, base_path: Path, hudi: HudiProcess, **options: str) -> None:
        self.base_path = base_path
        self.hudi = hudi
        self.options = {**FILES_ALONE, **options}
        self.model = TableModel(SIMPLE, SCHEMA, event_time=True)
        self._ts = 0
        if not (base_path / ".hoodie").exists():
            HoodieTableMetaClient.init_table(str(base_path), table_name="listed", **SIMPLE.init_arguments())

    # --- writes ---------------------------------------------------------------------------------------------------

    def rows(self, *numbers: int) -> list[Row]:
        """Rows of these numbers, newer than all before."""
        self._ts += 1
        return [
            {"id": f"k{n}", "region": SIMPLE.regions[n % 3], "ts": self._ts, "fare": n + self._ts / 4} for n in numbers
        ]

    def client(self, **properties: str) -> HoodieLocalWriteClient:
        """A client of hoodie; `hoodie.a.b` is ``a_b``."""
        given = {"hoodie." + key.replace("_", "."): value for key, value in properties.items()}
        return HoodieLocalWriteClient(
            HoodieWriteConfig.from_properties(str(self.base_path), OFF | self.options | given)
        )

    def by_hoodie(self, *numbers: int, operation: str = "upsert", **properties: str) -> str:
        """A write of hoodie; its instant time."""
        rows = self.rows(*numbers)
        with self.client(**properties) as client:
            time: str = self.write_with(client, rows, operation)
        return time

    def write_with(self, client: HoodieLocalWriteClient, rows: list[Row], operation: str = "upsert") -> str:
        """A write of this client."""
        if operation == "delete_partition":
            result: Any = client.delete_partitions(sorted({row["region"] for row in rows}))
        elif operation == "delete":
            result = client.delete([HoodieKey(row["id"], row["region"]) for row in rows])
        else:
            result = getattr(client, operation)(self.model.table(rows))
        assert result.service_errors == ()
        self.note(operation, rows)
        time: str = result.instant_time
        return time

    def by_hudi(self, *numbers: int, operation: str = "upsert", **options: str) -> str:
        """A write of real Hudi; its instant time."""
        rows = self.rows(*numbers)
        given = {**SIMPLE.hudi_options("listed"), **OFF, **WITH, **self.options, **options}
        if operation == "delete_partition":
            given[PARTITIONS] = ",".join(sorted({row["region"] for row in rows}))
        self.hudi.write(self.base_path, self.model.table(rows), given, operation=operation)
        self.note(operation, rows)
        newest = self.load().active_timeline.commits_timeline().last_instant
        assert newest is not None
        return newest.requested_time

    def note(self, operation: str, rows: list[Row]) -> None:
        """Change the model as a write did."""
        if operation in REPLACING:
            regions = {row["region"] for row in rows}
            self.model.rows = [row for row in self.model.rows if row["region"] not in regions]
        if operation != "delete_partition":
            (self.model.delete if operation == "delete" else self.model.upsert)(rows)

    def call(self, procedure: str) -> list[list[str]]:
        """Call a procedure of Spark SQL, which keeps the metadata table."""
        options = {**self.hudi.standing_options(), **WITH, **self.options}
        for name, value in options.items():
            self.hudi.sql(f"SET {name}={value}")
        try:
            return [list(row) for row in self.hudi.sql(f"CALL {procedure}")]
        finally:
            for name in options:
                self.hudi.sql(f"RESET {name}")

    # --- what is there --------------------------------------------------------------------------------------------

    def load(self) -> HoodieTableMetaClient:
        """The table."""
        return HoodieTableMetaClient.load(str(self.base_path))

    def metadata_table(self) -> HoodieTableMetaClient:
        """The metadata table."""
        return HoodieTableMetaClient.load(str(self.base_path / ".hoodie/metadata"))

    def metadata_instants(self) -> list[tuple[str, str, str]]:
        """Time, action and state of the instants of the active timeline of the metadata table."""
        return [(i.requested_time, str(i.action), i.state.name) for i in self.metadata_table().active_timeline]

    def pending(self) -> list[str]:
        """Times of pending instants."""
        return [instant.requested_time for instant in self.load().active_timeline.filter_pending()]

    def mark(self) -> None:
        """Leave a file in the metadata table, which is gone when it is built anew; see `is_marked`."""
        self._mark.touch()

    def is_marked(self) -> bool:
        """Whether the metadata table is the one that was marked."""
        return self._mark.exists()

    @property
    def _mark(self) -> Path:
        return self.base_path / ".hoodie/metadata/.hoodie/.aux/mark"

    # --- checks ---------------------------------------------------------------------------------------------------

    def check(self, *, by_hudi: bool = True) -> None:
        """The metadata table is right, and all read the rows of the model, with it and without it."""
        partitions = self.load().table_config.metadata_partitions
        assert "files" in partitions, partitions
        result = validate(str(self.base_path))
        assert result.is_right, result
        assert result.not_validated == {} and set(result.entry_counts) == set(partitions)
        self.check_rows()
        if by_hudi:
            self.check_by_hudi()

    def check_rows(self) -> None:
        """hoodie and hudi-rs read the rows of the model; hudi-rs only where its metadata table has one schema."""
        assert_all_agree(self.base_path, self.model, hudi_rs=not self.has_two_schemas())

    def has_two_schemas(self) -> bool:
        """Whether Hudi 1.0 and later writers wrote the metadata table of version 8; see docs/decisions/0110."""
        if self.hudi.version != "1.0.2" or not self.load().table_config.metadata_partitions:
            return False
        timeline = self.metadata_table().active_timeline
        found = [timeline.read_commit_metadata(one) for one in timeline.commits_timeline() if one.is_completed]
        return len({"HoodieValueTypeInfo" in one.extra_metadata.get("schema", "") for one in found}) > 1

    def check_by_hudi(self) -> None:
        """Real Hudi reads the rows of the model, with the metadata table and without it."""
        for options in (WITH, WITHOUT):
            assert rows_of(self.hudi.read(self.base_path, options), SCHEMA) == self.model.expected(), options

    def validate_by_hudi(self) -> None:
        """Hudi's own procedure finds no difference, and what its reader of metadata tables lists is on storage.

        The procedure compares a metadata table with itself, in 0.15 too: its listing is compared with storage here.
        """
        said = self.listed_by_hudi(self.base_path)
        assert [row for row in said if row[2:4] != ["True", "True"] or row[4] != row[5]] == []
        listed = {f"{row[0]}/{row[1]}": int(row[5]) for row in said}
        stored = {
            path.relative_to(self.base_path).as_posix(): path.stat().st_size
            for path in self.base_path.glob("*/*")
            if path.parent.name != ".hoodie" and path.suffix != ".crc" and path.name != ".hoodie_partition_metadata"
        }
        assert listed == stored

    def listed_by_hudi(self, base_path: Path) -> list[list[str]]:
        """What Hudi's procedure says of each file: partition, name, on storage, in the metadata table, both sizes."""
        self.hudi.sql("DROP TABLE IF EXISTS listed")
        self.hudi.sql(f"CREATE TABLE listed USING hudi LOCATION '{base_path}'")
        try:
            return self.call("validate_metadata_table_files(table => 'listed', verbose => true)")
        finally:
            self.hudi.sql("DROP TABLE listed")

    def check_that_hudi_reads_by_it(self, folder: Path) -> None:
        """Real Hudi, told to read by the metadata table, does not see what a lie leaves out.

        The lie is about a file group. For 0.15 it is about a partition: 0.15 lists storage where the metadata table has
        no file of a partition.

        Args:
            folder: For a copy of the table, with the lie.
        """
        liar = copied(self.base_path, folder)
        rows = hoodie.read_table(str(self.base_path))
        if self.hudi.version == "0.15.0":
            victim, column = self.model.layout.partition_of(self.model.rows[0]), "_hoodie_partition_path"
        else:
            victim, column = self.newest_file_group(), "_hoodie_file_name"
        assert leave_out(liar, victim) > 0
        hidden = [victim in name for name in rows[column].to_pylist()]
        assert any(hidden) and not all(hidden)
        seen = [row for row, is_hidden in zip(rows_in_order(rows), hidden, strict=True) if not is_hidden]
        assert rows_of(self.hudi.read(liar, WITH), SCHEMA) == sorted(seen)
        assert rows_of(self.hudi.read(liar, WITHOUT), SCHEMA) == self.model.expected()
        shutil.rmtree(liar)

    def newest_file_group(self) -> str:
        """The file id of the newest base file whose rows are read."""
        rows = hoodie.read_table(str(self.base_path), columns=["_hoodie_file_name", "_hoodie_commit_time"])
        newest = max(rows.to_pylist(), key=lambda row: row["_hoodie_commit_time"])
        return str(newest["_hoodie_file_name"]).lstrip(".").partition("_")[0]


def rows_in_order(rows: pa.Table) -> Iterable[str]:
    """Each row as `rows_of` gives it."""
    return (rows_of(rows.slice(number, 1), SCHEMA)[0] for number in range(rows.num_rows))


def leave_out(table: Path, victim: str) -> int:
    """Take a partition, a file, or the files of a file group, out of the listings; how many entries changed."""

    def change(key: str, row: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        files = [(name, info) for name, info in row["files"] or () if victim not in name]
        return [(key, {**row, "files": files})]

    return lie(table, "files", MetadataPayload.FILES, change)


def lie(table: Path, partition: str, payload: MetadataPayload, change: Change) -> int:
    """Change the entries of a partition of the metadata table, without checksums; how many entries changed."""
    for checksum in (table / ".hoodie/metadata" / partition).glob(".*.crc"):
        checksum.unlink()
    return tamper(table, partition, payload, change)

"""Merge-on-read tables that real Hudi wrote are extended by delta commits and compacted; hudi-rs reads the same rows.

Each table is continued as a user would: some rows change, one is new, one comes too late and one is deleted, with Avro
blocks and then with Parquet blocks. What a table does not take, or hudi-rs does not read, is named with its reason.
"""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.exception import (
    HoodieCommitException,
    HoodieException,
    HoodieNotSupportedException,
    HoodieRollbackException,
)
from tests.support.table_builder import local_client
from tests.unit.test_merge_on_read_tables import is_merge_on_read
from tests.unit.test_tables_of_real_hudi import (
    Row,
    can_change,
    folders_of_tables,
    in_order,
    other,
    read_by_hudi_rs,
    user_rows,
)

EXTENDED = [
    "dn_mor_6", "dn_mor_8", "dn_v6_mor_mdt_6", "hand_mor", "hcase_COMMIT", "hcase_EVENT", "hudi-v6-table",
    "hudi-v6-table-complex-keygen", "hudi-v6-table-mor", "hudi-v6-table-payload-default",
    "hudi-v6-table-payload-eventtime", "hudi-v8-table-maintenance", "hudi-v8-table-mor", "hudi-v9-table-mor",
    "hudi_comprehensive_types_v6_mor", "mor_6", "trap_base", "trap_base_after", "trap_orphan", "trap_orphan_after",
    "trips_logical_types_json_mor_write_avro_log", "up_mor_8", "up_mor_9", "up_v6_mor_mdt_9",
    "v6_empty", "v6_mor_mdt", "v6_nonpartitioned", "v6_simplekeygen_nonhivestyle",
    "v6_simplekeygen_nonhivestyle_overwritetable", "v6_trips_8i1u", "v6_trips_8i3d", "v8_mor", "v8_mor_by102",
    "v8_mor_del102", "v9_bucket_mor", "v9_flag_delete", "v9_mor", "v9_mor_commit_time", "v9_mor_compact",
    "v9_mor_logcompact", "v9_mor_mdt", "v9_mor_rollback_pending", "v9_pay_AWSDmsAvroPayload",
    "v9_pay_DefaultHoodieRecordPayload",
    "v9_pay_FirstValueAvroPayload", "v9_pay_OverwriteNonDefaultsWithLatestAvroPayload",
    "v9_pay_OverwriteWithLatestAvroPayload", "v9_pay_PartialUpdateAvroPayload", "v9_two_ordering",
]  # fmt: skip
REFUSED: dict[str, tuple[type[HoodieException], str]] = {
    "v9_sql": (HoodieCommitException, "indexing 20261122072356710 is pending"),
}
"""Nothing is written: Hudi's indexer may still write to the metadata table."""
INSERTS_ONLY = "v6_simplekeygen_hivestyle_no_metafields"
"""It stores no record keys."""
ROLLED_BACK_BY_HAND = {"trap_base": "20261122072308564", "trap_orphan": "20261122073906250"}
"""Pending instants with later ones or with files that no marker names, which only a user may roll back."""
NOT_READ_BY_HUDI_RS = {
    "v9_two_ordering": "several ordering fields",
    "hudi_comprehensive_types_v6_mor": "a map of structs in a base file and in a log file",
    "v9_pay_FirstValueAvroPayload": "merge mode CUSTOM",
}
WITHOUT_ROWS = {
    "v6_empty": {"id": 1, "name": "one", "isActive": True},
    "v9_pay_FirstValueAvroPayload": {"id": "k1", "ts": 1, "fare": 1.0, "name": "one", "p": "p0"},
}
"""Tables without a commit that wrote rows, and a first one."""
EVENT_TIME = {"DefaultHoodieRecordPayload", "FirstValueAvroPayload"}
OPTIONS = {
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.bloom.index.filter.type": "SIMPLE",
}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}


@pytest.fixture(scope="module")
def originals(later_tables: Path, shared_tables: Path) -> dict[str, Path]:
    """All merge-on-read tables by name."""
    folders = [*folders_of_tables(later_tables), *folders_of_tables(shared_tables)]
    return {folder.name: folder for folder in folders if is_merge_on_read(folder)}


@pytest.fixture
def folder(request: pytest.FixtureRequest, originals: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of one table."""
    shutil.copytree(originals[request.param], tmp_path / request.param)
    return tmp_path / str(request.param)


class RealTable:
    """A copy of a table, and the rows that it must hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: list[Row] = []
        config = HoodieTableMetaClient.load(str(folder)).table_config
        self.key_field = config.record_key_fields[0]
        self.ordering_field = config.ordering_fields[0] if config.ordering_fields else None
        self.fixed = {*config.record_key_fields, *config.partition_fields, *config.ordering_fields}
        payload = config.properties.get("hoodie.compaction.payload.class", "").rpartition(".")[2]
        mode = config.properties.get("hoodie.record.merge.mode", "")
        self.event_time = mode == "EVENT_TIME_ORDERING" or (mode in ("", "CUSTOM") and payload in EVENT_TIME)
        self.numbers = iter(range(100, 200))
        if folder.name in WITHOUT_ROWS:
            self.rows = [WITHOUT_ROWS[folder.name]]
            with local_client(folder, self.options("avro")) as client:
                client.upsert(self.rows)
        stored = hoodie.read_table(str(folder))
        self.schema = HoodieTableMetaClient.load(str(folder)).load_schema()
        self.rows = user_rows(stored)
        self.changed_field = next(
            field.name for field in self.schema if field.name not in self.fixed and can_change(field.type)
        )

    def options(self, block_format: str) -> dict[str, str]:
        buckets = BUCKETS if "bucket" in self.folder.name else {}
        return {**OPTIONS, **buckets, "hoodie.logfile.data.block.format": block_format}

    def extend(self, block_format: str) -> None:
        """An upsert that changes two rows, adds one, and has one that is too late; then a delete of one."""
        log_files = self.log_files()
        changed = [self.changed(row, days=1) for row in self.rows[:2]]
        late = [self.changed(row, days=-1) for row in self.rows[2:3] if self.ordering_field is not None]
        key = self.rows[-1][self.key_field]
        number = next(self.numbers)
        new = {**self.rows[-1], self.key_field: f"{key}{number}" if isinstance(key, str) else number * 1000}
        with local_client(self.folder, self.options(block_format)) as client:
            client.upsert(pa.Table.from_pylist([*changed, *late, new], self.schema))
            if late and not self.event_time:
                self.rows[2:3] = late
            self.rows = [*changed, *self.rows[2:], new] if len(self.rows) > 1 else [*changed, new]
            self.check()
            gone = self.rows.pop(len(self.rows) // 2)
            assert client.delete(pa.Table.from_pylist([gone], self.schema)).deleted_count == 1
        self.check()
        assert self.log_files() > log_files, "nothing was appended"

    def changed(self, row: Row, days: int) -> Row:
        name = self.changed_field
        row = {**row, name: other(row[name], self.schema.field(name).type)}
        if self.ordering_field is None:
            return row
        value = row[self.ordering_field]
        is_time = isinstance(value, datetime.datetime)
        return {**row, self.ordering_field: value + (datetime.timedelta(days=days) if is_time else days)}

    def compact(self) -> None:
        """Until there is nothing left to compact."""
        with local_client(self.folder, self.options("avro")) as client:
            while client.compact() is not None:
                self.check()
        assert self.log_files() == 0

    def log_files(self) -> int:
        """Of the latest slices."""
        return sum(file.log_file_count for file in HoodieTableMetaClient.load(str(self.folder)).files())

    def check(self) -> None:
        """hoodie and hudi-rs read the rows."""
        expected = in_order(self.rows)
        assert in_order(user_rows(hoodie.read_table(str(self.folder)))) == expected
        if self.folder.name not in NOT_READ_BY_HUDI_RS:
            assert in_order(read_by_hudi_rs(self.folder)) == expected


def test_no_table_is_left_out(originals: dict[str, Path]) -> None:
    assert sorted([*EXTENDED, *REFUSED, INSERTS_ONLY]) == sorted(originals)


@pytest.mark.parametrize("folder", EXTENDED, indirect=True)
def test_a_table_is_extended_compacted_and_extended(folder: Path) -> None:
    if folder.name in ROLLED_BACK_BY_HAND:
        with local_client(folder, OPTIONS) as client:
            with pytest.raises(HoodieRollbackException, match=ROLLED_BACK_BY_HAND[folder.name]):
                client.rollback_failed_writes()
            assert client.rollback(ROLLED_BACK_BY_HAND[folder.name])
    table = RealTable(folder)
    for block_format in ("avro", "parquet"):
        table.extend(block_format)
    table.compact()
    table.extend("avro")


@pytest.mark.parametrize("folder", REFUSED, indirect=True)
def test_what_is_refused_leaves_the_rows(folder: Path) -> None:
    table = RealTable(folder)
    error, reason = REFUSED[folder.name]
    with local_client(folder, OPTIONS) as client, pytest.raises(error, match=reason):
        client.upsert(pa.Table.from_pylist(table.rows[:1], table.schema))
    table.check()


@pytest.mark.parametrize("folder", [INSERTS_ONLY], indirect=True)
def test_a_table_without_record_keys_takes_inserts(folder: Path) -> None:
    table = RealTable(folder)
    new: list[dict[str, Any]] = [{**table.rows[0], table.key_field: number} for number in (1000, 1001)]
    with local_client(folder, OPTIONS) as client:
        with pytest.raises(HoodieNotSupportedException, match=r"hoodie\.populate\.meta\.fields=false"):
            client.upsert(pa.Table.from_pylist(new, table.schema))
        client.insert(pa.Table.from_pylist(new[:1], table.schema))
        client.bulk_insert(pa.Table.from_pylist(new[1:], table.schema))
    table.rows += new
    table.check()
    table.compact()

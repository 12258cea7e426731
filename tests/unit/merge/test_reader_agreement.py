"""Which merge-on-read tables readers merge differently: a warning names the cases when such a table is made."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hoodie import HoodieTableMetaClient
from hoodie.merge.reader_agreement import differences_between_readers
from tests.support.table_builder import init_table

CASES = {
    "default of 6": (6, "ts", {}, None),
    "no ordering field in 6": (6, "", {}, None),
    "latest in 6": (6, "ts", {"hoodie.compaction.payload.class": "OverwriteWithLatestAvroPayload"}, "'ts', of two"),
    "latest without ordering in 6": (
        6,
        "",
        {"hoodie.compaction.payload.class": "OverwriteWithLatestAvroPayload"},
        None,
    ),
    "partial in 6": (6, "ts", {"hoodie.compaction.payload.class": "PartialUpdateAvroPayload"}, "hudi-rs fails"),
    "dms in 6": (6, "ts", {"hoodie.compaction.payload.class": "AWSDmsAvroPayload"}, "by code of its own"),
    "default of 8": (8, "ts", {}, "Hudi 1.0 fails to read log files in which a row follows"),
    "commit time in 8": (8, "ts", {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}, None),
    "default of 9": (9, "ts", {}, None),
    "commit time in 9": (9, "ts", {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}, None),
    "no ordering field in 9": (9, "", {}, None),
    "two ordering fields": (9, "ts,id", {}, "hudi-rs and Hudi 1.0 do not read"),
    "partial in 9": (9, "ts", {"hoodie.compaction.payload.class": "PartialUpdateAvroPayload"}, None),
    "custom in 8": (8, "ts", {"hoodie.compaction.payload.class": "FirstValueAvroPayload"}, "merge mode CUSTOM"),
    "no keys stored": (9, "ts", {"hoodie.populate.meta.fields": "false"}, "shows all rows of a key"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_table_that_readers_merge_differently_is_made_with_a_warning(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    version, orderings, properties, told = CASES[name]
    arguments = {"table_version": version, "ordering_fields": orderings, "properties": properties}
    with caplog.at_level(logging.WARNING):
        init_table(tmp_path / "t", table_type="MERGE_ON_READ", **arguments)
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == (told is not None)
    assert told is None or told in warnings[0]
    caplog.clear()
    init_table(tmp_path / "c", **arguments)
    assert not caplog.records


def test_only_hoodie_merges_by_a_class_of_the_user() -> None:
    properties = {
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "6",
        "hoodie.compaction.payload.class": "python:shop.mergers.Largest",
    }
    assert "only hoodie can merge log files by python:shop" in differences_between_readers(properties)[0]


@pytest.mark.parametrize("payload", ["OverwriteWithLatestAvroPayload", "DefaultHoodieRecordPayload"])
def test_version_6_stores_what_hudi_0_15_stores(tmp_path: Path, payload: str) -> None:
    given = {"hoodie.compaction.payload.class": payload}
    init_table(tmp_path / "t", table_type="MERGE_ON_READ", table_version=6, properties=given)
    stored = HoodieTableMetaClient.load(str(tmp_path / "t")).table_config.properties
    assert stored["hoodie.table.type"] == "MERGE_ON_READ"
    assert stored["hoodie.compaction.payload.class"] == f"org.apache.hudi.common.model.{payload}"
    # Of the merger that asks the payload class.
    assert stored["hoodie.compaction.record.merger.strategy"] == "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"

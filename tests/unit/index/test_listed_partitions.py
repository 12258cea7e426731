"""With a record index, writes and look-ups list the partitions of the keys only, and find the same rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie import HoodieKey, HoodieReadClient
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.exception import HoodieIndexException, HoodieIOException
from hoodie.index.recordindex import record_index
from hoodie.index.recordindex.record_index_lookup import NamedEntries
from hoodie.metadata.reader.metadata_record_reader import MetadataRecords
from hoodie.metadata.writer.ambiguous_keys import OnePlaceRule
from hoodie.table.action.commit import incoming_keys
from tests.support.table_builder import init_table, local_client, read_rows, rows

PARTITIONS = ["p0", "p1", "p2", "p3", "p4", "p5"]
INDEXED: dict[str, Any] = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
}
BY_RECORD_INDEX = {**INDEXED, "hoodie.index.type": "RECORD_INDEX"}
TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The partitions whose files are asked for."""
    found: set[str] = set()
    load = HoodieTableFileSystemView.load_partitions

    def noted(view: HoodieTableFileSystemView, partition_paths: Iterable[str]) -> None:
        paths = list(partition_paths)
        # Not those of the metadata table.
        found.update(path for path in paths if path in PARTITIONS or path == "new")
        load(view, paths)

    monkeypatch.setattr(HoodieTableFileSystemView, "load_partitions", noted)
    return found


def table(path: Path, table_type: str, **properties: Any) -> str:
    """Two rows in each partition, one of them updated by a log file where the table has any."""
    init_table(path, table_type=table_type)
    with local_client(path, {**INDEXED, **properties}) as client:
        client.insert(rows(*((f"{part}-{n}", part, 1) for part in PARTITIONS for n in range(2))))
        client.upsert(rows(*((f"{part}-1", part, 2) for part in PARTITIONS[:3])))
    return str(path)


@TYPES
@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("way", ["keys on the driver", "routed"])
def test_an_upsert_looks_into_the_partitions_of_its_keys(
    table_type: str, moves: bool, way: str, tmp_path: Path, listed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "routed":
        monkeypatch.setattr(record_index, "SHARED_KEY_BYTES", 0)
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", 0)
    path = table(tmp_path / "t", table_type)
    other = str(shutil.copytree(path, tmp_path / "other"))
    # At home, from another partition (one with a log file), late, of a new partition, and new.
    incoming = rows(("p0-0", "p0", 5), ("p1-1", "p2", 5), ("p2-1", "p0", 0), ("p4-0", "new", 5), ("q", "p2", 5))
    moving = {"hoodie.record.index.update.partition.path": moves, "hoodie.bloom.index.update.partition.path": moves}
    with local_client(path, {**BY_RECORD_INDEX, **moving}) as client:
        listed.clear()
        plan = client.explain_upsert(incoming)
        # Keys that do not fit in memory are looked for in all partitions.
        every = {"p3", "p5"} if way == "routed" else set()
        assert listed == {"p0", "p1", "p2", "p4", "new", *every}
        client.upsert(incoming)
        client.delete([HoodieKey("p3-0", "p3"), HoodieKey("p1-0", "elsewhere"), HoodieKey("none", "p5")])
    assert plan.updates + plan.deletes > 0
    with local_client(other, {**INDEXED, **moving, "hoodie.index.type": "GLOBAL_BLOOM"}) as client:
        client.upsert(incoming)
        client.delete([HoodieKey("p3-0", "p3"), HoodieKey("p1-0", "elsewhere"), HoodieKey("none", "p5")])
    assert read_rows(path) == read_rows(other)
    places = {key: region for key, region, _ in read_rows(path)}
    assert places["p4-0"] == ("new" if moves else places["p4-0"])
    assert "p1-0" not in places and "p3-0" not in places and len(places) == 11


@pytest.mark.parametrize(
    ("named", "error", "message"),
    [
        ("nowhere", HoodieIndexException, "the index is wrong"),
        ("p1", HoodieIndexException, "the index is wrong"),
        ("../p1", HoodieIOException, "would leave the data folders"),
    ],
)
def test_an_index_that_names_a_wrong_partition_is_refused(
    named: str, error: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path / "t", "COPY_ON_WRITE")
    before = read_rows(path)
    entries = NamedEntries.of

    def misled(found: MetadataRecords) -> NamedEntries:
        right = entries(found)
        return attrs.evolve(right, groups=[(named, file_id) for _, file_id in right.groups])

    monkeypatch.setattr(NamedEntries, "of", misled)
    with local_client(path, BY_RECORD_INDEX) as client, pytest.raises(error, match=message):
        client.upsert(rows(("p4-0", "p4", 9)))
    with (
        HoodieReadClient(path, options={"hoodie.index.type": "RECORD_INDEX"}) as reader,
        pytest.raises(error, match=message),
    ):
        reader.check_exists([HoodieKey("p4-0", "p4")])
    assert read_rows(path) == before


@TYPES
@pytest.mark.parametrize("options", [{}, {"hoodie.index.type": "RECORD_INDEX"}])
def test_look_ups_search_the_file_groups_that_the_index_names(
    table_type: str, options: dict[str, Any], tmp_path: Path, listed: set[str]
) -> None:
    path = table(tmp_path / "t", table_type)
    with HoodieReadClient(path, options=options) as client:
        listed.clear()
        keys = [HoodieKey("p1-1", "p1"), HoodieKey("p3-0", "p3"), HoodieKey("p1-1", "p1")]
        found = client.read(keys, columns=["id", "ts"]).sort_by("id").to_pylist()
        assert found == [{"id": "p1-1", "ts": 2}, {"id": "p3-0", "ts": 1}]
        assert listed == {"p1", "p3"}
        assert client.check_exists(keys)["exists"].to_pylist() == [True] * 3
        tagged = client.tag_location(rows(("p1-1", "p1", 7), ("fresh", "p2", 7)))
        assert tagged["__hoodie_current_file_id"].is_valid().to_pylist() == [True, False]
        assert client.filter_exists(rows(("p1-1", "p1", 7), ("fresh", "p2", 7)))["id"].to_pylist() == ["fresh"]


@TYPES
def test_a_key_that_the_index_knows_elsewhere_is_found_in_its_partition(
    table_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(tmp_path / "t", table_type)
    # As Hudi writes: hoodie refuses it.
    monkeypatch.setattr(OnePlaceRule, "check", lambda *_: None)
    with local_client(path, {**INDEXED, "hoodie.index.type": "BLOOM"}) as client:
        # For BLOOM it is another record; the index has one entry.
        client.upsert(rows(("p0-0", "p5", 8)))
        client.delete([HoodieKey("p2-0", "p2")])
    asked = [HoodieKey("p0-0", "p0"), HoodieKey("p0-0", "p5"), HoodieKey("p0-0", "p1"), HoodieKey("p2-0", "p2")]
    with HoodieReadClient(path) as client:
        assert client.check_exists(asked)["exists"].to_pylist() == [True, True, False, False]
        assert sorted(client.read(asked, columns="ts")["ts"].to_pylist()) == [1, 8]
    with HoodieReadClient(path, options={"hoodie.metadata.enable": "false"}) as client:
        assert client.check_exists(asked)["exists"].to_pylist() == [True, True, False, False]


def test_a_record_index_that_cannot_be_read_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = table(tmp_path / "t", "COPY_ON_WRITE")
    for file in Path(path, ".hoodie", "metadata", "record_index").glob("*record-index-*"):
        file.write_bytes(b"x" * 100)
    with HoodieReadClient(path) as client:
        assert client.check_exists([HoodieKey("p1-1", "p1")])["exists"].to_pylist() == [True]
    assert "storage is listed instead" in caplog.text

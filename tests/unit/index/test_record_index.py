"""Look-ups in record indexes, in metadata tables that real Hudi wrote."""

from __future__ import annotations

import logging
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    CURRENT_ROW_POSITION,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
    ROW_NUMBER,
)
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.local_data import LocalData
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieIndexException, HoodieNotSupportedException
from hoodie.index.index import IndexedTable, TagRequest
from hoodie.index.index_factory import create_index
from hoodie.index.index_report import Decision
from hoodie.index.recordindex import record_index, record_index_lookup
from tests.support.table_builder import indexed_table, init_table, local_client, rows

GLOBAL = ["v9_mor_mdt", "hudi_comprehensive_types_v6_mor"]
BY_PARTITION = "v9_cow_rli_part"
COLUMNS = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]


def snapshot_of(path: Path | str) -> TableSnapshot:
    return HoodieTableMetaClient.load(str(path)).snapshot


def index_of(path: Path | str, index_type: str, **more: Any) -> Any:
    return create_index(HoodieWriteConfig.from_properties(str(path), {"hoodie.index.type": index_type, **more}))


def incoming(keys: list[str], paths: list[str]) -> pa.Table:
    return pa.table(
        {
            RECORD_KEY: pa.array(keys, pa.string()),
            PARTITION_PATH: pa.array(paths, pa.string()),
            OPERATION: pa.array([0] * len(keys), pa.int8()),
            ROW_NUMBER: pa.array(range(len(keys)), pa.int64()),
        }
    )


def stored(path: Path | str) -> list[tuple[str, str]]:
    found = hoodie.read_table(str(path), columns=COLUMNS[:2])
    return sorted(zip(*(found[name].to_pylist() for name in COLUMNS[:2]), strict=True))


def file_ids(snapshot: TableSnapshot) -> dict[tuple[str, str], str]:
    """Key and partition to the file group that holds the row, by reading every slice."""
    found = {}
    for file_slice in indexed_table(snapshot).slices:
        one = attrs.evolve(
            indexed_table(snapshot, request=TagRequest(exact=True)),
            file_slices={file_slice.partition_path: [file_slice]},
        )
        index = index_of(snapshot.base_path, "SIMPLE")
        keys = [key for key, path in stored(snapshot.base_path) if path == file_slice.partition_path]
        paths = [file_slice.partition_path] * len(keys)
        tagged = locate(index, one, incoming(keys, paths))
        found.update({(key, path): file_id for key, path, file_id in tagged if file_id is not None})
    return found


def locate(index: Any, table: IndexedTable, keys: pa.Table) -> list[tuple[str, str, str | None]]:
    locations = index.find_locations(keys, LocalEngineContext(2), table)
    return told(
        pa.Table.from_batches([pickle.loads(pickle.dumps(locations)).tag(keys.combine_chunks().to_batches()[0])])
    )


def told(tagged: pa.Table) -> list[tuple[str, str, str | None]]:
    columns = (RECORD_KEY, PARTITION_PATH, CURRENT_FILE_ID)
    return sorted(zip(*(tagged[name].to_pylist() for name in columns), strict=True))


def tag(index: Any, table: IndexedTable, keys: pa.Table) -> list[tuple[str, str, str | None]]:
    context = LocalEngineContext(2)
    tagged = index.tag_location(LocalData.from_table(context, keys), context, table).collect()
    assert tagged is not None
    return told(tagged)


@pytest.fixture(params=["all keys at once", "in tasks", "routed"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How keys reach the file groups of the index: by threads of the driver, by tasks, or by a shuffle."""
    if request.param != "all keys at once":
        monkeypatch.setattr(record_index_lookup, "_KEYS_WITHOUT_TASKS", 0)
    if request.param == "routed":
        monkeypatch.setattr(record_index, "SHARED_KEY_BYTES", 0)
    return str(request.param)


def find(way: str, index: Any, table: IndexedTable, keys: pa.Table) -> list[tuple[str, str, str | None]]:
    return tag(index, table, keys) if way == "routed" else locate(index, table, keys)


@pytest.fixture
def real(shared_tables: Path, later_tables: Path) -> Callable[[str], Path]:
    """The folder of a table that real Hudi wrote; it is shared."""

    def folder(name: str) -> Path:
        found = [root / name / name for root in (shared_tables, later_tables) if (root / name).is_dir()]
        return found[0]

    return folder


@pytest.mark.parametrize("name", GLOBAL)
@pytest.mark.parametrize("index_type", ["RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX"])
def test_every_key_is_found_in_its_file_group(
    name: str, index_type: str, real: Callable[[str], Path], way: str
) -> None:
    path = real(name)
    keys, table = stored(path), indexed_table(snapshot_of(path))
    expected = file_ids(snapshot_of(path))
    assert len(keys) > 2 and len(expected) == len(keys)
    wanted = incoming([key for key, _ in keys] + ["absent"], [path for _, path in keys] + [keys[0][1]])
    found = find(way, index_of(path, index_type), table, wanted)
    assert found == sorted(
        [*((k, p, expected[k, p]) for k, p in keys), ("absent", keys[0][1], None)], key=lambda row: row[:2]
    )
    assert {look.decided_by for look in table.work.report().file_groups} == {Decision.RECORD_INDEX}


def test_keys_are_found_in_their_partition_alone(real: Callable[[str], Path], way: str) -> None:
    path = real(BY_PARTITION)
    keys, table = stored(path), indexed_table(snapshot_of(path))
    expected = file_ids(snapshot_of(path))
    others = [(key, {"p0": "p1", "p1": "p0"}[partition]) for key, partition in keys]
    wanted = [*keys, *others, ("absent", "p0"), ("k00000", "new partition")]
    found = find(way, index_of(path, "RECORD_LEVEL_INDEX"), table, incoming(*map(list, zip(*wanted, strict=True))))
    assert {place for place, file_id in (((k, p), f) for k, p, f in found) if file_id is not None} == set(keys)
    assert found == sorted(((k, p, expected.get((k, p))) for k, p in wanted), key=lambda row: row[:2])


def test_the_instant_is_that_of_the_slice_and_there_is_no_position(real: Callable[[str], Path]) -> None:
    path = real(GLOBAL[0])
    key, partition = stored(path)[0]
    table = indexed_table(snapshot_of(path))
    locations = index_of(path, "RECORD_INDEX").find_locations(
        incoming([key], [partition]), LocalEngineContext(1), table
    )
    row = locations.tag(incoming([key], [partition]).to_batches()[0]).to_pylist()[0]
    (file_slice,) = (part for part in table.slices if part.file_id == row[CURRENT_FILE_ID])
    assert row[CURRENT_INSTANT_TIME] == file_slice.base_instant_time and row[CURRENT_ROW_POSITION] == -1


@pytest.mark.parametrize("moves", [True, False])
def test_a_key_with_another_partition_moves_or_stays(moves: bool, real: Callable[[str], Path], way: str) -> None:
    path = real(GLOBAL[0])
    key, partition = stored(path)[0]
    other = {"p0": "p1", "p1": "p0"}[partition]
    late = {"id": key, "ts": 1 << 40, "fare": 1.0, "name": "n", "p": other}
    table = indexed_table(snapshot_of(path))
    early = indexed_table(snapshot_of(path))
    index = index_of(path, "RECORD_INDEX", **{"hoodie.record.index.update.partition.path": moves})
    file_id = file_ids(snapshot_of(path))[key, partition]

    def row(ts: int) -> pa.Table:
        values = {name: pa.array([late[name]], table.records.schema.field(name).type) for name in late}
        values["ts"] = pa.array([ts], table.records.schema.field("ts").type)
        ordering = pa.table({"__hoodie_ordering_value": values["ts"], **values})
        keys = incoming([key], [other])
        return pa.table({**{n: keys[n] for n in keys.column_names}, **{n: ordering[n] for n in ordering.column_names}})

    if not moves:
        assert find(way, index, table, row(1 << 40)) == [(key, partition, file_id)]
        return
    assert find(way, index, table, row(1 << 40)) == sorted([(key, partition, file_id), (key, other, None)])
    # A row that comes late moves nothing.
    assert find(way, index, early, row(-1)) == [(key, partition, file_id)]


def without_record_index(path: Path, target: Path) -> Path:
    """A copy whose properties do not list the record index."""
    shutil.copytree(path, target)
    properties = target / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace(",record_index", ""))
    return target


@pytest.mark.parametrize(("name", "index_type", "stand_in"), [
    (GLOBAL[0], "RECORD_INDEX", "GLOBAL_SIMPLE"), (BY_PARTITION, "RECORD_LEVEL_INDEX", "SIMPLE"),
])  # fmt: skip
def test_base_files_are_read_and_a_warning_is_given_while_there_is_no_index(
    name: str, index_type: str, stand_in: str, real: Callable[[str], Path], tmp_path: Path, way: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    path = without_record_index(real(name), tmp_path / "t")
    keys, table = stored(path), indexed_table(snapshot_of(path))
    expected = file_ids(snapshot_of(path))
    with caplog.at_level(logging.WARNING):
        found = find(way, index_of(path, index_type), table, incoming(*map(list, zip(*keys, strict=True))))
    assert found == sorted((k, p, expected[k, p]) for k, p in keys)
    (record,) = (one for one in caplog.records if "no record index that can be used" in one.message)
    assert f"as {stand_in} does" in record.message and "level.index.enable=true" in record.message


def test_a_file_group_that_the_table_does_not_have_is_an_error_of_the_index(
    real: Callable[[str], Path], way: str
) -> None:
    path = real(GLOBAL[0])
    keys, table = stored(path), indexed_table(snapshot_of(path))
    gone = table.slices[0]
    left = table.narrowed_to(table.slices[1:])
    with pytest.raises(HoodieIndexException, match=f"in {gone.file_id} of partition '{gone.partition_path}'.*validate"):
        find(way, index_of(path, "RECORD_INDEX"), left, incoming(*map(list, zip(*keys, strict=True))))


def test_the_other_kind_of_index_is_refused(real: Callable[[str], Path]) -> None:
    for name, index_type, other in (
        (GLOBAL[0], "RECORD_LEVEL_INDEX", "RECORD_INDEX"), (BY_PARTITION, "RECORD_INDEX", "RECORD_LEVEL_INDEX")
    ):  # fmt: skip
        path = real(name)
        with pytest.raises(HoodieIndexException, match=f"set hoodie.index.type={other}"):
            locate(index_of(path, index_type), indexed_table(snapshot_of(path)), incoming(["a"], ["p0"]))


def test_an_index_by_partitions_is_for_tables_of_version_9(real: Callable[[str], Path]) -> None:
    path = real(GLOBAL[1])
    with pytest.raises(HoodieNotSupportedException, match="for tables of version 9.*has version 6"):
        locate(index_of(path, "RECORD_LEVEL_INDEX"), indexed_table(snapshot_of(path)), incoming(["a"], ["p0"]))


def test_a_new_table_is_not_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = init_table(tmp_path / "t")
    without = {"hoodie.metadata.global.record.level.index.enable": "false"}
    with local_client(path, without, index_type="RECORD_INDEX") as client:
        client.upsert(rows(("a", "x", 1)))
        assert "no record index" not in caplog.text
        client.upsert(rows(("a", "y", 2), ("b", "x", 2)))
    assert "no record index" in caplog.text
    # The record stays in its partition, by the default of the record index.
    assert stored(path) == [("a", "x"), ("b", "x")]

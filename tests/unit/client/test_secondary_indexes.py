"""Secondary indexes: the record keys of every value of a column, through every action."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
import hoodie.metadata
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieIndexException, HoodieNotSupportedException
from hoodie.io.hfile import hfile_reader
from hoodie.io.hfile.data_block import DataBlock, decode_data_block
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.query import index_pruning

pytestmark = pytest.mark.table_version(9)

COLORS = ["red", "blue$", "gr\\een", "", "gelb ü", None]
WITHOUT = {"hoodie.metadata.enable": False}
SERVICES = {
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "3",
    "hoodie.cleaner.commits.retained": "2",
}


def new_table(path: Path, version: int = 9, table_type: str = "COPY_ON_WRITE") -> str:
    HoodieTableMetaClient.init_table(
        str(path), table_name="t", table_type=table_type, record_key_fields="id", partition_fields="day",
        ordering_fields="ts", table_version=version,
    )  # fmt: skip
    return str(path)


def client_of(path: str, **options: str) -> HoodieLocalWriteClient:
    given = {**SERVICES, **{f"hoodie.{key.replace('__', '.')}": value for key, value in options.items()}}
    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, given))


def rows(numbers: Sequence[int], ts: int, rng: random.Random) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{n}" for n in numbers],
            "day": [f"d{n % 3}" for n in numbers],
            "ts": [ts] * len(numbers),
            "color": pa.array([rng.choice(COLORS) for _ in numbers], pa.string()),
            "n": [rng.randrange(5) for _ in numbers],
            "weight": [1.5] * len(numbers),
        }
    )


def keys_of(path: str, index: str, value: str | None) -> list[str]:
    """What the index says."""
    metadata = HoodieBackedTableMetadata.open(HoodieTableMetaClient.load(path).snapshot)
    return sorted(metadata.read_secondary_index(index, [value])["record_key"].to_pylist())


def check(path: str) -> None:
    """The metadata table is right, and the index says what the rows say."""
    assert hoodie.metadata.validate(path).is_right, hoodie.metadata.validate(path)
    found = hoodie.read_table(path).to_pylist()
    for color in COLORS:
        assert keys_of(path, "idx_color", color) == sorted(row["id"] for row in found if row["color"] == color)
    assert keys_of(path, "n", "3") == sorted(row["id"] for row in found if row["n"] == 3)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [8, 9])
def test_every_action_keeps_secondary_indexes_right(tmp_path: Path, version: int, table_type: str) -> None:
    rng, path = random.Random(7), new_table(tmp_path / "t", version, table_type)
    with client_of(path) as client:
        client.upsert(rows(range(30), 1, rng))
        assert client.create_index("idx_color", "color")
        assert client.create_index("n", "n")
        assert not client.create_index("n", "n")
        check(path)
        kept = ""
        for ts in range(2, 7):
            kept = client.upsert(rows(rng.sample(range(60), 15), ts, rng)).instant_time
            if ts == 3:
                client.delete([HoodieKey(f"k{n}", f"d{n % 3}") for n in rng.sample(range(60), 9)])
            if ts == 5:
                client.insert_overwrite(rows(range(0, 60, 6), ts, rng))
            check(path)
        client.savepoint(kept)
        client.upsert(rows(range(9), 20, rng))
        client.restore_to_savepoint(kept)
        check(path)
        assert client.drop_index("n")
        assert not client.drop_index("n")
        assert "secondary_index_n" not in HoodieTableMetaClient.load(path).table_config.metadata_partitions
        client.upsert(rows(range(9), 21, rng))
        assert hoodie.metadata.validate(path).is_right


def test_a_write_that_is_rolled_back_leaves_no_entry(tmp_path: Path) -> None:
    rng, path = random.Random(3), new_table(tmp_path / "t")
    # A commit that was compacted cannot be taken out of the metadata table.
    with client_of(path, metadata__compact__max__delta__commits="100") as client:
        client.upsert(rows(range(12), 1, rng))
        client.create_index("idx_color", "color")
        client.create_index("n", "n")
        client.rollback(client.upsert(rows(range(12), 2, rng)).instant_time)
        check(path)
    with client_of(path, auto__commit="false") as dead:
        dead.upsert(rows(range(20), 3, rng))
    check(path)
    with client_of(path) as client:
        client.upsert(rows(range(4), 4, rng))
    check(path)


def test_many_rows_are_indexed_by_tasks_as_few_are_on_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoodie.metadata.writer.secondary_index_indexer._FEW_ROWS", 0)
    rng, path = random.Random(5), new_table(tmp_path / "t")
    with client_of(path) as client:
        client.upsert(rows(range(40), 1, rng))
        client.create_index("idx_color", "color")
        client.create_index("n", "n")
        check(path)
        client.upsert(rows(range(20, 60), 2, rng))
        check(path)


def test_what_cannot_be_indexed_is_refused(tmp_path: Path) -> None:
    rng, path = random.Random(1), new_table(tmp_path / "t")
    with client_of(path) as client:
        client.upsert(rows(range(3), 1, rng))
        with pytest.raises(HoodieIndexException, match="no column colour.*id, day, ts, color"):
            client.create_index("idx", "colour")
        with pytest.raises(HoodieNotSupportedException, match="weight of type double"):
            client.create_index("idx", "weight")
        with pytest.raises(HoodieConfigException, match="such as idx_rider"):
            client.create_index("a-b", "color")
        client.create_index("idx", "color")
        with pytest.raises(HoodieIndexException, match="index idx of color already: drop it first"):
            client.create_index("idx", "n")
        pending = client.start_commit()
        with pytest.raises(HoodieIndexException, match=f"commit {pending} is pending"):
            client.create_index("other", "n")
        client.rollback(pending)
    assert HoodieTableMetaClient.load(path).table_config.metadata_partitions == (
        "files", "record_index", "secondary_index_idx",
    )  # fmt: skip
    with client_of(path, metadata__enable="false") as client, pytest.raises(HoodieConfigException, match="leave"):
        client.create_index("other", "n")


def test_tables_of_version_6_have_none(tmp_path: Path) -> None:
    path = new_table(tmp_path / "t", 6)
    with client_of(path) as client:
        client.upsert(rows(range(3), 1, random.Random(1)))
        with pytest.raises(HoodieNotSupportedException, match="is of version 6.*upgrade"):
            client.create_index("idx", "color")


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_queries_leave_out_files_by_it(tmp_path: Path, table_type: str) -> None:
    path = new_table(tmp_path / "t", 9, table_type)
    colors = {f"d{n}": f"color of {n}" for n in range(6)}
    with client_of(path, compact__inline="false") as client:
        for ts in range(2):
            client.upsert(
                pa.table({"id": list(colors), "day": list(colors), "ts": [ts] * 6, "color": list(colors.values())})
            )
        client.create_index("idx_color", "color")
        client.upsert(pa.table({"id": ["d3"], "day": ["d3"], "ts": [5], "color": ["color of 1"]}))
    wanted = [("color", "in", ["color of 1", "no color"])]
    plan = hoodie.plan_read(path, filters=wanted)
    assert sorted(planned.file_slice.partition_path for planned in plan.slices) == ["d1", "d3"]
    assert "pruned by a secondary index" in str(plan.explain())
    assert sorted(hoodie.read_table(path, filters=wanted)["id"].to_pylist()) == ["d1", "d3"]
    assert hoodie.read_table(path, filters=[("color", "=", "color of 3")]).num_rows == 0
    everything = hoodie.plan_read(path, filters=wanted, options={"hoodie.enable.data.skipping": "false"})
    assert "secondary index" not in str(everything.explain())


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32()])
def test_queries_by_whole_numbers_leave_out_files_by_it(tmp_path: Path, kind: pa.DataType) -> None:
    path = new_table(tmp_path / "t", 9)

    def of(numbers: Sequence[int | None]) -> pa.Table:
        names = [f"d{place}" for place in range(len(numbers))]
        return pa.table({"id": names, "day": names, "ts": [1] * len(names), "n": pa.array(numbers, kind)})

    with client_of(path) as client:
        client.upsert(of([7, -7, 0, None, 70]))
        client.create_index("idx_n", "n")
        client.upsert(of([7, -7, 5]))
    for condition, expected in (
        (pc.field("n") == -7, {"d1"}),
        (pc.field("n").isin([7, 5, 1000]), {"d0", "d2"}),
        ((pc.field("n") == 70) | (pc.field("n") == 5), {"d2", "d4"}),
        ((pc.field("n") == 0), set()),
    ):
        plan = hoodie.plan_read(path, filters=condition)
        assert "pruned by a secondary index" in str(plan.explain())
        assert {planned.file_slice.partition_path for planned in plan.slices} == expected
        assert set(hoodie.read_table(path, filters=condition)["id"].to_pylist()) == expected
    for condition in (pc.field("n") == 7.5, pc.field("n").is_null(), pc.field("n") > 7, ~(pc.field("n") == 7)):
        expected = set(hoodie.read_table(path, filters=condition, options=WITHOUT)["id"].to_pylist())
        assert "secondary index" not in str(hoodie.plan_read(path, filters=condition).explain())
        assert set(hoodie.read_table(path, filters=condition)["id"].to_pylist()) == expected


@pytest.mark.parametrize("version", [8, 9])
def test_frequent_values_are_not_read_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    path, count = new_table(tmp_path / "t", version), 40_000
    rng, few = (
        random.Random(1),
        {"metadata__record__index__min__filegroup__count": "2", "metadata__compact__max__delta__commits": "100"},
    )

    def of(first: int, number: int) -> pa.Table:
        colors = ["red" if n % 100 else "blue" for n in range(first, first + number)]
        return pa.table(
            {
                "id": [f"{rng.randbytes(16).hex()}" for _ in colors],
                "day": ["d0" if color == "red" else "d1" for color in colors],
                "ts": [1] * number,
                "color": colors,
            }
        )

    with client_of(path, **few) as client:
        client.bulk_insert(of(0, count))
        client.create_index("idx_color", "color")
        # Of these, its log files tell.
        client.bulk_insert(of(count, count))
    decoded: list[str] = []

    def counted(content: bytes, source: str) -> DataBlock:
        decoded.append(source)
        return decode_data_block(content, source)

    monkeypatch.setattr(index_pruning, "_MOST_KEYS", 5_000)
    monkeypatch.setattr(hfile_reader, "decode_data_block", counted)

    def blocks_read(color: str) -> tuple[list[str], str]:
        """The blocks of the index that are read for a color, and what the plan says."""
        decoded.clear()
        shown = hoodie.plan_read(path, filters=[("color", "=", color)]).explain()
        return [source for source in decoded if "secondary_index_idx_color" in source], str(shown)

    found, shown = blocks_read("red")
    # The blocks within a log file are large: the first one of a file group has too many.
    assert len(found) <= 2
    assert all(".log." in source for source in found), found
    assert "secondary index" not in shown
    found, shown = blocks_read("blue")
    assert found
    assert "pruned by a secondary index" in shown
    assert hoodie.read_table(path, filters=[("color", "=", "red")]).num_rows == count * 2 * 99 // 100
    assert hoodie.read_table(path, filters=[("color", "=", "blue")]).num_rows == count * 2 // 100
    monkeypatch.setattr(index_pruning, "_MOST_KEYS", 799)
    assert "secondary index" not in blocks_read("blue")[1]


def test_a_column_that_becomes_one_of_floats_is_refused_until_its_index_is_dropped(tmp_path: Path) -> None:
    rng, path = random.Random(9), new_table(tmp_path / "t")
    wider = rows(range(3), 2, rng)
    wider = wider.set_column(wider.schema.get_field_index("n"), "n", pa.array([0.5, 1.0, 1.5]))
    with client_of(path, write__schema__widen__lossy="true") as client:
        client.upsert(rows(range(12), 1, rng))
        client.create_index("idx_n", "n")
        with pytest.raises(HoodieNotSupportedException, match=r"secondary_index_idx_n of .*client\.drop_index"):
            client.upsert(wider)
        assert hoodie.read_table(path).schema.field("n").type == pa.int64()
        assert hoodie.metadata.validate(path).is_right
        client.drop_index("idx_n")
        client.upsert(wider)
    assert hoodie.metadata.validate(path).is_right
    assert hoodie.read_table(path, filters=[("n", "=", 0.5)])["id"].to_pylist() == ["k0"]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("way", ["a write", "create_index", "index"])
def test_they_are_built_anew_with_the_record_index(tmp_path: Path, table_type: str, way: str) -> None:
    """Without a record index a key may be in two partitions; a secondary index has one entry of it."""
    path = new_table(tmp_path / "t", 9, table_type)
    option = "metadata__global__record__level__index__enable"

    def red(key: str, day: str) -> pa.Table:
        return pa.table({"id": [key], "day": [day], "ts": [1], "color": ["red"], "n": [1]})

    with client_of(path) as client:
        client.upsert(red("a", "x"))
        client.create_index("idx_color", "color")
    with client_of(path, **{option: "false"}) as client:
        client.insert(red("a", "y"))
        client.delete([HoodieKey("a", "x")])
    ready = {"files", "secondary_index_idx_color"}
    assert set(HoodieTableMetaClient.load(path).table_config.metadata_partitions) == ready
    given = {option: "true"} if way == "a write" else {}
    with client_of(path, **given) as client:
        if way == "create_index":
            client.create_index("n", "n")
            ready.add("secondary_index_n")
        elif way == "index":
            client.index(client.schedule_indexing(["record_index"]))
            table_config = HoodieTableMetaClient.load(path).table_config
            assert set(table_config.metadata_partitions) == {"files", "record_index"}
            assert table_config.metadata_partitions_inflight == ("secondary_index_idx_color",)
            assert hoodie.read_table(path, filters=[("color", "=", "red")])["day"].to_pylist() == ["y"]
        client.upsert(red("b", "y"))
    assert set(HoodieTableMetaClient.load(path).table_config.metadata_partitions) == {*ready, "record_index"}
    assert keys_of(path, "idx_color", "red") == ["a", "b"]
    assert hoodie.read_table(path, filters=[("color", "=", "red")])["id"].to_pylist() == ["a", "b"]
    assert hoodie.metadata.validate(path).is_right


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_beside_a_record_index_by_partitions_no_query_uses_them(tmp_path: Path, table_type: str) -> None:
    """A key may be in several partitions then, of which a secondary index has one entry."""
    path = new_table(tmp_path / "t", 9, table_type)
    whole = {"metadata__global__record__level__index__enable": "false"}
    by_partition = {"metadata__record__level__index__enable": "true"}

    def red(key: str, day: str) -> pa.Table:
        return pa.table({"id": [key], "day": [day], "ts": [1], "color": ["red"], "n": [1]})

    with client_of(path) as client:
        client.upsert(red("a", "x"))
        client.upsert(red("b", "z"))
        client.create_index("idx_color", "color")
    with client_of(path, **whole) as client:
        client.upsert(red("b", "z"))
    with client_of(path, **by_partition) as client:
        client.insert(red("a", "y"))
        listed = HoodieTableMetaClient.load(path).table_config.metadata_partitions
        assert set(listed) == {"files", "record_index", "secondary_index_idx_color"}
        client.delete([HoodieKey("a", "x")])
        found = hoodie.read_table(path, filters=[("color", "=", "red")])["day"].to_pylist()
        assert sorted(found) == ["y", "z"]
        result = hoodie.metadata.validate(path)
        assert result.is_right, result
        assert "one by partitions" in result.not_validated["secondary_index_idx_color"]
        with pytest.raises(HoodieNotSupportedException, match="record index of the whole table"):
            client.create_index("other", "n")
        client.drop_index("idx_color")
    with client_of(path, **by_partition) as client, pytest.raises(HoodieNotSupportedException, match="whole table"):
        client.create_index("other", "n")
    assert set(HoodieTableMetaClient.load(path).table_config.metadata_partitions) == {"files", "record_index"}


@pytest.mark.metadata_table
def test_one_that_was_set_aside_can_be_dropped(tmp_path: Path) -> None:
    rng, path = random.Random(9), new_table(tmp_path / "t")
    with client_of(path) as client:
        client.upsert(rows(range(12), 1, rng))
        client.create_index("idx_color", "color")
    with client_of(path, metadata__global__record__level__index__enable="false") as client:
        client.upsert(rows(range(12), 2, rng))
    with client_of(path) as client:
        client.index(client.schedule_indexing(["record_index"]))
        assert HoodieTableMetaClient.load(path).table_config.metadata_partitions_inflight
        assert client.drop_index("idx_color")
        assert not client.drop_index("idx_color")
        client.upsert(rows(range(4), 3, rng))
    table_config = HoodieTableMetaClient.load(path).table_config
    assert set(table_config.metadata_partitions) == {"files", "record_index"}
    assert not table_config.metadata_partitions_inflight
    assert hoodie.metadata.validate(path).is_right

"""Changes of a table: of real Hudi's tables with change data, and of tables that store none."""

from __future__ import annotations

import json
import pickle
import shutil
import warnings
import zlib
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieKey
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.exception import HoodieConfigException, HoodieMissingChangesException, HoodieSchemaException
from hoodie.query.change_plan import ChangePlan
from tests.conftest import SHARED
from tests.support.change_histories import ChangeHistory, changes_of
from tests.support.later_version import change_properties
from tests.support.table_builder import init_table, local_client, rows

TABLES = [
    "v6_cdc_cow_data_before_after", "v6_cdc_mor_data_before_after", "v8_cdc_cow_data_before_after",
    "v9_cdc_cow_clustered", "v9_cdc_cow_data_before", "v9_cdc_cow_op_key_only", "v9_cdc_cow_types",
    "v9_cdc_mor_bucket", "v9_cdc_mor_compacted", "v9_cdc_mor_data_before_after",
]  # fmt: skip
COMPARED = ("id", "ts", "fare", "name", "p")
"""The columns whose texts are the same in all of Hudi's forms."""
TYPES = [("COPY_ON_WRITE", 6), ("COPY_ON_WRITE", 8), ("COPY_ON_WRITE", 9), ("MERGE_ON_READ", 6), ("MERGE_ON_READ", 9)]


MODES = ["DATA_BEFORE_AFTER", "DATA_BEFORE", "OP_KEY_ONLY"]


def storing_changes(mode: str) -> dict[str, Any]:
    """Arguments of a table that stores changes."""
    properties = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": mode}
    return {"properties": properties}


def table_of(serviced_tables: Path, name: str) -> Path:
    (found,) = (serviced_tables / name).iterdir()
    return found


def image(value: Any) -> Any:
    """The compared columns of a row, which Hudi gives as JSON; the text null is no row."""
    row = json.loads(value) if isinstance(value, str) else value
    return None if row is None else tuple(row.get(name) for name in COMPARED)


def expected_changes(name: str) -> list[dict[str, Any]]:
    """The answer of real Hudi: of a release whose answer is right."""
    folder = SHARED / "tables/clustering-and-cdc/cdc"
    by_later = folder / f"{name}.by_1.2.0.json"
    found: list[dict[str, Any]] = json.loads((by_later if by_later.exists() else folder / f"{name}.json").read_text())
    return found


@pytest.mark.parametrize("name", TABLES)
def test_changes_of_real_tables_are_those_of_hudi(serviced_tables: Path, name: str) -> None:
    found, _ = changes_of(table_of(serviced_tables, name), None)
    expected = Counter(
        (row["op"], row["ts_ms"], image(row["before"]), image(row["after"])) for row in expected_changes(name)
    )
    assert expected
    assert (
        Counter(
            (row["op"], row["_hoodie_commit_time"], image(row["before"]), image(row["after"]))
            for row in found.to_pylist()
        )
        == expected
    )


@pytest.mark.parametrize("name", TABLES)
def test_changes_of_real_tables_give_their_rows(serviced_tables: Path, name: str) -> None:
    path = table_of(serviced_tables, name)
    found, _ = changes_of(path, None)
    rows: dict[Any, Any] = {}
    for change in found.to_pylist():
        row = change["before"] or change["after"]
        place = row["id"], row.get("p")
        assert rows.pop(place, None) == change["before"]
        if change["after"] is not None:
            rows[place] = change["after"]
    stored = hoodie.read_table(str(path), columns=[field.name for field in found.schema.field("after").type])
    assert sorted(map(repr, rows.values())) == sorted(map(repr, stored.to_pylist()))


@pytest.mark.parametrize(("table_type", "version"), TYPES)
@pytest.mark.parametrize("seed", range(2))
def test_compared_states_give_the_changes_between_them(
    tmp_path: Path, table_type: str, version: int, seed: int
) -> None:
    history = ChangeHistory(tmp_path / "t", zlib.crc32(f"{table_type} {version} {seed}".encode()), table_type, version)
    for _ in range(8):
        history.step()
    history.check()
    assert history.seen["replayed"]


@pytest.mark.parametrize(("table_type", "version"), TYPES)
@pytest.mark.parametrize("mode", MODES)
def test_stored_changes_give_the_rows_of_each_commit(tmp_path: Path, table_type: str, version: int, mode: str) -> None:
    history = ChangeHistory(
        tmp_path / "t", zlib.crc32(f"{table_type} {version} {mode}".encode()), table_type, version,
        properties=storing_changes(mode),
    )  # fmt: skip
    for _ in range(8):
        history.step()
    history.check()
    assert history.seen["replayed"]
    found, _ = changes_of(history.path, None)
    assert len(set(found["_hoodie_commit_time"].to_pylist())) > 2


@pytest.mark.parametrize(("table_type", "version"), TYPES)
@pytest.mark.parametrize("mode", [None, "OP_KEY_ONLY"])
def test_ranges_of_cleaned_and_archived_commits_are_right_or_refused(
    tmp_path: Path, table_type: str, version: int, mode: str | None
) -> None:
    cleans = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.cleaner.fileversions.retained": 1}
    history = ChangeHistory(tmp_path / "t", zlib.crc32(f"{table_type} {version}".encode()), table_type, version, cleans)
    compact = ["compact"] if history.is_on_read else []
    for step in [*[*["upsert"] * 2, *compact] * 2, "upsert", None, None, "clean", None, "upsert", *compact, "clean"]:
        history.step(**({step: 10**6} if step else {"archive": 6, "rollback": 0}))
    history.check(may_be_gone=True)
    assert history.seen["replayed"]
    assert history.seen["gone"]


def three_commits(tmp_path: Path) -> tuple[str, list[str]]:
    """A table of two partitions, and the times at which ranges after each commit begin."""
    path = init_table(tmp_path / "t")
    times = []
    with local_client(path) as client:
        for write in (
            lambda: client.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 2.0), ("c", "y", 1, 3.0))),
            lambda: client.upsert(rows(("a", "x", 2, 10.0), ("d", "y", 2, 4.0))),
            lambda: client.delete([HoodieKey("b", "x")]),
        ):
            write()
            times.append(str(changes_of(path, times[-1] if times else None)[1]))
    return path, times


def test_changes_have_the_operation_the_commit_and_the_rows_before_and_after(tmp_path: Path) -> None:
    path, times = three_commits(tmp_path)
    found = hoodie.read_table(path, query_type="incremental", query_format="cdc", begin=times[0])
    commits = hoodie.HoodieTableMetaClient.load(path).active_timeline.completed_writes().instants
    commit = {"_hoodie_commit_time": commits[1].requested_time}
    a, b = ({"id": key, "region": "x", "ts": 1, "fare": fare} for key, fare in (("a", 1.0), ("b", 2.0)))
    inserted = {"id": "d", "region": "y", "ts": 2, "fare": 4.0}
    assert found.column_names == ["op", "_hoodie_commit_time", "before", "after"]
    assert sorted(found.to_pylist(), key=lambda change: change["op"]) == [
        {"op": "d", **commit, "before": b, "after": None},
        {"op": "i", **commit, "before": None, "after": inserted},
        {"op": "u", **commit, "before": a, "after": a | {"ts": 2, "fare": 10.0}},
    ]


@pytest.mark.parametrize("mode", ["NON_BLOCKING_CONCURRENCY_CONTROL", "OPTIMISTIC_CONCURRENCY_CONTROL"])
@pytest.mark.parametrize("stores", [True, False])
@pytest.mark.parametrize("version", [9, 8])
def test_a_log_file_that_is_completed_after_a_compaction_has_its_changes(
    tmp_path: Path, version: int, stores: bool, mode: str
) -> None:
    path = str(tmp_path / "t")
    stored = {"hoodie.table.cdc.enabled": "true"} if stores else {}
    init_table(path, table_version=version, table_type="MERGE_ON_READ", properties=stored)
    options = {
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
        "hoodie.write.concurrency.mode": mode,
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": 1,
    }
    with local_client(path, options) as client:
        client.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
        client.upsert(rows(("a", "x", 2, 2.0)))
    known = changes_of(path, None)[1]
    with local_client(path, {**options, "hoodie.auto.commit": "false"}) as slow, local_client(path, options) as client:
        instant = slow.start_commit()
        late = slow.upsert(rows(("b", "x", 3, 3.0)), instant)
        planned = client.schedule_compaction()
        assert planned is not None
        client.compact(planned)
        slow.commit(instant, late)
    (change,) = hoodie.read_table(path, query_type="incremental", query_format="cdc", begin=known).to_pylist()
    assert (change["op"], change["before"]["fare"], change["after"]["fare"]) == ("u", 1.0, 3.0)


@pytest.mark.parametrize("version", [9, 6, 8])
def test_a_row_that_comes_back_is_an_insert(tmp_path: Path, version: int) -> None:
    """An ordering field decides: after a delete, a row that loses makes the row of the base file visible again."""
    table = hoodie.Table.create(
        tmp_path / "t",
        [{"id": "a", "ts": 5, "v": 1}, {"id": "b", "ts": 5, "v": 1}],
        record_key_fields="id",
        ordering_fields="ts",
        table_type="MERGE_ON_READ",
        table_version=version,
    )
    table.delete(where="id = 'b'")
    gone = table.changes(deletes=True).until
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table.upsert([{"id": "b", "ts": 1, "v": 7}])
    assert table.read(where="id = 'b'")["ts"].to_pylist() == [5]
    changed = table.changes(since=gone, deletes=True)
    (change,) = changed.rows.to_pylist()
    assert (change["op"], change["before"]) == ("i", None)
    assert change["after"] == {"id": "b", "ts": 5, "v": 1}
    assert change["_hoodie_commit_time"] == table.history()[0].instant_time
    table.compact()
    assert table.changes(since=changed.until, deletes=True).rows.num_rows == 0
    assert table.changes(since=gone, deletes=True).rows.num_rows == 1


def test_columns_are_those_of_the_rows_and_filters_need_one_of_them(tmp_path: Path) -> None:
    path, times = three_commits(tmp_path)

    def found(where: Any, *columns: str) -> list[tuple[str, Any, Any]]:
        table, _ = changes_of(path, times[0], filters=where, columns=list(columns))
        return sorted(((row["op"], row["before"], row["after"]) for row in table.to_pylist()), key=str)

    assert found("fare > 5", "id") == [("u", {"id": "a"}, {"id": "a"})]
    assert [change[0] for change in found(None, "id")] == ["d", "i", "u"]
    assert found("fare < 1.5", "id") == [("u", {"id": "a"}, {"id": "a"})]
    assert found("region = 'y'", "ts", "id") == [("i", None, {"ts": 2, "id": "d"})]
    assert found("op = 'd'", "id") == [("d", {"id": "b"}, None)]


def test_a_filter_on_partitions_leaves_out_files(tmp_path: Path) -> None:
    path, times = three_commits(tmp_path)
    plan = hoodie.plan_read(path, query_type="incremental", query_format="cdc", begin=times[0], filters="region = 'y'")
    assert isinstance(plan, ChangePlan)
    assert {task.partition_path for task in plan.tasks} == {"y"}


def test_the_plan_tells_that_states_are_compared_and_the_next_begin(tmp_path: Path) -> None:
    path, times = three_commits(tmp_path)
    plan = hoodie.plan_read(path, query_type="incremental", query_format="cdc", begin=times[0])
    assert isinstance(plan, ChangePlan)
    assert plan.is_compared
    assert plan.next_begin == times[2]
    assert "the table stores no changes" in plan.explain()
    assert f"next: begin at {times[2]}" in plan.explain()


@pytest.mark.parametrize("mode", MODES)
def test_the_size_of_stored_changes_counts_base_files_only_where_images_are_looked_up(
    tmp_path: Path, mode: str
) -> None:
    path = init_table(tmp_path / "t", **storing_changes(mode))
    with local_client(path) as client:
        client.insert(rows(*((f"k{number}", "x", 1, 1.5) for number in range(50))))
        _, begin = changes_of(path, None)
        client.upsert(rows(("k1", "x", 2, 2.5)))
    plan = hoodie.plan_read(path, query_type="incremental", query_format="cdc", begin=begin)
    assert isinstance(plan, ChangePlan)
    (changes,) = Path(path).rglob("*.cdc")
    before, after = sorted(Path(path).rglob("*.parquet"), key=lambda file: file.name.rpartition("_")[2])
    read = {
        "DATA_BEFORE_AFTER": [changes],
        "DATA_BEFORE": [changes, after],
        "OP_KEY_ONLY": [changes, before, after],
    }[mode]
    assert [task.file_count for task in plan.tasks] == [len(read)]
    assert plan.size_bytes == sum(file.stat().st_size for file in read)


def test_a_dataset_of_changes_takes_filters_and_columns_of_changes(tmp_path: Path) -> None:
    path, times = three_commits(tmp_path)
    dataset = hoodie.dataset(path, query_type="incremental", query_format="cdc", begin=times[0])
    assert dataset.count_rows() == 3
    assert dataset.to_table(columns=["op"], filter=pc.field("op") != "u")["op"].to_pylist() in (["d", "i"], ["i", "d"])
    dropped = dataset.filter(pc.field("op") == "d")
    assert pickle.loads(pickle.dumps(dropped)).to_table()["before"].to_pylist()[0]["id"] == "b"
    assert duckdb.sql("select op, coalesce(before.id, after.id) from dataset order by 1").fetchall() == [
        ("d", "b"), ("i", "d"), ("u", "a"),
    ]  # fmt: skip


def test_changes_need_an_incremental_query(tmp_path: Path) -> None:
    path, _ = three_commits(tmp_path)
    with pytest.raises(HoodieConfigException, match="query_type='incremental'"):
        hoodie.read_table(path, query_format="cdc")
    with pytest.raises(HoodieConfigException, match="latest_state, cdc"):
        hoodie.read_table(path, query_type="incremental", query_format="cdcs", begin="earliest")
    with pytest.raises(HoodieSchemaException, match="_hoodie_record_key"):
        hoodie.read_table(
            path, query_type="incremental", query_format="cdc", begin="earliest", columns=["_hoodie_record_key"]
        )


@pytest.mark.parametrize("stores", [False, True])
@pytest.mark.parametrize("version", [6, 9])
def test_ranges_that_end_in_the_archive_are_refused_with_a_begin_that_works(
    tmp_path: Path, version: int, stores: bool
) -> None:
    properties = {
        "hoodie.table.cdc.enabled": str(stores).lower(),
        "hoodie.keep.min.commits": 3,
        "hoodie.keep.max.commits": 4,
        "hoodie.clean.commits.retained": 1,
    }
    path = str(tmp_path / "t")
    for number in range(9):
        data = pa.table({"id": [f"k{number}", "a"], "v": [number, number]})
        hoodie.write_table(data, path, record_key_fields="id", table_version=version, properties=properties)
    table = hoodie.Table(path)
    active = {found.instant_time for found in table.history()}
    archived = [found for found in table.history(archived=True) if found.operation and found.instant_time not in active]
    assert len(archived) > 2
    for end in [found.completion_time if version > 6 else found.instant_time for found in archived]:
        with pytest.raises(HoodieMissingChangesException):
            table.changes(until=end, deletes=True)
    if version == 6:
        with pytest.raises(HoodieMissingChangesException) as raised:
            table.changes(since=archived[-1].instant_time, deletes=True)
        assert raised.value.earliest is not None
        assert table.changes(since=raised.value.earliest, deletes=True).rows.num_rows > 0


def test_a_table_without_commits_has_no_changes(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    found, following = changes_of(path, None)
    assert found.num_rows == 0
    assert found.column_names == ["op", "_hoodie_commit_time", "before", "after"]
    assert following is None


def test_the_earliest_time_is_told_before_it_is_needed(tmp_path: Path) -> None:
    path, times = three_commits(tmp_path)
    table = hoodie.Table(path)
    assert table.describe().earliest_changes == times[0]
    with local_client(path, {"hoodie.cleaner.commits.retained": 1}) as client:
        client.upsert(rows(("a", "x", 3, 11.0), ("c", "y", 3, 12.0)))
        client.upsert(rows(("a", "x", 4, 12.0), ("c", "y", 4, 13.0)))
        client.clean()
    earliest = table.describe().earliest_changes
    assert earliest is not None
    assert earliest > times[0]
    assert f"by comparison of rows, since {earliest}" in str(table.describe())
    query = {"query_type": "incremental", "query_format": "cdc"}
    assert f"ranges can begin at {earliest} or later" in hoodie.plan_read(path, begin=earliest, **query).explain()
    with pytest.raises(HoodieMissingChangesException, match=f"Begin at {earliest} or later") as error:
        hoodie.read_table(path, begin=times[0], **query)
    assert error.value.earliest == earliest
    assert pickle.loads(pickle.dumps(error.value)).earliest == earliest


def test_inserts_whose_change_data_hudi_forgot_are_found_in_the_base_file(
    serviced_tables: Path, tmp_path: Path
) -> None:
    path = str(shutil.copytree(table_of(serviced_tables, "v9_cdc_cow_data_before"), tmp_path / "t"))
    found, following = changes_of(path, None)
    # No commit tells of change data any more, as after an insert of Hudi into a small file.
    for file in Path(path, ".hoodie/timeline").glob("*_*.commit"):
        without_change_files(file)
    again, same = changes_of(path, None)
    assert same == following
    plan = hoodie.plan_read(path, query_type="incremental", query_format="cdc", begin="earliest")
    assert "of which no change was stored" in plan.explain()
    assert "stored changes" not in plan.explain()
    assert sorted(map(repr, again.to_pylist())) == sorted(map(repr, found.to_pylist()))


def without_change_files(file: Path) -> None:
    """Write the metadata of a commit without what it tells of change data."""
    layout = timeline_layout(2)
    metadata = layout.decode(file.read_bytes(), HoodieCommitMetadata, str(file))
    stats = {
        partition: tuple(attrs.evolve(stat, cdc_stats=None) for stat in of_partition)
        for partition, of_partition in metadata.partition_to_write_stats.items()
    }
    file.write_bytes(layout.encode(attrs.evolve(metadata, partition_to_write_stats=stats)))


def test_changes_that_were_stored_in_another_mode_are_read(serviced_tables: Path, tmp_path: Path) -> None:
    stored = table_of(serviced_tables, "v9_cdc_cow_op_key_only")
    path = Path(shutil.copytree(stored, tmp_path / "t"))
    found, _ = changes_of(path, None)
    change_properties(path, {"hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER"})
    again, _ = changes_of(path, None)
    assert sorted(map(repr, again.to_pylist())) == sorted(map(repr, found.to_pylist()))


def test_deletes_of_replaced_file_groups_whose_files_are_gone_do_not_vanish(
    serviced_tables: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copytree(table_of(serviced_tables, "v9_cdc_cow_data_before"), tmp_path / "t"))
    client = hoodie.HoodieTableMetaClient.load(str(path))
    replacing = client.active_timeline.filter_actions(Action.REPLACE_COMMIT).instants
    groups = client.active_timeline.read_commit_metadata(replacing[0]).replaced_file_groups
    assert groups
    for partition, file_id in groups:
        for file in (path / partition).glob(f"*{file_id}*"):
            file.unlink()
    without_listing = {"hoodie.metadata.enable": "false"}
    with pytest.raises(HoodieMissingChangesException, match="Begin at") as error:
        changes_of(path, None, options=without_listing)
    changes, _ = changes_of(path, error.value.earliest, options=without_listing)
    assert changes.num_rows


@pytest.mark.parametrize("name", ["v9_cdc_cow_types", "v9_cdc_cow_op_key_only"])
def test_hudis_form_has_one_form_of_json_and_loses_nothing(serviced_tables: Path, name: str) -> None:
    path = table_of(serviced_tables, name)
    typed, _ = changes_of(path, None)
    found, _ = changes_of(path, None, options={"hoodie.read.changes.form": "hudi"})
    assert found.column_names == ["op", "ts_ms", "before", "after"]
    expected = Counter(
        (row["op"], row["ts_ms"], image(row["before"]), image(row["after"])) for row in expected_changes(name)
    )
    texts = found.to_pylist()
    assert Counter((row["op"], row["ts_ms"], image(row["before"]), image(row["after"])) for row in texts) == expected
    assert all((row["before"] is None) == (row["op"] == "i") for row in texts)
    assert all((row["after"] is None) == (row["op"] == "d") for row in texts)
    fields = typed.schema.field("after").type
    for text, row in zip(texts, typed.to_pylist(), strict=True):
        given = json.loads(text["after"] or text["before"])
        assert list(given) == [field.name for field in fields]
        for field in fields:
            value = (row["after"] or row["before"])[field.name]
            if pa.types.is_decimal(field.type) and value is not None:
                assert Decimal(given[field.name]) == value


def test_hudis_form_has_ranges_of_requested_times(tmp_path: Path) -> None:
    path, _ = three_commits(tmp_path)
    requested = [i.requested_time for i in hoodie.HoodieTableMetaClient.load(path).active_timeline.completed_writes()]
    hudis = {"hoodie.read.changes.form": "hudi"}
    for number, begin in enumerate(requested):
        for end in requested[number:]:
            found, following = changes_of(path, begin, end, options=hudis)
            assert set(found["ts_ms"].to_pylist()) <= {time for time in requested if begin < time <= end}
            assert (found.num_rows > 0) == (begin < end)
            assert following == end

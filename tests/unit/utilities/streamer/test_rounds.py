from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

import hoodie
from hoodie.client.open_or_create import find_writable_table
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieReadFromSourceException,
    HoodieStreamerException,
    HoodieWriteConflictException,
)
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.streamer import HoodieStreamer, StreamerConfig, StreamSync
from hoodie.utilities.streamer.hoodie_streamer import identity_of
from tests.support.streamer_runs import LIST_SOURCE, SCHEMA, ListSource, list_source, run_once
from tests.support.table_builder import local_client, rows, write_config

V1 = "deltastreamer.checkpoint.key"


@pytest.fixture(autouse=True)
def lists() -> Iterator[None]:
    yield
    ListSource.clear()


def read(path: Path) -> list[tuple[Any, ...]]:
    table = hoodie.read_table(str(path), columns=SCHEMA.names)
    return sorted(tuple(row.values()) for row in table.to_pylist())


def commits(path: Path) -> list[dict[str, str]]:
    snapshot = find_writable_table(write_config(str(path)))
    assert snapshot is not None
    timeline = snapshot.active_timeline
    return [dict(timeline.read_commit_metadata(one).extra_metadata) for one in timeline.completed_writes()]


def test_rounds_write_rows_and_their_position_in_one_commit(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1), ("b", "y", 1))
    first = run_once(path, properties)
    assert (first.rows, first.position_before, first.position_after, first.backlog) == (2, None, "2", 0)
    assert first.is_committed
    assert set(first.seconds) == {"resume", "fetch", "write", "errors", "commit", "total"}
    ListSource.LISTS["l"] += [("a", "x", 2)]
    second = run_once(path, properties)
    assert (second.rows, second.position_before, second.position_after) == (1, "2", "3")
    assert read(path) == [("a", "x", 2), ("b", "y", 1)]
    assert [one[V1] for one in commits(path)] == ["2", "3"]
    assert ListSource.told == ["2", "3"]


def test_a_round_without_news_commits_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1))
    run_once(path, properties)
    again = run_once(path, properties)
    assert not again.is_committed
    assert len(commits(path)) == 1


def test_the_limit_bounds_a_round(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", *((f"k{n}", "x", 1) for n in range(5)))
    assert [run_once(path, properties, source_limit=2).position_after for _ in range(4)] == ["2", "4", "5", "5"]
    assert len(read(path)) == 5


def test_a_new_table_is_what_flags_and_properties_describe(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    run_once(
        path,
        list_source("l", ("a", "x", 1)) | {"hoodie.write.table.version": 8},
        table_type="MERGE_ON_READ",
        target_table="db.trips",
        source_ordering_fields="ts",
    )
    snapshot = find_writable_table(write_config(str(path)))
    assert snapshot is not None
    stored = snapshot.table_config.properties
    assert stored["hoodie.table.name"] == "db.trips"
    assert stored["hoodie.table.type"] == "MERGE_ON_READ"
    assert stored["hoodie.table.version"] == "8"
    assert stored["hoodie.table.ordering.fields"] == "ts" or stored["hoodie.table.precombine.field"] == "ts"
    # An existing table tells its own type.
    assert not run_once(path, list_source("l", ("a", "x", 1))).is_committed
    with pytest.raises(HoodieConfigException, match="COPY_ON_WRITE"):
        run_once(path, list_source("l"), table_type="COPY_ON_WRITE")


@pytest.mark.parametrize("operation", ["UPSERT", "INSERT", "BULK_INSERT", "INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE"])
def test_every_operation_writes(tmp_path: Path, operation: str) -> None:
    path = tmp_path / "trips"
    result = run_once(path, list_source("l", ("a", "x", 1), ("b", "y", 1)), op=operation)
    assert result.rows == 2
    assert read(path) == [("a", "x", 1), ("b", "y", 1)]


def test_deletes_and_partitions_to_delete(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1), ("b", "y", 1), ("c", "z", 1), ("a", "x", 2), ("q", "y", 1))
    run_once(path, properties, source_limit=3)
    run_once(path, properties, source_limit=1, op="DELETE")
    assert read(path) == [("b", "y", 1), ("c", "z", 1)]
    run_once(path, properties, source_limit=1, op="DELETE_PARTITION")
    assert read(path) == [("c", "z", 1)]


def test_an_overwrite_without_rows_does_not_empty_the_table(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1), "bad")
    run_once(path, properties, source_limit=1)
    result = run_once(path, properties | {"hoodie.errortable.enable": "true"}, op="INSERT_OVERWRITE_TABLE")
    assert (result.rows, result.position_after, result.error_count) == (0, "2", 1)
    assert read(path) == [("a", "x", 1)]


def test_filtering_duplicates_drops_rows_whose_key_is_there(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1), ("a", "x", 2), ("b", "x", 1), ("b", "x", 2))
    run_once(path, properties, source_limit=1)
    run_once(path, properties, op="INSERT", filter_dupes=True)
    assert read(path) == [("a", "x", 1), ("b", "x", 2)]


def test_a_message_that_cannot_be_decoded_fails_the_round_and_names_its_place(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1), "not a row")
    with pytest.raises(HoodieReadFromSourceException) as caught:
        run_once(path, properties)
    for part in ("topic list, partition 0, offset 1", "it is no row", "not a row", "hoodie.errortable.enable=true"):
        assert part in str(caught.value)
    assert not path.exists()


def test_with_an_error_table_good_rows_land_and_bad_messages_are_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1), "not a row", (None, "x", 1), ("", "x", 1), ("b", "x", 1))
    properties |= {"hoodie.errortable.enable": "true"}
    result = run_once(path, properties)
    assert (result.rows, result.error_count) == (2, 3)
    assert [row[0] for row in read(path)] == ["a", "b"]
    run_once(path, properties, checkpoint="0")
    errors = hoodie.read_table(f"{path}_errors").to_pylist()
    assert sorted((row["offset"], row["reason"]) for row in errors) == [
        (1, "JSON_ROW_DESERIALIZATION_FAILURE"), (2, "RECORD_CREATION"), (3, "RECORD_CREATION"),
    ]  # fmt: skip
    assert {row["topic"] for row in errors} == {"list"}
    assert json.loads(next(row["payload"] for row in errors if row["offset"] == 2))["region"] == "x"


def test_many_errors_are_written_in_parts(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("hoodie.utilities.streamer.error_table._AT_ONCE_BYTES", 1)
    monkeypatch.setattr("hoodie.utilities.ingestion.error_spool.ErrorSpool.__init__.__defaults__", (1,))
    path = tmp_path / "trips"
    properties = list_source("l", "bad", ("a", "x", 1), "worse") | {"hoodie.errortable.enable": "true"}
    assert run_once(path, properties).error_count == 2
    run_once(path, properties, checkpoint="0")
    assert sorted(hoodie.read_table(f"{path}_errors")["offset"].to_pylist()) == [0, 2]


def test_a_failed_first_round_takes_its_table_back(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1)) | {"hoodie.precommit.validators": "tests.support.nowhere.Nothing"}
    with pytest.raises(HoodieException):
        run_once(path, properties)
    assert not path.exists()


def test_a_position_that_another_process_moved_refuses_the_round(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1), ("b", "x", 1))
    run_once(path, properties, source_limit=1)
    streamer = HoodieStreamer(
        StreamerConfig(target_base_path=str(path), source_class=LIST_SOURCE), properties=properties
    )
    fetch = ListSource.fetch

    def fetch_and_be_overtaken(self: ListSource, checkpoint: Any, limit: int | None) -> Any:
        monkeypatch.setattr(ListSource, "fetch", fetch)
        batch = fetch(self, checkpoint, limit)
        run_once(path, properties)
        return batch

    monkeypatch.setattr(ListSource, "fetch", fetch_and_be_overtaken)
    with pytest.raises(HoodieWriteConflictException):
        streamer.sync()
    assert [one[V1] for one in commits(path)] == ["1", "2"]
    assert len(read(path)) == 2


def test_two_sources_without_ids_are_refused_and_with_ids_each_has_its_position(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    first, second = list_source("l", ("a", "x", 1)), list_source("m", ("b", "x", 1), ("c", "x", 1))
    run_once(path, first)
    with pytest.raises(HoodieStreamerException, match=r"hoodie\.streamer\.source\.id=NAME"):
        run_once(path, second)
    path = tmp_path / "rides"
    first, second = first | {"hoodie.streamer.source.id": "f"}, second | {"hoodie.streamer.source.id": "s"}
    assert run_once(path, first).position_after == "1"
    assert run_once(path, second, source_limit=1).position_after == "1"
    assert not run_once(path, first).is_committed
    assert run_once(path, second).position_after == "2"
    assert len(read(path)) == 3


def test_commits_of_other_writers_do_not_move_the_position(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1), ("b", "x", 1))
    run_once(path, properties, source_limit=1)
    with local_client(str(path)) as client:
        client.upsert(rows(("q", "x", 1)))
    assert run_once(path, properties).position_before == "1"
    assert len(read(path)) == 3


def test_a_back_fill_that_stores_no_position_leaves_that_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1), ("b", "x", 1))
    run_once(path, properties)
    skip = {"hoodie.streamer.checkpoint.force.skip": "true"}
    assert run_once(path, properties | skip, checkpoint="0").is_committed
    assert [V1 in one for one in commits(path)] == [True, False]
    assert not run_once(path, properties).is_committed


def test_a_position_moves_in_a_commit_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1), "bad", "worse") | {"hoodie.errortable.enable": "true"}
    run_once(path, properties, source_limit=1)
    result = run_once(path, properties)
    assert (result.rows, result.position_after) == (0, "3")
    assert [one[V1] for one in commits(path)] == ["1", "3"]
    assert read(path) == [("a", "x", 1)]


def test_a_source_without_rows_and_a_schema_waits_for_its_first_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "trips"
    properties = list_source("l")
    with caplog.at_level(logging.WARNING):
        assert not run_once(path, properties).is_committed
    assert "no schema is given" in caplog.text
    assert not path.exists()
    schema = tmp_path / "s.avsc"
    schema.write_text(
        '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}, {"name": "region", "type": '
        '"string"}, {"name": "ts", "type": ["null", "long"], "default": null}]}'
    )
    properties["hoodie.streamer.schemaprovider.source.schema.file"] = str(schema)
    result = run_once(path, properties, schema_provider_class="FilebasedSchemaProvider")
    assert (result.is_committed, result.position_after) == (True, "0")
    ListSource.LISTS["l"].append(("a", "x", 1))
    assert run_once(path, properties, schema_provider_class="FilebasedSchemaProvider").rows == 1
    assert read(path) == [("a", "x", 1)]


def test_a_topic_without_rows_and_a_schema_is_refused_where_the_next_run_would_begin_at_its_end(tmp_path: Path) -> None:
    properties = list_source("l") | {"hoodie.streamer.source.kafka.topic": "l"}
    made = HoodieStreamer(
        StreamerConfig(target_base_path=str(tmp_path / "t"), source_class=LIST_SOURCE), properties=properties
    )
    run = attrs.evolve(made._sync.run, identity="topic l")
    with pytest.raises(HoodieStreamerException, match=r"would be passed over\. Give --schema FILE"):
        StreamSync(run).sync_once()
    earliest = attrs.evolve(run, properties=run.properties.with_({"auto.offset.reset": "earliest"}))
    assert not StreamSync(earliest).sync_once().is_committed
    made.close()


def test_a_first_round_without_a_good_row_tells_its_first_message(tmp_path: Path) -> None:
    path = tmp_path / "t"
    ListSource.SCHEMAS["l"] = pa.schema([])
    properties = list_source("l", "[1]", "[2]")
    with pytest.raises(HoodieReadFromSourceException, match="offset 0: it is no row"):
        run_once(path, properties)
    result = run_once(path, properties | {"hoodie.errortable.enable": "true"})
    assert (result.is_committed, result.error_count, result.position_after) == (False, 2, None)
    assert hoodie.read_table(f"{path}_errors").num_rows == 2
    # Where the columns are known, the position moves.
    ListSource.SCHEMAS["l"] = SCHEMA
    assert run_once(path, properties | {"hoodie.errortable.enable": "true"}).position_after == "2"


def test_names_of_sources_do_not_depend_on_the_folder_of_the_process(tmp_path: Path, monkeypatch: Any) -> None:
    root, path = "hoodie.streamer.source.dfs.root", "hoodie.streamer.source.hoodieincr.path"
    url, table = "hoodie.streamer.jdbc.url", "hoodie.streamer.jdbc.table.name"

    def name(source_class: str, **given: str) -> str:
        keys = {"root": root, "path": path, "url": url, "table": table}
        return identity_of(source_class, StreamerProperties({keys[key]: value for key, value in given.items()}))

    monkeypatch.chdir(tmp_path)
    absolute = name("JsonDFSSource", root=f"{tmp_path}/in/*.json")
    assert absolute == name("JsonDFSSource", root="in/*.json") == name("JsonDFSSource", root="./in/*.json")
    assert name("org.apache.hudi.utilities.sources.JsonDFSSource", root="s3a://b/in") == "folder s3://b/in"
    assert name("HoodieIncrSource", path="src") == name("HoodieIncrSource", path=f"file://{tmp_path}/src")
    first = name("JdbcSource", url="jdbc:postgresql://me:hidden@db/shop?password=hidden", table="orders")
    assert first == "table orders of jdbc:postgresql://db/shop"
    assert first != name("JdbcSource", url="jdbc:postgresql://other/shop", table="orders")
    assert name("shops:oslo") != name("shops:rome")


def test_a_new_column_of_the_schema_needs_no_restart(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1))
    run_once(path, properties)
    ListSource.SCHEMAS["l"] = SCHEMA.append(pa.field("fare", pa.float64()))
    ListSource.LISTS["l"].append(("b", "x", 1, 2.5))
    run_once(path, properties)
    table = hoodie.read_table(str(path), columns=["id", "fare"]).to_pylist()
    assert sorted(tuple(row.values()) for row in table) == [("a", None), ("b", 2.5)]


def test_the_target_schema_chooses_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    target = tmp_path / "t.avsc"
    target.write_text(
        '{"type": "record", "name": "r", "fields": [{"name": "region", "type": "string"}, {"name": "id", "type": '
        '"string"}, {"name": "ts", "type": "double"}, {"name": "note", "type": ["null", "string"], "default": null}]}'
    )
    properties = list_source("l", ("a", "x", 1)) | {
        "hoodie.streamer.schemaprovider.source.schema.file": str(target),
        "hoodie.streamer.schemaprovider.target.schema.file": str(target),
    }
    run_once(path, properties, schema_provider_class="FilebasedSchemaProvider")
    table = hoodie.read_table(str(path), columns=["region", "id", "ts", "note"])
    assert table.to_pylist() == [{"region": "x", "id": "a", "ts": 1.0, "note": None}]


def test_transformers_change_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1), ("b", "x", 5))
    run_once(path, properties, transformer_classes=("tests.unit.utilities.streamer.test_rounds:keep_late",))
    assert read(path) == [("b", "x", 5)]


def keep_late(table: pa.Table, properties: Any) -> pa.Table:
    """The rows after a time."""
    import pyarrow.compute as pc

    return table.filter(pc.greater(table["ts"], 2))


def test_flags_and_properties_that_contradict_fail_before_the_source_is_touched(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    for wrong in (
        {"hoodie.combine.before.upsert": "false"},
        {"hoodie.streamer.source.dfs.rot": "x"},
        {"hoodie.parquet.max.file.sise": "1"},
        {"hoodie.datasource.write.precombine.field": "other"},
    ):
        with pytest.raises(HoodieConfigException):
            run_once(path, list_source("l", ("a", "x", 1)) | wrong, source_ordering_fields="ts")
    assert ListSource.fetched == []
    assert not path.exists()


def test_a_folder_that_holds_the_table_is_no_source(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "lake" / "t"):
        properties = list_source("l") | {"hoodie.streamer.source.dfs.root": str(root)}
        with pytest.raises(HoodieConfigException, match="in one another"):
            run_once(tmp_path / "lake" / "t", properties, source_class="JsonDFSSource")
    errors = {"hoodie.errortable.enable": "true", "hoodie.errortable.base.path": str(tmp_path / "in" / "bad")}
    properties = list_source("l") | errors | {"hoodie.streamer.source.dfs.root": str(tmp_path / "in")}
    with pytest.raises(HoodieConfigException, match="in one another"):
        run_once(tmp_path / "t", properties, source_class="JsonDFSSource")
    with pytest.raises(HoodieConfigException, match="is the table that is filled"):
        run_once(
            tmp_path / "t",
            list_source("l") | {"hoodie.streamer.source.hoodieincr.path": str(tmp_path / "t")},
            source_class="HoodieIncrSource",
        )


def test_a_row_without_an_ordering_value_is_an_error_of_its_message(tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", ("a", "x", 1), ("b", "x", None), ("c", "x", 1))
    with pytest.raises(HoodieReadFromSourceException, match=r"offset 1: the record has no value for its ordering \(ts"):
        run_once(path, properties)
    properties["hoodie.errortable.enable"] = "true"
    result = run_once(path, properties)
    assert (result.rows, result.error_count) == (2, 1)
    assert [row[0] for row in read(path)] == ["a", "c"]


def test_errors_after_a_transformer_are_each_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", ("a", "x", 9), (None, "x", 9), (None, "x", 9))
    properties["hoodie.errortable.enable"] = "true"
    flags = {"transformer_classes": ("tests.unit.utilities.streamer.test_rounds:keep_late",)}
    assert run_once(path, properties, **flags).error_count == 2
    run_once(path, properties, checkpoint="0", **flags)
    assert hoodie.read_table(f"{path}_errors").num_rows in (2, 4)
    ListSource.LISTS["l"].append((None, "x", 9))
    run_once(path, properties, **flags)
    assert hoodie.read_table(f"{path}_errors").num_rows in (3, 5)


def test_a_given_position_is_stored_although_nothing_follows_it(tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", ("a", "x", 1), ("b", "x", 1), ("c", "x", 1))
    run_once(path, properties, source_limit=1)
    assert run_once(path, properties, checkpoint="3").is_committed
    assert not run_once(path, properties).is_committed
    assert [row[0] for row in read(path)] == ["a"]


def test_a_back_fill_without_positions_makes_one_round(tmp_path: Path) -> None:
    properties = list_source("l", ("a", "x", 1)) | {"hoodie.streamer.checkpoint.force.skip": "true"}
    with pytest.raises(HoodieConfigException, match="would write the same rows again"):
        run_once(tmp_path / "t", properties, continuous=True)


def test_the_value_of_a_misspelt_property_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(HoodieConfigException) as caught:
        run_once(tmp_path / "t", list_source("l") | {"hoodie.streamer.jdbc.passwrd": "hidden"})
    assert "hidden" not in str(caught.value)


def test_wrong_properties_of_the_run_of_the_writer_and_of_kafka_are_told_together(tmp_path: Path) -> None:
    wrong = {
        "hoodie.streamer.source.kafka.topik": "t",
        "hoodie.parquet.max.file.size": "large",
        "auto.ofset.reset": "earliest",
        "bootstrap.servers": "localhost:1",
    }
    with pytest.raises(HoodieConfigException) as caught:
        run_once(tmp_path / "t", wrong, source_class="org.apache.hudi.utilities.sources.JsonKafkaSource")
    for name in ("hoodie.streamer.source.kafka.topik", "hoodie.parquet.max.file.size", "auto.ofset.reset"):
        assert name in str(caught.value)


def test_a_misspelt_property_is_told_with_the_nearest_one(tmp_path: Path) -> None:
    with pytest.raises(HoodieConfigException) as caught:
        run_once(tmp_path / "t", list_source("l") | {"hoodie.streamer.checkpoint.force.skp": "true"})
    assert "nearest: hoodie.streamer.checkpoint.force.skip" in str(caught.value)


def test_a_dry_run_shows_what_a_round_would_do_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1), "bad", ("b", "x", 1))
    properties["hoodie.streamer.jdbc.password"] = "hidden"
    config = StreamerConfig(target_base_path=str(path), source_class=LIST_SOURCE, source_limit=2)
    shown = HoodieStreamer(config, properties=properties).dry_run()
    assert (shown.position, shown.position_after, shown.rows, shown.backlog) == (None, "2", 2, 1)
    assert [row["id"] for row in shown.first_rows] == ["a"]
    assert "list/0/1: it is no row" in shown.errors
    assert "nothing was written" in str(shown)
    assert "hidden" not in str(shown)
    assert not path.exists()
    run_once(path, list_source("l", ("a", "x", 1)))
    ListSource.SCHEMAS["l"] = SCHEMA.append(pa.field("fare", pa.float64()))
    ListSource.LISTS["l"].append(("b", "x", 1, 2.5))
    shown = HoodieStreamer(config, properties=list_source("l", *ListSource.LISTS["l"])).dry_run()
    assert shown.new_columns == ("fare double",)
    assert len(commits(path)) == 1

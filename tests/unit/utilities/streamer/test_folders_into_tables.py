"""Folders brought into tables by whole rounds: every row once, and every bad line in the error table once."""

from __future__ import annotations

import json
import logging
import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.exception import HoodieException, HoodieReadFromSourceException, HoodieSourceTimeoutException
from hoodie.utilities.sources.dfs_source import DFSSource
from hoodie.utilities.sources.helpers.dfs_path_selector import NEWEST_FILES_KEY
from hoodie.utilities.streamer.error_table import ErrorTableWriter
from hoodie.utilities.streamer.sync_result import SyncResult
from tests.support.object_store_servers import Bucket
from tests.support.streamer_runs import run_once

KEYS = {"hoodie.datasource.write.recordkey.field": "k", "hoodie.datasource.write.partitionpath.field": ""}


def run(table: Path | str, root: Path | str, **flags: Any) -> SyncResult:
    """One round of a folder into a table."""
    properties = {**KEYS, "hoodie.streamer.source.dfs.root": str(root), **flags.pop("properties", {})}
    flags = {"source_class": "JsonDFSSource", "op": "INSERT", **flags}
    result = run_once(table, properties, **flags)  # type: ignore[arg-type]
    assert isinstance(result, SyncResult)
    return result


def write(path: Path, time_ms: int, *rows: Any) -> Path:
    """A file of JSON of a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))
    return path


def keys(table: Path | str, options: Any = None) -> list[Any]:
    """The keys of a table, sorted."""
    return sorted(hoodie.read_table(str(table), storage_options=options)["k"].to_pylist())


def test_each_file_is_read_once_also_a_late_one_of_the_same_time(tmp_path: Path) -> None:
    table, root = tmp_path / "t", tmp_path / "in"
    write(root / "a.json", 5000, {"k": "a"})
    first = run(table, root)
    assert (first.position_before, first.position_after, first.rows) == (None, "5000", 1)
    write(root / "late.json", 5000, {"k": "late"})
    second = run(table, root)
    assert (second.position_before, second.position_after, second.rows) == ("5000", "5000", 1)
    assert second.is_committed
    assert not run(table, root).is_committed
    write(root / "b.json", 6000, {"k": "b", "new": 1})
    assert run(table, root).position_after == "6000"
    assert keys(table) == ["a", "b", "late"]


def test_the_position_stands_in_the_commit_as_hudi_writes_it(tmp_path: Path) -> None:
    table, root = tmp_path / "t", tmp_path / "in"
    write(root / "a.json", 5000, {"k": "a"})
    run(table, root)
    timeline = HoodieTableMetaClient.load(str(table)).active_timeline
    (commit,) = timeline.completed_writes()
    extra = timeline.read_commit_metadata(commit).extra_metadata
    assert extra["deltastreamer.checkpoint.key"] == "5000"
    assert json.loads(extra[NEWEST_FILES_KEY]) == {
        "time": 5000, "since": -55_000, "root": str(root), "names": {"a.json": 5000},
    }  # fmt: skip


def test_a_file_that_is_renamed_after_a_newer_one_was_read_is_read_once(tmp_path: Path) -> None:
    """Also after the table was restored to a commit before it; and not below a position that a user gave."""
    table, root = tmp_path / "t", tmp_path / "in"
    hidden = write(root / "_a.json", 95_000, {"k": "a"})
    write(root / "b.json", 99_000, {"k": "b"})
    first = run(table, root)
    assert keys(table) == ["b"]
    hidden.rename(root / "a.json")
    late = run(table, root)
    assert late.is_committed
    assert (late.position_before, late.position_after, late.rows) == ("99000", "99000", 1)
    assert not run(table, root).is_committed
    assert keys(table) == ["a", "b"]
    assert first.instant_time is not None
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(table)) as client:
        client.restore_to_instant(first.instant_time)
    assert keys(table) == ["b"]
    assert run(table, root).rows == 1
    assert not run(table, root).is_committed
    assert keys(table) == ["a", "b"]
    write(root / "older.json", 98_000, {"k": "older"})
    write(root / "newer.json", 99_001, {"k": "newer"})
    assert run(table, root, checkpoint="99000").rows == 1
    assert not run(table, root).is_committed
    assert keys(table) == ["a", "b", "newer"]


def test_random_files_and_limits_give_every_row_once(tmp_path: Path) -> None:
    """Files appear in the order of their times, many with equal ones, between rounds with random limits."""
    dice = random.Random(7)
    table, root = tmp_path / "t", tmp_path / "in"
    expected: Counter[str] = Counter()
    clock = 1000
    for number in range(25):
        for place in range(dice.randrange(4)):
            rows = [{"k": f"{number}-{place}-{row}"} for row in range(dice.randrange(1, 5))]
            write(root / str(dice.randrange(3)) / f"{number}-{place}.json", clock, *rows)
            expected.update(row["k"] for row in rows)
            clock += dice.randrange(2)
        root.mkdir(exist_ok=True)
        run(table, root, source_limit=dice.choice([1, 30, 100, 10**9]), table_type="COPY_ON_WRITE",
            properties={"hoodie.streamer.schemaprovider.source.schema.file": str(schema(tmp_path))},
            schema_provider_class="FilebasedSchemaProvider")  # fmt: skip
    while run(table, root).is_committed:
        pass
    assert Counter(keys(table)) == expected


def schema(folder: Path) -> Path:
    """A file with the schema of the rows."""
    path = folder / "k.avsc"
    path.write_text('{"type":"record","name":"r","fields":[{"name":"k","type":"string"}]}')
    return path


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The process dies once, after it kept the errors and before it commits the rows."""
    kept: list[str] = []
    keep = ErrorTableWriter.write

    def write_and_die(self: ErrorTableWriter, errors: Any, instant_time: str) -> int:
        count = keep(self, errors, instant_time)
        kept.append(instant_time)
        if len(kept) == 1:
            raise HoodieException("the process dies")
        return count

    monkeypatch.setattr(ErrorTableWriter, "write", write_and_die)
    yield kept


def test_a_crash_between_the_error_table_and_the_commit_doubles_nothing(tmp_path: Path, dying: list[str]) -> None:
    table, root = tmp_path / "t", tmp_path / "in"
    properties = {"hoodie.errortable.enable": "true"}
    bad = write(root / "a.json", 5000, {"k": "a"}, "?", {"k": "b"}, {"other": 1})
    with pytest.raises(HoodieException, match="the process dies"):
        run(table, root, properties=properties)
    result = run(table, root, properties=properties)
    assert (result.rows, result.error_count) == (2, 2)
    assert keys(table) == ["a", "b"]
    errors = hoodie.read_table(f"{table}_errors").sort_by("error_id").to_pylist()
    assert [(row["error_id"], row["reason"]) for row in errors] == [
        (f"{bad}:2", "JSON_AVRO_DESERIALIZATION_FAILURE"), (f"{bad}:4", "RECORD_CREATION"),
    ]  # fmt: skip
    assert {row["instant"] for row in errors} == {result.instant_time} == {dying[1]}


def test_without_an_error_table_a_bad_line_fails_the_round_with_its_place(tmp_path: Path) -> None:
    bad = write(tmp_path / "in" / "a.json", 5000, {"k": "a"}, "?")
    with pytest.raises(HoodieReadFromSourceException, match=rf"{bad}, line 2: .*hoodie\.errortable\.enable=true"):
        run(tmp_path / "t", tmp_path / "in")
    assert not (tmp_path / "t").exists() or not run_commits(tmp_path / "t")


def run_commits(table: Path) -> int:
    """The number of completed instants of a table."""
    return len(HoodieTableMetaClient.load(str(table)).active_timeline.filter_completed())


@pytest.fixture
def vanishing(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files, the first of which is deleted after each listing that finds one."""
    files: list[Path] = []
    fetch = DFSSource.fetch

    def fetch_and_delete(self: DFSSource, *arguments: Any) -> Any:
        batch = fetch(self, *arguments)
        if files and not batch.is_empty:
            files.pop(0).unlink()
        return batch

    monkeypatch.setattr(DFSSource, "fetch", fetch_and_delete)
    return files


def continuous(table: Path, root: Path, **more: str) -> None:
    """Rounds until three of them find nothing."""
    pauses = {"hoodie.streamer.retry.initial.seconds": "0", "hoodie.streamer.idle.seconds": "0"}
    run(
        table, root, continuous=True, termination_strategy_class="NoNewDataTerminationStrategy",
        properties=pauses | more,
    )  # fmt: skip


def test_a_file_that_vanishes_between_listing_and_reading_does_not_end_continuous_mode(
    tmp_path: Path, vanishing: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    files = [write(tmp_path / "in" / f"{n}.json", n, {"k": n}) for n in range(1, 7)]
    vanishing += [files[1], files[4]]
    with caplog.at_level(logging.WARNING):
        continuous(tmp_path / "t", tmp_path / "in")
    assert keys(tmp_path / "t") == [1, 3, 4, 6]
    lines = [text for text in caplog.messages if "round failed" in text]
    assert len(lines) == 2
    assert "attempt 1 of 11; it is tried again in 0 s" in lines[0]
    assert f"The file {files[1]} was deleted after it was listed" in lines[0]
    write(tmp_path / "in" / "7.json", 7, {"k": 7})
    continuous(tmp_path / "t", tmp_path / "in")
    assert keys(tmp_path / "t") == [1, 3, 4, 6, 7]


def test_a_folder_whose_files_always_vanish_ends_the_run_at_its_limit(tmp_path: Path, vanishing: list[Path]) -> None:
    vanishing += [write(tmp_path / "in" / f"{n}.json", n, {"k": n}) for n in range(1, 9)]
    with pytest.raises(HoodieSourceTimeoutException, match=r"3\.json was deleted"):
        continuous(tmp_path / "t", tmp_path / "in", **{"hoodie.streamer.retry.max.attempts": "2"})
    assert len(vanishing) == 5
    with pytest.raises(HoodieSourceTimeoutException, match=r"4\.json was deleted"):
        run(tmp_path / "t", tmp_path / "in")
    assert not (tmp_path / "t").exists()


def test_csv_and_parquet_go_into_the_same_table(tmp_path: Path) -> None:
    table = tmp_path / "t"
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("k,n\na,1\nb,2\n")
    run(table, tmp_path / "csv", source_class="CsvDFSSource", properties={"hoodie.streamer.csv.header": "true"})
    (tmp_path / "parquet").mkdir()
    pq.write_table(pa.table({"k": ["c"], "n": pa.array([3], pa.int32())}), tmp_path / "parquet" / "b.parquet")
    run(table, tmp_path / "parquet", source_class="ParquetDFSSource", ignore_checkpoint="other")
    rows = hoodie.read_table(str(table)).sort_by("k").select(["k", "n"]).to_pylist()
    assert rows == [{"k": "a", "n": 1}, {"k": "b", "n": 2}, {"k": "c", "n": 3}]


def test_a_glob_of_a_bucket_goes_into_a_table_of_the_bucket(s3_bucket: Bucket) -> None:
    options = s3_bucket.options()
    storage = hoodie.storage.storage_factory.open_storage(f"s3://{s3_bucket.name}", options)
    for name in ("a.json", "b.json", "c.txt"):
        storage.replace(f"s3://{s3_bucket.name}/in/{name}", json.dumps({"k": name}).encode())
    table = f"s3://{s3_bucket.name}/t"
    run(table, f"s3a://{s3_bucket.name}/in/*.json", storage=options)
    assert keys(table, options) == ["a.json", "b.json"]

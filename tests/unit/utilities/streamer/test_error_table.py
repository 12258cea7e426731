"""The error table."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieStreamerException
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason, error_batch
from hoodie.utilities.streamer.error_table import (
    ERROR_TABLE_SCHEMA,
    BaseErrorTableWriter,
    ErrorTableWriter,
    create_error_writer,
)
from tests.support.hookable_storage import Faults, FaultyStorage
from tests.support.object_store_servers import Bucket


def writer_of(table: Path | str, options: Any = None, more: Any = (), **properties: str) -> Any:
    """The writer that properties ``hoodie.errortable.*`` ask for; underscores stand for dots."""
    given = {f"hoodie.errortable.{name.replace('_', '.')}": value for name, value in properties.items()}
    config = HoodieWriteConfig.from_properties(table, {"hoodie.table.name": "trips", **dict(more)}, options)
    return create_error_writer(StreamerProperties(given), config)


def batch(*offsets: int, message: str = "no JSON") -> pa.RecordBatch:
    """Errors of messages."""
    reason = ErrorReason.JSON_AVRO_DESERIALIZATION_FAILURE
    found = error_batch([ErrorEvent(reason, message, b"{\xff", "trips", 0, offset) for offset in offsets])
    assert found is not None
    return found


def stored(base_path: Path | str, options: Any = None) -> list[dict[str, Any]]:
    """The rows of an error table, by their names."""
    table = hoodie.read_table(str(base_path), storage_options=options)
    return sorted(table.select(ERROR_TABLE_SCHEMA.names).to_pylist(), key=lambda row: row["error_id"])


def test_there_is_no_writer_unless_one_property_says_so(tmp_path: Path) -> None:
    assert writer_of(tmp_path / "trips") is None
    assert type(writer_of(tmp_path / "trips", enable="true")) is ErrorTableWriter
    assert not any(tmp_path.iterdir())


def test_errors_are_rows_of_an_ordinary_table(tmp_path: Path) -> None:
    line = ErrorEvent(ErrorReason.RECORD_CREATION, "no key", "{}", file="/in/a.json", line=3)
    lines = error_batch([line])
    assert lines is not None
    writer = writer_of(tmp_path / "trips", enable="true")
    assert writer.write([batch(1, 2), lines], "20260705120000000") == 3
    writer.close()
    rows = stored(tmp_path / "trips_errors")
    assert [row["error_id"] for row in rows] == ["/in/a.json:3", "trips/0/1", "trips/0/2"]
    assert rows[1] == {
        "error_id": "trips/0/1", "reason": "JSON_AVRO_DESERIALIZATION_FAILURE", "message": "no JSON",
        "payload": "{\\xff", "topic": "trips", "partition": 0, "offset": 1, "file": None, "line": None,
        "instant": "20260705120000000",
    }  # fmt: skip
    assert (rows[0]["file"], rows[0]["line"]) == ("/in/a.json", 3)
    config = hoodie.HoodieTableMetaClient.load(str(tmp_path / "trips_errors")).table_config
    assert config.table_name == "trips_errors"


def test_a_round_without_errors_makes_no_table(tmp_path: Path) -> None:
    writer = writer_of(tmp_path / "trips", enable="true")
    assert writer.write([], "1") == 0
    assert writer.write([batch(1).slice(0, 0)], "1") == 0
    assert not any(tmp_path.iterdir())


def test_a_round_that_is_repeated_doubles_nothing(tmp_path: Path) -> None:
    """The process died after it kept the errors, before it committed the rows; the next one has another instant."""
    assert writer_of(tmp_path / "trips", enable="true").write([batch(1, 2)], "20260705120000000") == 2
    assert writer_of(tmp_path / "trips", enable="true").write([batch(1), batch(2, 3)], "20260705120500000") == 3
    rows = stored(tmp_path / "trips_errors")
    assert [(row["offset"], row["instant"]) for row in rows] == [(n, "20260705120500000") for n in (1, 2, 3)]
    writer_of(tmp_path / "trips", enable="true").write([batch(4)], "20260705121000000")
    assert [row["instant"][8:12] for row in stored(tmp_path / "trips_errors")] == ["1205", "1205", "1205", "1210"]


def test_an_error_that_is_twice_in_a_round_is_kept_once(tmp_path: Path) -> None:
    writer_of(tmp_path / "trips", enable="true").write([batch(1), batch(1)], "1")
    assert len(stored(tmp_path / "trips_errors")) == 1


def test_properties_name_the_folder_and_the_table(tmp_path: Path) -> None:
    writer = writer_of(
        tmp_path / "trips", enable="true", base_path=f"{tmp_path}/bad/rows", target_table_name="bad_trips"
    )
    writer.write([batch(1)], "1")
    assert len(stored(tmp_path / "bad" / "rows")) == 1
    config = hoodie.HoodieTableMetaClient.load(str(tmp_path / "bad" / "rows")).table_config
    assert config.table_name == "bad_trips"
    with pytest.raises(HoodieConfigException, match="the folder of the table itself"):
        writer_of(tmp_path / "trips", enable="true", base_path=f"file://{tmp_path}/trips/")


class Kept(BaseErrorTableWriter):
    """A writer of a user."""

    def write(self, errors: Iterable[pa.RecordBatch], instant_time: str) -> int:
        return sum(map(len, errors))


def test_a_class_of_the_user_keeps_errors(tmp_path: Path) -> None:
    name = f"{__name__}:Kept"
    own = writer_of(tmp_path / "trips", enable="true", write_class=name)
    assert own.write([batch(1, 2)], "1") == 2
    assert own.context.base_path == f"{tmp_path}/trips_errors"
    assert own.context.source_base_path == f"{tmp_path}/trips"
    for wrong in ("org.apache.hudi.utilities.streamer.SomeWriter", "hoodie.exception:HoodieException"):
        with pytest.raises(HoodieConfigException, match=r"hoodie\.errortable\.write\.class"):
            writer_of(tmp_path / "trips", enable="true", write_class=wrong)


def test_secrets_of_the_storage_are_not_shown(tmp_path: Path) -> None:
    own = writer_of(tmp_path / "trips", {"secret_access_key": "hush"}, enable="true", write_class=f"{__name__}:Kept")
    assert "hush" not in repr(own.context)


def test_a_table_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "trips_errors").mkdir()
    (tmp_path / "trips_errors" / "other.txt").write_text("x")
    with pytest.raises(HoodieStreamerException, match=rf"{tmp_path}/trips_errors.*LOG_ERROR"):
        writer_of(tmp_path / "trips", enable="true").write([batch(1)], "20260705120000000")


def test_two_streamers_may_have_one_error_table(tmp_path: Path) -> None:
    lock = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    }
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            writer = writer_of(tmp_path / "trips", None, lock, enable="true")
            for place in range(3):
                writer.write([batch(number * 10 + place)], f"2026070512000000{number}")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert [row["offset"] for row in stored(tmp_path / "trips_errors")] == [0, 1, 10, 11, 12, 2]


def test_errors_are_kept_in_a_bucket(s3_bucket: Bucket) -> None:
    options = s3_bucket.options()
    assert writer_of(f"s3a://{s3_bucket.name}/trips", options, enable="true").write([batch(1)], "1") == 1
    assert len(stored(f"s3://{s3_bucket.name}/trips_errors", options)) == 1


@pytest.mark.usefixtures("faulty_storage")
def test_a_process_that_dies_at_any_moment_of_the_write_doubles_and_loses_nothing(tmp_path: Path) -> None:
    """Each call of the storage that changes something is the last one once; the next process repeats the round."""

    def kept_after(faults: Faults, name: str) -> list[dict[str, Any]]:
        table = tmp_path / name
        writer_of(table, enable="true").write([batch(1)], "20260705120000000")
        FaultyStorage.faults = faults
        with contextlib.suppress(HoodieStreamerException):
            writer_of(table, enable="true").write([batch(2, 3)], "20260705120100000")
        FaultyStorage.faults = Faults()
        writer_of(table, enable="true").write([batch(2, 3)], "20260705120200000")
        return stored(f"{table}_errors")

    healthy = Faults()
    expected = kept_after(healthy, "healthy")
    assert [row["instant"] for row in expected] == ["20260705120000000", *["20260705120200000"] * 2]
    changes = [number for number, call in enumerate(healthy.calls, 1) if call[1]]
    assert len(changes) > 5
    for number in changes:
        assert kept_after(Faults(number, "after"), f"dies-{number}") == expected

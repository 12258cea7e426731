"""Streams over tables of versions 8 and 9: commits in the order of their completions; without a session."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hoodie.exception import HoodieException
from tests.support.later_version import archive, to_version
from tests.support.table_builder import SCHEMA, init_table, local_client, rows

pytest.importorskip("pyspark.sql.datasource", reason="PySpark 3.5 has no data sources in Python")

from hoodie.spark.data_source_options import DataSourceOptions
from hoodie.spark.data_source_reader import columns_of
from hoodie.spark.data_source_stream import stream_reader_of

pytestmark = pytest.mark.table_version(6)

if TYPE_CHECKING:
    from hoodie.spark.data_source_stream import HoodieDataSourceStreamReader

EARLIEST = {"kind": "start", "at": "earliest"}
NO_SERVICES = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
ENDS = {0: 10, 1: 40, 2: 20, 3: 30}
"""When the commits of the table are completed: the second one last."""


def at(number: int) -> str:
    return f"2027010200{number:07d}"


def after(end: int) -> dict[str, str]:
    return {"kind": "completed", "instant": at(end)}


class History:
    """A table of four commits of one row each, none of which is completed yet.

    Args:
        path: Its folder.
        version: Of the table.
    """

    def __init__(self, path: Path, version: int) -> None:
        self.path = init_table(path, schema=SCHEMA)
        self.times = []
        with local_client(self.path, NO_SERVICES, parquet_small_file_limit="0") as client:
            for number in range(4):
                self.times.append(client.start_commit())
                client.insert(rows((f"k{number}", "x", 1)), self.times[-1])
        to_version(self.path, version, {self.times[number]: at(end) for number, end in ENDS.items()})
        self._hidden = path.parent / "hidden"
        self._hidden.mkdir()
        for number in ENDS:
            self.hide(number)

    def _file(self, number: int) -> Path:
        return Path(self.path, ".hoodie/timeline", f"{self.times[number]}_{at(ENDS[number])}.commit")

    def hide(self, number: int) -> None:
        file = self._file(number)
        shutil.move(file, self._hidden / file.name)

    def complete(self, *numbers: int) -> None:
        for number in numbers:
            shutil.move(self._hidden / self._file(number).name, self._file(number))


@pytest.fixture(params=[8, 9])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> History:
    return History(tmp_path / "t", request.param)


def reader(path: str, **options: str) -> HoodieDataSourceStreamReader:
    return stream_reader_of({"path": path, **options}, columns_of(DataSourceOptions.of({"path": path})))


def read(stream: HoodieDataSourceStreamReader, start: dict[str, str], end: dict[str, str]) -> list[str]:
    batches = [batch for partition in stream.partitions(start, end) for batch in stream.read(partition)]
    return sorted(row["id"] for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize("restarts", [False, True])
def test_each_commit_comes_once_though_it_was_requested_before_one_that_was_read(
    history: History, restarts: bool
) -> None:
    stream = reader(history.path)
    reached = stream.initialOffset()
    assert reached == EARLIEST
    found = []
    for number in (0, 2, 3, 1):
        history.complete(number)
        if restarts:
            stream = reader(history.path)
        end = stream.latestOffset(reached, None)
        assert end == after(ENDS[number])
        found.append(read(stream, reached, end))
        assert stream.latestOffset(end, None) == end and read(stream, end, end) == []
        reached = end
    assert found == [["k0"], ["k2"], ["k3"], ["k1"]]


def test_a_batch_is_read_again_as_it_was(history: History) -> None:
    history.complete(0, 2)
    stream = reader(history.path)
    end = stream.latestOffset(EARLIEST, None)
    assert read(stream, EARLIEST, end) == ["k0", "k2"]
    history.complete(3, 1)
    assert read(reader(history.path), after(10), end) == ["k2"]
    # The second commit was requested before the end of the first batch, and completed after it.
    with pytest.raises(HoodieException, match="no instant names the table of that time"):
        read(reader(history.path), EARLIEST, end)


def test_a_stream_begins_after_a_time_of_completion(history: History) -> None:
    history.complete(0, 1, 2, 3)
    stream = reader(history.path, **{"hoodie.datasource.streaming.startOffset": at(25)})
    start = stream.initialOffset()
    assert read(stream, start, stream.latestOffset(start, None)) == ["k1", "k3"]


def test_a_table_without_commits_and_one_that_is_available_now(history: History) -> None:
    stream = reader(history.path)
    empty = stream.latestOffset(EARLIEST, None)
    assert read(stream, EARLIEST, empty) == []
    history.complete(0)
    stream.prepareForTriggerAvailableNow()
    history.complete(2)
    assert stream.latestOffset(empty, None) == after(10)
    assert read(stream, empty, after(10)) == ["k0"]


def test_archived_commits_are_read_and_gone_on_from(history: History) -> None:
    history.complete(0, 1, 2, 3)
    archive(history.path, history.times[:2])
    stream = reader(history.path)
    # The newest completion is that of an archived commit: it comes with the next one.
    assert stream.latestOffset(after(10), None) == after(30)
    assert read(stream, after(10), after(30)) == ["k2", "k3"]
    assert stream.latestOffset(after(40), None) == after(40)
    assert read(stream, after(30), after(40)) == ["k1"]
    archive(history.path, history.times[2:])
    assert reader(history.path).latestOffset(after(30), None) == after(40)


def test_a_commit_that_comes_too_late_is_named(history: History) -> None:
    history.complete(0, 3)
    stream = reader(history.path)
    assert stream.latestOffset(EARLIEST, None) == after(30)
    history.complete(2)
    with pytest.raises(HoodieException, match=f"{history.times[2]}.* was not there when the stream passed"):
        stream.latestOffset(after(30), None)


def test_a_commit_that_was_rolled_back_is_named(history: History) -> None:
    history.complete(0, 2, 3)
    stream = reader(history.path)
    assert stream.latestOffset(EARLIEST, None) == after(30)
    history.hide(3)
    for call in (
        lambda: stream.latestOffset(after(30), None),
        lambda: stream.partitions(after(30), after(40)),
        lambda: stream.partitions(after(30), after(20)),
    ):
        with pytest.raises(HoodieException, match=f"has no commit {at(30)}, which the stream has read last"):
            call()


def test_the_checkpoint_of_another_version_is_refused(history: History, tmp_path: Path) -> None:
    history.complete(0, 2)
    requested = {"kind": "requested", "instant": history.times[0]}
    stream = reader(history.path)
    for start, end in ((requested, after(20)), (after(10), requested), (EARLIEST, requested)):
        with pytest.raises(HoodieException, match=r"upgraded or downgraded since|stands after"):
            stream.partitions(start, end)
    with pytest.raises(HoodieException, match="upgraded or downgraded since"):
        stream.latestOffset(requested, None)
    older = init_table(tmp_path / "older", schema=SCHEMA)
    with local_client(older) as client:
        client.insert(rows(("a", "x", 1)))
    with pytest.raises(HoodieException, match="upgraded or downgraded since"):
        reader(older).latestOffset(after(10), None)

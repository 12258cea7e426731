"""Change data: real Hudi's query of changes on tables that hoodie wrote, alone and in turn with Hudi."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.interop.table_model import SIMPLE
from tests.support.change_data import changes_between, init_cdc_table, with_change_data
from tests.support.model import TableModel
from tests.support.table_builder import TRIPS, init_table, local_client, read_trips, rows
from tests.support.table_invariants import check_table

pytestmark = [pytest.mark.interop]

NO_SERVICES = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline.max.delta.commits": "100",
}
Row = tuple[Any, ...]
Found = tuple[str, str, str, Row | None, Row | None]
"""Operation, requested time, key, row before, row after."""


def cdc_query(begin: str, end: str | None = None) -> dict[str, str]:
    found = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": begin,
    }
    return found | ({"hoodie.datasource.read.end.instanttime": end} if end is not None else {})


def changes_of(found: pa.Table | HudiError) -> list[Found]:
    """The answer of Hudi, whose images may have meta columns, and leave out nulls."""
    assert not isinstance(found, HudiError), found
    changes = []
    for row in found.to_pylist():
        before, after = _image(row["before"]), _image(row["after"])
        key = (after or before or ("",))[0]
        changes.append((row["op"], row["ts_ms"], key, before, after))
    return sorted(changes, key=repr)


def _image(text: str | None) -> Row | None:
    values = None if text is None else json.loads(text)
    return None if values is None else tuple(values.get(name) for name in TRIPS.names)


def newest_of(path: Path) -> str:
    """The requested time of the newest completed write."""
    completed = HoodieTableMetaClient.load(str(path)).active_timeline.completed_writes()
    return max(instant.requested_time for instant in completed)


class History:
    """Writes to a table by hoodie and by Hudi, and the changes that they make."""

    def __init__(self, path: Path, hudi: HudiProcess | None, **options: Any) -> None:
        self.path = path
        self.hudi = hudi
        self.options = options
        self.rows = TableModel()
        self.changes: dict[str, list[Found]] = {}

    def write(self, operation: str, *given: Row, by_hudi: bool = False) -> str:
        """Do a write; the model is a table where the larger `ts` stays."""
        before = self.rows
        if operation == "delete":
            self.rows = before.delete((row[0],) for row in given)
        elif operation == "delete_partition":
            self.rows = before.delete_partitions(row[1] for row in given)
        elif operation == "insert_overwrite":
            self.rows = before.insert_overwrite(given)
        else:
            self.rows = before.upsert(row for row in given if row[2] >= before.get(row[0], row)[2])
        if by_hudi and self.hudi is not None:
            self._write_by_hudi(self.hudi, operation, given)
        else:
            self._do(lambda client: self._write_by_hoodie(client, operation, given))
        time = newest_of(self.path)
        told = changes_between(before, self.rows)
        self.changes[time] = [(op, time, str(key), old, new) for op, key, old, new in told]
        return time

    def serve(self, run: Callable[[HoodieLocalWriteClient], Any]) -> None:
        """Let hoodie run a service, which changes no row."""
        self._do(run)
        self.changes[newest_of(self.path)] = []

    def _do(self, run: Callable[[HoodieLocalWriteClient], Any]) -> None:
        with local_client(self.path, {**NO_SERVICES, **self.options}) as client:
            run(client)

    @staticmethod
    def _write_by_hoodie(client: HoodieLocalWriteClient, operation: str, given: Sequence[Row]) -> None:
        if operation == "delete":
            client.delete([HoodieKey(row[0], row[1]) for row in given])
        elif operation == "delete_partition":
            client.delete_partitions(sorted({row[1] for row in given}))
        else:
            getattr(client, operation)(rows(*given))

    def _write_by_hudi(self, hudi: HudiProcess, operation: str, given: Sequence[Row]) -> None:
        options = SIMPLE.hudi_options("t") | NO_SERVICES | self.options
        hudi.write(self.path, rows(*given), options, operation=operation)

    def check(self, hudi: HudiProcess) -> None:
        """Compare the answers to each range of instants with the model."""
        times = sorted(self.changes)
        ranges = [("000", None), *(("000", time) for time in times), *pairwise(times)]
        ranges += [(time, None) for time in times[:-1]]
        answers = hudi.read_each(self.path, [cdc_query(*found) for found in ranges])
        for (begin, end), answer in zip(ranges, answers, strict=True):
            wanted = [c for time in times if begin < time <= (end or time) for c in self.changes[time]]
            assert changes_of(answer) == sorted(wanted, key=repr), (begin, end)
        assert read_trips(self.path) == sorted(self.rows.values())
        check_table(self.path, self.rows)


def row(key: str, region: str, ts: int) -> Row:
    return key, region, ts, ts + 0.5


def do_all(history: History, *, in_turn: bool) -> None:
    """Writes of each kind; some by Hudi if they are in turn."""
    history.write("insert", *(row(key, "x" if key < "d" else "y", 10) for key in "abcdef"))
    history.write("upsert", row("a", "x", 20), row("b", "x", 5), row("g", "x", 10), by_hudi=in_turn)
    history.write("insert", row("h", "x", 10), row("i", "z", 10))
    history.write("delete", row("b", "x", 0), row("nobody", "x", 0))
    history.write("upsert", row("a", "x", 30), row("d", "y", 30), by_hudi=in_turn)
    history.write("upsert", row("j", "y", 10), row("d", "y", 40))
    history.write("upsert", row("e", "y", 5))
    history.write("delete", row("i", "z", 0), by_hudi=in_turn)
    history.write("upsert", row("i", "z", 50), row("c", "x", 50))


@pytest.mark.with_version_8
@pytest.mark.with_merge_on_read
@pytest.mark.parametrize(
    ("mode", "in_turn"),
    [
        pytest.param("DATA_BEFORE_AFTER", True, marks=pytest.mark.interop_smoke),
        ("DATA_BEFORE_AFTER", False),
        ("DATA_BEFORE", True),
        ("OP_KEY_ONLY", True),
        ("OP_KEY_ONLY", False),
    ],
)
def test_hudi_finds_the_changes_of_each_write(
    tmp_path: Path, hudi: HudiProcess, table_type: str, mode: str, in_turn: bool
) -> None:
    skip_what_hudi_cannot_read(hudi, table_type)
    history = History(init_cdc_table(tmp_path / "t", mode), hudi)
    do_all(history, in_turn=in_turn)
    history.check(hudi)


@pytest.mark.with_merge_on_read
def test_hudi_finds_the_changes_around_services(tmp_path: Path, hudi: HudiProcess, table_type: str) -> None:
    skip_what_hudi_cannot_read(hudi, table_type)
    history = History(init_cdc_table(tmp_path / "t"), hudi)
    history.write("insert", row("a", "x", 10), row("b", "x", 10), row("c", "y", 10))
    history.write("upsert", row("a", "x", 20))
    history.write("delete", row("b", "x", 0))
    if table_type == "MERGE_ON_READ":
        history.serve(lambda client: client.compact(client.schedule_compaction()))
    history.write("upsert", row("a", "x", 30), row("c", "y", 30), by_hudi=True)
    history.serve(lambda client: client.cluster(client.schedule_clustering()))
    history.write("upsert", row("a", "x", 40), row("d", "y", 40))
    history.check(hudi)


@pytest.mark.with_merge_on_read
def test_hudi_finds_the_changes_of_buckets(tmp_path: Path, hudi: HudiProcess, table_type: str) -> None:
    skip_what_hudi_cannot_read(hudi, table_type)
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    history = History(init_cdc_table(tmp_path / "t"), hudi, **buckets)
    history.write("upsert", *(row(key, "x", 10) for key in "abcdef"))
    history.write("upsert", row("a", "x", 20), row("g", "x", 20))
    history.write("delete", row("b", "x", 0), row("nobody", "x", 0))
    history.write("upsert", row("a", "x", 30), row("h", "y", 30))
    history.check(hudi)


@pytest.mark.table_versions(9)
@pytest.mark.with_merge_on_read
def test_hudi_finds_the_rows_that_are_replaced(tmp_path: Path, hudi_1_2: HudiProcess) -> None:
    history = History(init_cdc_table(tmp_path / "t"), hudi_1_2)
    history.write("insert", row("a", "x", 10), row("b", "x", 10), row("c", "y", 10))
    history.write("upsert", row("a", "x", 20))
    history.write("insert_overwrite", row("d", "x", 30), row("b", "x", 30))
    history.write("delete_partition", row("", "y", 0))
    history.write("upsert", row("d", "x", 40), row("e", "y", 40))
    told = {time: [change for change in found if change[0] != "u"] for time, found in history.changes.items()}
    # An overwrite deletes all rows and inserts its own: an update is both.
    overwriting = sorted(told)[2]
    history.changes[overwriting] = [
        (op, overwriting, key, before, after)
        for key, old, new in (
            ("a", ("a", "x", 20, 20.5), None),
            ("b", ("b", "x", 10, 10.5), ("b", "x", 30, 30.5)),
            ("d", None, ("d", "x", 30, 30.5)),
        )
        for op, before, after in (("d", old, None), ("i", None, new))
        if before or after
    ]
    history.check(hudi_1_2)


@pytest.mark.with_merge_on_read
def test_hudi_asks_a_living_table_from_the_instant_that_the_change_tells(
    tmp_path: Path, hudi: HudiProcess, table_type: str
) -> None:
    skip_what_hudi_cannot_read(hudi, table_type)
    path = Path(init_table(tmp_path / "t"))
    history = History(path, hudi)
    history.write("insert", row("a", "x", 10), row("b", "x", 10))
    history.write("upsert", row("a", "x", 20), row("c", "x", 20))
    begin = hoodie.Table(str(path)).set_properties(with_change_data()).changes_after
    assert begin is not None
    history.write("upsert", row("a", "x", 30), row("d", "x", 30))
    history.write("delete", row("b", "x", 0), by_hudi=True)
    history.write("upsert", row("c", "x", 40))
    told = [change for time, found in history.changes.items() if time > begin for change in found]
    too_early, found = hudi.read_each(path, [cdc_query("000"), cdc_query(begin)])
    assert changes_of(found) == sorted(told, key=repr)
    assert isinstance(too_early, HudiError) and "should be a cdc log file" in str(too_early)


@pytest.mark.with_merge_on_read
def test_hudi_rolls_back_change_data(tmp_path: Path, hudi: HudiProcess, table_type: str) -> None:
    skip_what_hudi_cannot_read(hudi, table_type)
    path = init_cdc_table(tmp_path / "t")
    history = History(path, hudi)
    history.write("insert", row("a", "x", 10), row("b", "x", 10))
    with local_client(path, {**NO_SERVICES, "hoodie.auto.commit": "false"}) as client:
        instant_time = client.start_commit()
        client.upsert(rows(row("a", "x", 15), row("e", "x", 15)), instant_time)
    assert list(path.glob(f"x/.*_{instant_time}.log.1_*.cdc"))
    history.write("upsert", row("a", "x", 20), row("c", "x", 20), by_hudi=True)
    left = sorted(file.name for file in path.glob(f"x/*{instant_time}*"))
    # A rollback of Hudi 0.15 leaves change data, and appends a log file to it; neither is read.
    assert not [name for name in left if name.endswith(".parquet") or hudi.version != "0.15.0"]
    history.check(hudi)


def skip_what_hudi_cannot_read(hudi: HudiProcess, table_type: str) -> None:
    """Hudi 1.2.0 takes the commits of a merge-on-read table of version 6 for Avro."""
    if hudi.table_version == 6 and hudi.version != "0.15.0" and table_type == "MERGE_ON_READ":
        pytest.skip("Hudi 1.x cannot read the changes of a merge-on-read table of version 6")
    if hudi.version == "1.0.2":
        pytest.skip("Hudi 1.2.0 reads the changes of version 8")

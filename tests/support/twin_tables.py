"""A copy-on-write table and a merge-on-read table that get the same random writes: `TwinTables`.

They show the same rows after each commit, as long as the writes keep to what `docs/merging.md` says of log files:

- A row that comes after a delete of its key has a larger ordering value than all rows of that key before it; else the
  row of the base file may come back.
- Where fields are merged, it has no nulls, which would take values of the base file; and no row comes late.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.client.write_result import HoodieWriteResult
from hoodie.exception import HoodieNotSupportedException
from tests.support.hookable_storage import Faults, run_with_faults
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client

__all__ = ["INDEXES", "MERGING", "VERSIONS", "Merging", "TwinTables"]

VERSIONS = (6, 8, 9)
INDEXES: Mapping[str, Mapping[str, str]] = {
    "SIMPLE": {"hoodie.index.type": "SIMPLE"},
    "BLOOM": {"hoodie.index.type": "BLOOM"},
    "GLOBAL_SIMPLE": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "GLOBAL_BLOOM": {"hoodie.index.type": "GLOBAL_BLOOM"},
    "GLOBAL_SIMPLE stays": {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"},
    "GLOBAL_BLOOM stays": {"hoodie.index.type": "GLOBAL_BLOOM", "hoodie.bloom.index.update.partition.path": "false"},
    "INMEMORY": {"hoodie.index.type": "INMEMORY"},
    "INMEMORY logs": {"hoodie.index.type": "INMEMORY", "hoodie.index.inmemory.insert.into.logs": "true"},
    "BUCKET": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "3"},
    "database": {"hoodie.index.class": "hoodie.index.external.database_index.HoodieDatabaseIndex"},
    "database stays": {
        "hoodie.index.class": "hoodie.index.external.database_index.HoodieDatabaseIndex",
        "hoodie.index.database.update.partition.path": "false",
    },
}
PARTITIONS = ("x", "y", "z")
KEYS = tuple(f"k{number}" for number in range(12))
COLUMNS = {
    "id": pa.string(),
    "part": pa.string(),
    "region": pa.string(),
    "ts": pa.int64(),
    "seq": pa.int32(),
    "fare": pa.float64(),
    "city": pa.string(),
    "n": pa.int32(),
    "place": pa.struct([("lat", pa.float64()), ("name", pa.string())]),
    "Op": pa.string(),
    "_event_seq": pa.string(),
    "_event_lsn": pa.int64(),
    "_change_operation_type": pa.string(),
    "_hoodie_is_deleted": pa.bool_(),
}


@attrs.frozen
class Merging:
    """How the tables merge.

    Attributes:
        arguments: Of `init_table`.
        properties: Of every writer.
        versions: Table versions that have it.
        takes_late_rows: Whether rows may come late.
        merges_fields: Whether rows are merged field by field.
        marker: The column, and its value, that mark a delete.
    """

    arguments: Mapping[str, Any]
    properties: Mapping[str, Any] = attrs.field(factory=dict)
    versions: tuple[int, ...] = VERSIONS
    takes_late_rows: bool = False
    merges_fields: bool = False
    marker: tuple[str, Any] = ("_hoodie_is_deleted", True)


def _payload(name: str, **more: Any) -> dict[str, Any]:
    return {"payload_class": name, "ordering_fields": "ts", **more}


MERGING: Mapping[str, Merging] = {
    "event time": Merging({"ordering_fields": "ts"}, takes_late_rows=True),
    "event time, two fields": Merging({"ordering_fields": "ts,seq"}, versions=(8, 9), takes_late_rows=True),
    "commit time": Merging({"ordering_fields": ""}, takes_late_rows=True),
    "overwrite": Merging(_payload("OverwriteWithLatestAvroPayload"), takes_late_rows=True),
    "marker": Merging(
        _payload(
            "DefaultHoodieRecordPayload",
            properties={"hoodie.payload.delete.field": "Op", "hoodie.payload.delete.marker": "D"},
        ),
        takes_late_rows=True,
        marker=("Op", "D"),
    ),
    "EventTime": Merging(_payload("EventTimeAvroPayload"), takes_late_rows=True),
    "FirstValue": Merging(_payload("FirstValueAvroPayload"), takes_late_rows=True),
    "PartialUpdate": Merging(_payload("PartialUpdateAvroPayload"), merges_fields=True),
    "NonDefaults": Merging(_payload("OverwriteNonDefaultsWithLatestAvroPayload"), merges_fields=True),
    "AWSDms": Merging(_payload("AWSDmsAvroPayload"), takes_late_rows=True, marker=("Op", "D")),
    "MySqlDebezium": Merging(
        _payload("MySqlDebeziumAvroPayload"),
        versions=(6, 8),
        takes_late_rows=True,
        marker=("_change_operation_type", "d"),
    ),
    "PostgresDebezium": Merging(
        _payload("PostgresDebeziumAvroPayload"), takes_late_rows=True, marker=("_change_operation_type", "d")
    ),
}
SHARE_OF_PAST_QUERIES = 0.3
_HUDI_COLUMNS = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_commit_time")
_ORDERING = ("ts", "seq", "_event_lsn", "_event_seq")
WEIGHTS = {
    "upsert": 12,
    "insert": 3,
    "bulk_insert": 1,
    "insert_stored": 0,
    "delete": 3,
    "delete_where": 2,
    "delete_partitions": 1,
    "insert_overwrite": 1,
    "insert_overwrite_table": 0.5,
    "upsert_prepped": 2,
    "partial_update": 2,
    "new_column": 0.5,
    "wider_column": 0.5,
    "rollback": 1,
    "savepoint": 0.7,
    "restore": 0.7,
    "compact": 2,
    "schedule_compaction": 1,
    "clean": 1,
    "archive": 1,
}
Row = dict[str, Any]


class TwinTables:
    """Two tables, and the random writes that they get.

    Args:
        folder: Where they are made.
        seed: Decides everything but what is given.
        version: The table version.
        index: A name of `INDEXES`; None: any.
        merging: A name of `MERGING`; None: any.
        share_of_deaths: How many of the steps of the merge-on-read table die at a random call, and are done again.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        version: int,
        index: str | None = None,
        merging: str | None = None,
        share_of_deaths: float = 0.1,
    ) -> None:
        self.random = random.Random(seed)
        choice = self.random.choice
        self.version = version
        self.index = index or choice(sorted(INDEXES))
        self.merging_name = merging or choice(sorted(name for name, m in MERGING.items() if version in m.versions))
        self.merging = MERGING[self.merging_name]
        self.share_of_deaths = share_of_deaths
        self.log: list[str] = []
        self.deaths = 0
        self.columns = dict(COLUMNS)
        if choice([True, False]) and self.merging.marker[0] != "_hoodie_is_deleted":
            del self.columns["_hoodie_is_deleted"]
        self.keygen = choice(["simple", "complex", "none"])
        keys = {"simple": "id", "complex": "id,part", "none": "id"}[self.keygen]
        self.properties: dict[str, Any] = {
            **SMALL_FILTERS,
            **INDEXES[self.index],
            **self.merging.properties,
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.cleaner.policy": choice(["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"]),
            "hoodie.cleaner.commits.retained": choice([2, 6]),
            "hoodie.cleaner.fileversions.retained": choice([1, 2]),
            "hoodie.keep.min.commits": 7,
            "hoodie.keep.max.commits": 9,
            "hoodie.parquet.small.file.limit": choice([0, 1 << 20, 1 << 20]),
            "hoodie.copyonwrite.insert.auto.split": choice(["true", "false"]),
            "hoodie.copyonwrite.insert.split.size": choice([2, 1000]),
            "hoodie.combine.before.upsert": choice(["true", "true", "false"]),
        }
        self.of_logs: dict[str, Any] = {
            "hoodie.logfile.data.block.format": choice(["avro", "parquet"]),
            "hoodie.logfile.max.size": choice([1 << 30, 1 << 30, 2000]),
            "hoodie.logfile.data.block.max.size": choice([1 << 28, 1 << 28, 500]),
            "hoodie.merge.small.file.group.candidates.limit": choice([1, 3]),
            "hoodie.compact.inline": choice(["true", "false", "false"]),
            "hoodie.compact.inline.max.delta.commits": choice([1, 2, 4]),
            "hoodie.memory.merge.max.size": choice([0, 1 << 30]),
        }
        if self.index == "BUCKET":
            self.properties["hoodie.bucket.index.key.rule"] = "1.x" if version > 6 else "0.15"
        self.weights = dict(WEIGHTS)
        if choice([True, False]):
            # Then all times and ranges can be read.
            self.weights["clean"] = self.weights["archive"] = 0
        if not self.properties["hoodie.parquet.small.file.limit"] and self.index not in ("BUCKET", "INMEMORY logs"):
            # Then both tables store a key that is there a second time, in a new file.
            self.weights["insert_stored"] = choice([0, 2])
        arguments = {
            "table_version": version,
            "record_key_fields": keys,
            "partition_fields": "" if self.keygen == "none" else "region",
            "hive_style_partitioning": choice([True, False]),
            **self.merging.arguments,
        }
        self.paths = {"COPY_ON_WRITE": folder / "cow", "MERGE_ON_READ": folder / "mor"}
        for table_type, path in self.paths.items():
            init_table(path, table_type=table_type, **arguments)
        self.cow, self.mor = self.paths.values()
        self.rows: list[Row] = []
        """What the tables hold."""
        self.commits: list[tuple[HoodieWriteResult, HoodieWriteResult | None, list[Row]]] = []
        """Results of both tables, and the rows after them, of commits that nobody undid; None: the write died, and was
        committed."""
        self.saved: list[int] = []
        self.can_roll_back = False
        self._ts = 10
        self._newest: dict[str, int] = {}
        self._homes: dict[str, str] = {}
        self._clients: dict[Path, HoodieLocalWriteClient] = {}

    def __repr__(self) -> str:
        names = f"version {self.version}, {self.index}, {self.merging_name}, {self.keygen}"
        return f"{names}, {self.properties}, {self.of_logs}"

    # --- rows -------------------------------------------------------------------------------------------------------

    @property
    def is_global(self) -> bool:
        return "GLOBAL" in self.index or "database" in self.index or self.keygen == "none"

    @property
    def _may_have_nulls(self) -> bool:
        """Whether a row may lack a value: a row that moves to another partition must have all, if fields are merged."""
        return not (self.merging.merges_fields and self.is_global and self.keygen != "none")

    def identity(self, row: Row) -> Any:
        return row["id"] if self.is_global else (row["region"], row["id"])

    def new_row(self, key: str, region: str | None = None, flagged: bool = False) -> Row:
        choice = self.random.choice
        row: Row = {"id": key, "part": f"{key},p:{key}", "region": region or choice(PARTITIONS)}
        if "stays" in self.index:
            # A deleted key still belongs to its file group.
            row["region"] = self._homes.get(key, row["region"])
        live = {self.identity(stored) for stored in self.rows}
        is_dead = self.identity(row) not in live
        newest = self._newest.get(key, self._ts)
        if is_dead or not self.merging.takes_late_rows:
            row["ts"] = newest + 1
        else:
            row["ts"] = newest + self.random.randint(-4, 3)
        self._newest[key] = max(newest, row["ts"])
        some = [None] if self._may_have_nulls and not is_dead else []
        row["seq"] = self.random.randint(-3, 3)
        row["fare"] = choice([1.5, 2.5, 1e300, *some])
        row["city"] = choice(["", "köln", "a\nb", "x" * 300, *some])
        row["n"] = choice([0, 1, -(2**31), *some]) if self.columns["n"] == pa.int32() else choice([7, 2**40, *some])
        row["place"] = choice([{"lat": 1.0, "name": "here"}, {"lat": -1.0, "name": "there"}, *some])
        row["Op"] = choice(["I", "U"])
        row["_event_seq"] = f"{row['ts']}.{row['ts']}"
        row["_event_lsn"] = row["ts"]
        row["_change_operation_type"] = choice(["c", "u"])
        for name in self.columns:
            if name.startswith("more"):
                row[name] = choice(["m", *some])
        if flagged:
            row[self.merging.marker[0]] = self.merging.marker[1]
        return {name: row.get(name) for name in self.columns}

    def table(self, rows: list[Row], columns: list[str] | None = None) -> pa.Table:
        names = columns or list(self.columns)
        schema = pa.schema([(name, self.columns[name]) for name in names])
        return pa.Table.from_pylist([{name: row[name] for name in names} for row in rows], schema)

    def fresh_rows(self, count: int) -> list[Row]:
        """Rows of keys that the table does not hold, in any partition."""
        live = {row["id"] for row in self.rows}
        free = [key for key in KEYS if key not in live] or [f"new{self._ts}"]
        return [self.new_row(key) for key in self.random.sample(free, min(count, len(free)))]

    def read(self, path: Path, **options: Any) -> list[Row]:
        """The rows of a table as a query gives them, in order, with the columns of Hudi that do not name files."""
        found = hoodie.read_table(str(path), **options)
        names = [name for name in (*self.columns, *_HUDI_COLUMNS) if name in found.schema.names]
        return sorted(found.select(names).to_pylist(), key=repr)

    # --- steps ------------------------------------------------------------------------------------------------------

    def client(self, path: Path, **more: Any) -> HoodieLocalWriteClient:
        """A client: often the one before, as INMEMORY keeps keys in it."""
        if more or path not in self._clients or self.random.random() < 0.4:
            if path in self._clients:
                self._clients.pop(path).close()
            properties = {**self.properties, **(self.of_logs if path == self.mor else {}), **more}
            client = local_client(path, properties, parallelism=1)
            if more:
                return client
            self._clients[path] = client
        return self._clients[path]

    def step(self) -> None:
        """Do one thing to both tables, and compare."""
        name = self.random.choices(list(self.weights), list(self.weights.values()))[0]
        self._ts += 1
        self.log.append(name)
        match name:
            case "compact" | "schedule_compaction":
                self._on_mor(getattr(self.client(self.mor), name), self.rows, self.rows)
                self.can_roll_back = False
            case "clean" | "archive":
                for path in (self.cow, self.mor):
                    getattr(self.client(path), name)()
                self.can_roll_back = False
            case "rollback":
                self._roll_back()
            case "savepoint":
                self._save()
            case "restore":
                self._restore()
            case _:
                self._write(name)
        self.compare()

    def _write(self, name: str) -> None:
        work = self._work(name)
        if work is None:
            self.log[-1] += " (nothing)"
            return
        before = self.rows
        more = {"hoodie.write.partial.update": "true"} if name == "partial_update" else {}
        of_cow = work(self.client(self.cow, **more))
        self.rows = self.read(self.cow)
        try:
            of_mor = self._on_mor(lambda: work(self.client(self.mor, **more)), before, self.rows)
        except HoodieNotSupportedException as error:
            if "Run the compaction first" not in str(error):
                raise
            self.client(self.mor).compact()
            of_mor = work(self.client(self.mor, **more))
        self.can_roll_back = of_mor is not None
        if (of_cow.is_committed and of_cow.completion_time is not None) or self.version == 6:
            self.commits.append((of_cow, of_mor, self.rows))
        for row in self.rows:
            self._homes[row["id"]] = (
                row["region"] if self.keygen == "none" else row["_hoodie_partition_path"].split("=")[-1]
            )

    def _dies(self) -> bool:
        """Whether a failure ends the process; else one call fails, and the same client goes on."""
        return True

    def _on_mor(self, work: Callable[[], Any], before: list[Row], after: list[Row]) -> Any:
        """Do it to the merge-on-read table; perhaps die of it, recover, and do it again if it was not done."""
        if self.random.random() >= self.share_of_deaths:
            return work()
        found: list[Any] = []
        faults = Faults(self.random.randint(1, 70), self.random.choice(["before", "after"]), dies=self._dies())
        error = run_with_faults(faults, lambda: found.append(work()))
        if error is None:
            return found[0]
        if not faults.fired:
            raise error
        self.deaths += 1
        self.log[-1] += f" (died: {str(error)[:60]})"
        self._recover()
        seen = _without_times(self.read(self.mor))
        if seen == _without_times(after) and after is not before:
            return None
        assert seen == _without_times(before), "a write that died left some of its rows"
        return work()

    def _recover(self) -> None:
        client = self._clients.pop(self.mor, None)
        for heartbeat in client._heartbeats._heartbeats.values() if client is not None else ():
            heartbeat.stopped.set()
        heartbeats = self.mor / ".hoodie" / ".heartbeat"
        for file in heartbeats.iterdir() if heartbeats.exists() else ():
            os.utime(file, (1, 1))
        with local_client(self.mor, {**self.properties, **self.of_logs}, parallelism=1) as client:
            client.rollback_failed_writes()

    def _work(self, name: str) -> Callable[[HoodieLocalWriteClient], HoodieWriteResult] | None:
        choice, stored = self.random.choice, self.rows
        match name:
            case "upsert":
                keys = self.random.choices(KEYS, k=self.random.randint(1, 6))
                rows = self.table([self.new_row(key, flagged=self.random.random() < 0.15) for key in sorted(set(keys))])
                return lambda client: client.upsert(rows)
            case "insert" | "bulk_insert" | "insert_overwrite_table" | "insert_overwrite":
                if name == "insert_overwrite" and self.is_global and self.keygen != "none":
                    return None
                if name.startswith("insert_overwrite"):
                    rows = self.table([self.new_row(key) for key in self.random.sample(KEYS, 3)])
                else:
                    rows = self.table(self.fresh_rows(self.random.randint(1, 4)))
                return lambda client: getattr(client, name)(rows)
            case "insert_stored":
                if not stored:
                    return None
                again = self.random.sample(stored, min(2, len(stored)))
                rows = self.table([self.new_row(row["id"], row["region"]) for row in again])
                return lambda client: client.insert(rows)
            case "delete":
                rows = self.table(
                    [self.new_row(key) for key in self.random.sample(KEYS, 2)]
                    + ([self.random.choice(stored)] if stored else [])
                ).select(["id", "part", "region"])
                return lambda client: client.delete(rows)
            case "delete_where":
                bound = choice([row["ts"] for row in stored] or [0])
                cities = [("city", "=", "köln"), ("fare", ">", 2)]
                filters = choice([[("ts", "<", bound)], [("ts", "=", bound)], cities])
                return lambda client: client.delete(where=filters)
            case "delete_partitions":
                paths = sorted({row["_hoodie_partition_path"] for row in stored})
                if not paths:
                    return None
                path = choice(paths)
                return lambda client: client.delete_partitions([path])
            case "upsert_prepped":
                if not stored:
                    return None
                names = [row["_hoodie_record_key"] for row in self.random.sample(stored, min(2, len(stored)))]
                bumped = {name: self._bump(name) for name in names}

                def prepped(client: HoodieLocalWriteClient) -> HoodieWriteResult:
                    found = hoodie.read_table(client.config.base_path, filters=[("_hoodie_record_key", "in", names)])
                    times = [bumped[name] for name in found["_hoodie_record_key"].to_pylist()]
                    for column, values in (
                        ("ts", times),
                        ("_event_lsn", times),
                        ("_event_seq", [f"{t}.{t}" for t in times]),
                    ):
                        place = found.schema.get_field_index(column)
                        found = found.set_column(place, column, pa.array(values, found.schema.field(column).type))
                    return client.upsert_prepped_records(found)

                return prepped
            case "partial_update":
                if not stored:
                    return None
                chosen = self.random.sample(stored, min(2, len(stored)))
                if self.is_global and "stays" in self.index:
                    return None
                with_order = choice([True, False]) or self.merging_name in ("FirstValue", "MySqlDebezium")
                names = ["id", "part", "region", "fare", *(_ORDERING if with_order else [])]
                regions = [None if self.is_global else row["region"] for row in chosen]
                new = [self.new_row(row["id"], region) for row, region in zip(chosen, regions, strict=True)]
                rows = self.table(new, names)
                return lambda client: client.upsert(rows)
            case "new_column":
                self.columns[f"more{self._ts}"] = pa.string()
                return self._work("upsert")
            case _:
                if self.version == 6 and self.of_logs["hoodie.logfile.data.block.format"] == "parquet":
                    return None
                self.columns["n"] = pa.int64()
                return self._work("upsert")

    def _bump(self, record_key: str) -> int:
        key = record_key.split(",")[0].removeprefix("id:")
        self._newest[key] = self._newest.get(key, self._ts) + 1
        return self._newest[key]

    def _newest_of_both(self) -> tuple[HoodieWriteResult, HoodieWriteResult] | None:
        """The last commit if it can be undone or saved: nothing came after it in either table."""
        if not self.can_roll_back or not self.commits or (self.saved and self.saved[-1] == len(self.commits)):
            return None
        of_cow, of_mor, _ = self.commits[-1]
        newest = HoodieTableMetaClient.load(str(self.mor)).active_timeline.commits_timeline().last_instant
        if newest is None or of_mor is None or newest.requested_time != of_mor.instant_time:
            return None
        return of_cow, of_mor

    def _roll_back(self) -> None:
        results = self._newest_of_both()
        if results is None:
            self.log[-1] += " (nothing)"
            return
        after = self.commits[-2][2] if len(self.commits) > 1 else []
        self.client(self.cow).rollback(results[0].instant_time)
        self._on_mor(lambda: self.client(self.mor).rollback(results[1].instant_time), self.rows, after)
        self.commits.pop()
        self._take_back(after)

    def _save(self) -> None:
        results = self._newest_of_both()
        if results is None:
            self.log[-1] += " (nothing)"
            return
        for path, result in zip((self.cow, self.mor), results, strict=True):
            self.client(path).savepoint(result.instant_time)
        self.saved.append(len(self.commits))

    def _restore(self) -> None:
        if not self.saved:
            self.log[-1] += " (nothing)"
            return
        number = self.saved[-1]
        of_cow, of_mor, rows = self.commits[number - 1]
        assert of_mor is not None
        time = of_mor.instant_time
        self.client(self.cow).restore_to_savepoint(of_cow.instant_time)
        self._on_mor(lambda: self.client(self.mor).restore_to_savepoint(time), self.rows, rows)
        del self.commits[number:]
        self._take_back(rows)

    def _take_back(self, rows: list[Row]) -> None:
        self.rows = rows
        self.can_roll_back = False

    # --- comparing --------------------------------------------------------------------------------------------------

    def compare(self) -> None:
        """Compare what queries give of both tables: the latest rows, and sometimes those of a time and of a range."""
        merged = self.read(self.mor)
        _same(_without_times(self.rows), _without_times(merged), "the latest rows")
        known = [(of_cow, of_mor, rows) for of_cow, of_mor, rows in self.commits if of_mor is not None]
        if known and len(known) == len(self.commits):
            _same(self._numbered(self.rows), self._numbered(merged), "the latest rows and their commits")
        if not known or self.weights["clean"] or self.random.random() > SHARE_OF_PAST_QUERIES:
            return
        first = self.random.randrange(len(known))
        last = self.random.randrange(first, len(known))
        begins, ends = ([self._time(result) for result in known[number][:2]] for number in (first, last))
        if known[first][2]:
            rows = self.read(self.mor, as_of=begins[1])
            _same(_without_times(known[first][2]), _without_times(rows), "the rows as of a time")
        ranges = [
            _without_times(self.read(path, query_type="incremental", begin=begin, end=end))
            for path, begin, end in zip((self.cow, self.mor), begins, ends, strict=True)
        ]
        _same(ranges[0], ranges[1], "the rows of a range")

    def _time(self, result: HoodieWriteResult) -> str:
        """The time of a commit in queries of the past."""
        return result.instant_time if self.version == 6 else str(result.completion_time)

    def _numbered(self, rows: list[Row]) -> list[Row]:
        """Rows with the number of their commit."""
        times = {r.instant_time: n for n, (*results, _) in enumerate(self.commits) for r in results if r is not None}
        return [{**row, "_hoodie_commit_time": times.get(row["_hoodie_commit_time"])} for row in rows]


def _without_times(rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "_hoodie_commit_time"} for row in rows]


def _same(expected: list[Row], found: list[Row], what: str) -> None:
    lacking, more = ([row for row in one if row not in other] for one, other in ((expected, found), (found, expected)))
    assert not lacking and not more, f"{what} differ:\n copy-on-write alone: {lacking}\n merge-on-read alone: {more}"
    assert len(expected) == len(found), f"{what} are there {len(expected)} and {len(found)} times"

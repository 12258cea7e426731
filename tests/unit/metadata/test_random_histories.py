"""Random histories with all partitions of a metadata table: rows and queries are those of a table without one."""

from __future__ import annotations

import datetime
import logging
import math
import operator
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
import hoodie.metadata
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieException
from hoodie.query.arrow_reader import scan
from tests.support.metadata_table_checks import check_equals_a_new_one
from tests.support.table_builder import init_table, local_client

LONG = "é" * 40 + "z" * 60
STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("Name", pa.string()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("n", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(30, 18)),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("ok", pa.bool_()),
        ("raw", pa.binary()),
        ("s", STRUCT),
    ]
)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
VALUES: dict[str, list[Any]] = {
    "Name": [
        "",
        "a",
        "A",
        "a" * 100,
        "a" * 100 + "b",
        LONG,
        LONG + "q",
        "\U0001f600",
        "\uffff",
        "x\x00y",
        "$",
        "\\",
        None,
    ],
    "f": [0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, -1.5, 1e300, None],
    "g": [0.0, -0.0, math.nan, 0.5, -2.0, None],
    "n": [0, -1, 7, 2**31 - 1, -(2**31), None],
    "price": [Decimal("0.00"), Decimal("-0.01"), Decimal("99999999.99"), Decimal("1.50"), None],
    "wide": [Decimal("0"), Decimal("-1.000000000000000001"), Decimal("999999999999.999999999999999999"), None],
    "at": [
        EPOCH,
        EPOCH - datetime.timedelta(microseconds=1),
        EPOCH + datetime.timedelta(days=20000, microseconds=999_999),
        EPOCH + datetime.timedelta(days=20000, microseconds=999_001),
        None,
    ],
    "day": [datetime.date(1969, 12, 31), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29), None],
    "ok": [True, False, None],
    "raw": [b"", b"\x00", b"\xff" * 70, b"abc", None],
    "s": [None, {"a": None, "b": None}, {"a": 1, "b": "x"}, {"a": -5, "b": LONG}],
}
REGIONS = ["x", "y", "z z", "é=1"]
INDEX_TYPES = ["SIMPLE", "BLOOM", "GLOBAL_BLOOM", "RECORD_INDEX", "INMEMORY", "BUCKET", "RECORD_LEVEL_INDEX"]
GLOBAL = ("GLOBAL_BLOOM", "RECORD_INDEX")
SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "InProcessLockProvider",
}
ALL = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.bloom.filter.file.group.count": 1,
    "hoodie.metadata.record.index.min.filegroup.count": 2,
    "hoodie.metadata.partitioned.record.index.min.filegroup.count": 1,
    "hoodie.index.bloom.num_entries": 100,
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.bloom.index.use.metadata": "true",
}
WITHOUT = {"hoodie.metadata.enable": False}
WEIGHTS = {
    "upsert": 8,
    "move": 3,
    "insert": 3,
    "bulk_insert": 2,
    "delete": 3,
    "insert_overwrite": 2,
    "insert_overwrite_table": 1,
    "delete_partitions": 1,
    "clean": 2,
    "archive": 2,
    "savepoint": 1,
    "restore": 1,
    "rollback": 2,
    "die": 2,
    "begin": 2,
    "end": 3,
    "create_index": 2,
    "drop_index": 1,
    "toggle": 1,
    "evolve": 1,
}
COMPACTIONS = {"compact": 4, "schedule_compaction": 2}
KEYS = 24
SHARE_OF_LOOKS = 0.3

Row = dict[str, Any]


class MetadataHistory:
    """One table and the rows that it must have.

    Args:
        base_path: Its folder.
        seed: Of all choices.
        table_version: 6, 8 or 9.
        table_type: ``COPY_ON_WRITE`` or ``MERGE_ON_READ``.
        index_type: Of all writers.
    """

    def __init__(self, base_path: Path, seed: int, table_version: int, table_type: str, index_type: str) -> None:
        self.path = str(base_path)
        self.random = random.Random(seed)
        self.version = table_version
        self.index_type = index_type
        self.log: list[str] = []
        self.rows: dict[str, Row] = {}
        self.past: dict[str, dict[str, Row]] = {}
        """The rows after each completed commit that was not undone."""
        self.schema = COLUMNS
        self.indexes: dict[str, str] = {}
        self.begun: tuple[str, Any, HoodieLocalWriteClient, dict[str, Row]] | None = None
        self.saved: str | None = None
        self.used: set[str] = set()
        """The words of plans that left something out."""
        self._ts = 0
        self._next = 0
        choice = self.random.choice
        by_partition = index_type == "RECORD_LEVEL_INDEX"
        index = "hoodie.metadata.record.level.index.enable" if by_partition else "hoodie.metadata.record.index.enable"
        self.properties: dict[str, Any] = {
            **ALL,
            index: "true",
            "hoodie.index.type": index_type,
            "hoodie.metadata.compact.max.delta.commits": choice([1, 2, 4, 10]),
            "hoodie.metadata.log.compaction.enable": choice(["true", "false"]),
            "hoodie.metadata.log.compaction.blocks.threshold": choice([2, 3]),
            "hoodie.metadata.index.column.stats.file.group.count": choice([1, 2]),
            "hoodie.clean.automatic": choice(["true", "false"]),
            "hoodie.archive.automatic": choice(["true", "false"]),
            "hoodie.cleaner.commits.retained": choice([1, 3]),
            "hoodie.keep.min.commits": choice([4, 5]),
            "hoodie.keep.max.commits": 6,
            "hoodie.parquet.small.file.limit": choice([0, 1 << 20]),
            "hoodie.cleaner.policy.failed.writes": "LAZY",
            "hoodie.record.index.update.partition.path": "true",
            "hoodie.bloom.index.update.partition.path": "true",
            "hoodie.write.set.null.for.missing.columns": "true",
            **SEVERAL,
        }
        if index_type == "BUCKET":
            self.properties["hoodie.bucket.index.num.buckets"] = 2
        self.weights = dict(WEIGHTS)
        if table_type == "MERGE_ON_READ":
            self.weights |= COMPACTIONS
            self.properties["hoodie.compact.inline.max.delta.commits"] = choice([1, 2, 4])
            self.properties["hoodie.compact.inline"] = choice(["true", "false"])
        if table_version < 8:
            for name in ("create_index", "drop_index"):
                del self.weights[name]
        init_table(base_path, table_type=table_type, table_version=table_version)

    # --- one step -------------------------------------------------------------------------------------------------

    def step(self, name: str | None = None, *, looks: bool | None = None) -> None:
        """Do one thing; look at everything, or, by default, sometimes."""
        self._ts += 1
        chosen = name or self.random.choices(list(self.weights), list(self.weights.values()))[0]
        self.log.append(chosen)
        try:
            getattr(self, f"do_{chosen}")()
            if self.random.random() < SHARE_OF_LOOKS if looks is None else looks:
                self.check()
        except BaseException as error:
            error.add_note(f"after {', '.join(self.log)}")
            raise

    def client(self, **more: Any) -> HoodieLocalWriteClient:
        return local_client(self.path, {**self.properties, **more}, parallelism=1)

    def values(self) -> Row:
        row = {name: self.random.choice(VALUES[name]) for name in COLUMNS.names[3:]}
        for field in list(self.schema)[len(COLUMNS) :]:
            row[field.name] = self.random.choice([None, 1, 2, 3])
        if self.random.random() < 0.3:
            # Files whose rows are alike.
            row |= {"Name": f"n{self._ts}", "n": self._ts, "f": float(self._ts)}
        return row

    def table(self, found: dict[str, Row]) -> pa.Table:
        return pa.Table.from_pylist(list(found.values()), self.schema)

    def changed(self, keys: list[str], regions: dict[str, str]) -> dict[str, Row]:
        return {key: {"id": key, "region": regions[key], "ts": self._ts, **self.values()} for key in keys}

    def some(self, least: int, most: int) -> dict[str, Row]:
        """Rows of keys that are there, in their partitions, and of new ones."""
        keys = self.random.sample([f"k{number}" for number in range(KEYS)], self.random.randint(least, most))
        regions = {key: self.region_of(key) for key in keys}
        return self.changed(keys, regions)

    def region_of(self, key: str) -> str:
        if key in self.rows:
            return str(self.rows[key]["region"])
        if self.index_type in GLOBAL:
            return self.random.choice(REGIONS)
        return REGIONS[int(key[1:]) % len(REGIONS)]

    def new(self) -> dict[str, Row]:
        keys = []
        for _ in range(self.random.randint(1, 4)):
            self._next += 1
            keys.append(f"new{self._next}")
        return self.changed(keys, {key: self.random.choice(REGIONS) for key in keys})

    def done(self, instant_time: str | None, rows: dict[str, Row]) -> None:
        self.rows = rows
        if instant_time is not None:
            self.past[instant_time] = rows

    def write(self, operation: str, given: Any, after: dict[str, Row]) -> None:
        with self.client() as client:
            try:
                result = getattr(client, operation)(given)
            except HoodieException as error:
                if not self.may_refuse(error):
                    raise
                self.log[-1] += f" ({type(error).__name__})"
                self.tidy()
                return
            assert result.service_errors == (), result.service_errors
            self.done(result.instant_time if result.is_committed else None, after)

    def may_refuse(self, error: HoodieException) -> bool:
        text = str(error)
        return self.begun is not None or "pending" in text or "Run the compaction first" in text

    def tidy(self) -> None:
        """Roll back what a refused write left; a write that another writer began stays."""
        kept = None if self.begun is None else self.begun[0]
        timeline = HoodieTableMetaClient.load(self.path).active_timeline
        for instant in timeline.filter_pending():
            if instant.action in (Action.COMPACTION, Action.CLEAN) or instant.requested_time == kept:
                continue
            with self.client() as client:
                client.rollback(instant.requested_time)

    # --- writes ---------------------------------------------------------------------------------------------------

    def do_upsert(self) -> None:
        given = self.some(1, 6)
        self.write("upsert", self.table(given), {**self.rows, **given})

    def do_move(self) -> None:
        if self.index_type not in GLOBAL or not self.rows:
            return self.do_upsert()
        keys = self.random.sample(sorted(self.rows), min(3, len(self.rows)))
        given = self.changed(keys, {key: self.random.choice(REGIONS) for key in keys})
        self.write("upsert", self.table(given), {**self.rows, **given})
        return None

    def do_insert(self) -> None:
        given = self.new()
        self.write("insert", self.table(given), {**self.rows, **given})

    def do_bulk_insert(self) -> None:
        if self.index_type == "BUCKET":
            return self.do_insert()
        given = self.new()
        self.write("bulk_insert", self.table(given), {**self.rows, **given})
        return None

    def do_delete(self) -> None:
        keys = self.random.sample(sorted(self.rows), min(self.random.randint(1, 5), len(self.rows)))
        given = [HoodieKey(key, str(self.rows[key]["region"])) for key in keys] + [HoodieKey("never", "x")]
        self.write("delete", given, {key: row for key, row in self.rows.items() if key not in keys})

    def do_insert_overwrite(self) -> None:
        regions = self.random.sample(REGIONS, 2)
        gone = {key: row for key, row in self.rows.items() if row["region"] not in regions}
        given = {key: {**row, "region": self.random.choice(regions)} for key, row in self.new().items()}
        hit = {row["region"] for row in given.values()}
        gone = {key: row for key, row in self.rows.items() if row["region"] not in hit}
        self.write("insert_overwrite", self.table(given), {**gone, **given})

    def do_insert_overwrite_table(self) -> None:
        given = self.new()
        self.write("insert_overwrite_table", self.table(given), given)

    def do_delete_partitions(self) -> None:
        region = self.random.choice(REGIONS)
        self.write(
            "delete_partitions", [region], {key: row for key, row in self.rows.items() if row["region"] != region}
        )

    def do_evolve(self) -> None:
        name = f"more{len(self.schema)}"
        kind = pa.int64() if len(self.schema) % 2 else pa.string()
        if self.begun is not None or kind == pa.string():
            kind = pa.int64()
        self.schema = self.schema.append(pa.field(name, kind))
        self.rows = {key: {**row, name: None} for key, row in self.rows.items()}
        self.do_upsert()

    # --- writes that do not end as they should --------------------------------------------------------------------

    def do_die(self) -> None:
        """A write that is never committed, and rolled back at once or by whoever comes."""
        client = self.client(**{"hoodie.auto.commit": "false"})
        instant_time = client.start_commit()
        try:
            client.upsert(self.table(self.some(1, 4)), instant_time)
        except HoodieException as error:
            if not self.may_refuse(error):
                raise
        with self.client() as other:
            other.rollback(instant_time)

    def do_begin(self) -> None:
        """A write that ends some steps later."""
        if self.begun is not None or (self.index_type == "BUCKET"):
            return
        client = self.client(**{"hoodie.auto.commit": "false"})
        instant_time = client.start_commit()
        given = self.new()
        try:
            result = client.insert(self.table(given), instant_time)
        except HoodieException as error:
            if not self.may_refuse(error):
                raise
            with self.client() as other:
                other.rollback(instant_time)
            return
        self.begun = instant_time, result, client, given

    def do_end(self) -> None:
        """The write that began before is committed, or rolled back."""
        if self.begun is None:
            return
        instant_time, result, client, given = self.begun
        if self.random.random() < 0.5:
            try:
                client.commit(instant_time, result)
            except HoodieException as error:
                self.log[-1] += f" ({type(error).__name__})"
            else:
                self.begun = None
                # As of that time later commits are not there.
                self.past.clear()
                self.rows = {**self.rows, **given}
                return
        client.close()
        self.begun = None
        self.log[-1] += " by a rollback"
        with self.client() as other:
            other.rollback(instant_time)

    # --- services and ways back -----------------------------------------------------------------------------------

    def do_compact(self) -> None:
        with self.client() as client:
            client.schedule_compaction()
            client.compact()

    def do_schedule_compaction(self) -> None:
        with self.client() as client:
            client.schedule_compaction()

    def do_clean(self) -> None:
        with self.client() as client:
            client.clean()

    def do_archive(self) -> None:
        with self.client() as client:
            client.archive()

    def do_savepoint(self) -> None:
        if self.saved is not None or not self.rows or self.begun is not None:
            return
        newest = max(self.past, default=None)
        if newest is None:
            return
        try:
            with self.client() as client:
                client.savepoint(newest)
        except HoodieException as error:
            self.log[-1] += f" ({type(error).__name__}: {error})"
            return
        self.saved = newest

    def do_restore(self) -> None:
        if self.saved is None or self.begun is not None:
            return
        with self.client() as client:
            try:
                client.restore_to_savepoint(self.saved)
            except HoodieException as error:
                if not self.may_refuse(error):
                    raise
                self.log[-1] += f" ({error})"
                return
            client.delete_savepoint(self.saved)
        self.rows = dict(self.past[self.saved]) if self.saved in self.past else self.stored()
        self.past = {time: rows for time, rows in self.past.items() if time <= self.saved}
        self.saved = None

    def do_rollback(self) -> None:
        """Of the newest commit."""
        writes = HoodieTableMetaClient.load(self.path).active_timeline.completed_writes().instants
        known = [time for time in sorted(self.past) if time != self.saved]
        if len(known) < 2 or not writes or self.begun is not None or known[-1] == self.saved:
            return
        newest = known[-1]
        if writes[-1].requested_time != newest or (self.saved is not None and newest <= self.saved):
            return
        try:
            with self.client() as client:
                client.rollback(newest)
        except HoodieException as error:
            self.log[-1] += f" ({type(error).__name__})"
            return
        del self.past[newest]
        self.rows = dict(self.past[max(self.past)])

    # --- the metadata table ---------------------------------------------------------------------------------------

    def do_create_index(self) -> None:
        free = [column for column in ("Name", "n", "ok", "region") if f"idx_{column}" not in self.indexes]
        if not free or not self.rows or self.index_type == "RECORD_LEVEL_INDEX":
            return
        column = self.random.choice(free)
        with self.client() as client:
            try:
                client.create_index(f"idx_{column}", column)
            except HoodieException as error:
                if "pending" not in str(error):
                    raise
                return
        self.indexes[f"idx_{column}"] = column

    def do_drop_index(self) -> None:
        if self.indexes:
            name = self.random.choice(sorted(self.indexes))
            with self.client() as client:
                client.drop_index(name)
            del self.indexes[name]

    def do_toggle(self) -> None:
        """A partition goes, and comes again with the next write."""
        name = self.random.choice(["index.column.stats", "index.bloom.filter", "index.partition.stats"])
        given = self.some(1, 2)
        with self.client(**{f"hoodie.metadata.{name}.enable": "false"}) as client:
            try:
                result = client.upsert(self.table(given))
            except HoodieException as error:
                if not self.may_refuse(error):
                    raise
                return self.tidy()
        self.done(result.instant_time, {**self.rows, **given})
        return None

    # --- what must hold -------------------------------------------------------------------------------------------

    def stored(self) -> dict[str, Row]:
        found = hoodie.read_table(self.path, options=WITHOUT).select(self.schema.names).to_pylist()
        assert len({row["id"] for row in found}) == len(found), "a row is there twice"
        return {row["id"]: row for row in found}

    def check(self) -> None:
        """The rows are those of the model; the metadata table is right, and changes no result."""
        if not self.past and not self.rows:
            return
        stored = hoodie.read_table(self.path, options=WITHOUT)
        # A column goes with the write that brought it.
        names = [name for name in self.schema.names if name in stored.schema.names]
        shown, expected = (_shown(rows.select(names)) for rows in (stored, self.table(self.rows)))
        assert shown == expected, f"the rows are wrong: {set(shown) ^ set(expected)}"
        table = TableSnapshot.load(self.path)
        if not table.table_config.metadata_partitions:
            return
        if len(table.active_timeline.filter_pending()):
            result = hoodie.metadata.validate(self.path)
            assert result.is_right, str(result)
        else:
            check_equals_a_new_one(self.path)
        for condition, meant in self.conditions(8, stored):
            self.compare(condition, stored.filter(meant))
        for time in self.random.sample(sorted(self.past), min(1, len(self.past))):
            try:
                stored = hoodie.read_table(self.path, as_of=time, options=WITHOUT)
            except HoodieException:
                continue
            for condition, meant in self.conditions(2, stored):
                self.compare(condition, stored.filter(meant), as_of=time)

    def compare(self, condition: pc.Expression, rows: pa.Table, **query: Any) -> None:
        """A query gives the rows of the table that fulfil its condition."""
        expected = _shown(rows)
        plan = hoodie.plan_read(self.path, filters=condition, **query)
        found = _shown(scan(plan).read_all())
        assert found == expected, f"{condition} {query}: {found}, not {expected}\n{plan.explain()}"
        self.used |= {word for word in WORDS if word in plan.explain()}

    def conditions(self, count: int, stored: pa.Table) -> Iterator[Condition]:
        """Conditions on the columns that a table has at some time."""
        more = [name for name in stored.schema.names if name.startswith("more")]
        for _ in range(count):
            one = self.condition(more)
            if self.random.random() < 0.3:
                other = self.condition(more)
                join = operator.and_ if self.random.random() < 0.5 else operator.or_
                one = join(one[0], other[0]), join(one[1], other[1])
            yield one

    def condition(self, more: Sequence[str]) -> Condition:
        choice = self.random.choice
        kind = self.random.random()
        if kind < 0.2:
            keys = self.random.sample([*sorted(self.rows), "never", "k1", "k2"], 2)
            column = choice(["_hoodie_record_key", "id"])
            by_key = pc.field(column).isin(keys) if kind < 0.1 else pc.field(column) == keys[0]
            return by_key, by_key
        names = [*VALUES, "region", "ts", *(name for name in more if name in self.schema.names)]
        name = choice([*names, "Name", "Name", "n"])
        if name == "s":
            part, values = choice([("a", [1, -5, 2]), ("b", ["x", LONG, "no"])])
            field, data_type = pc.field("s", part), STRUCT.field(part).type
        else:
            values = VALUES.get(name, REGIONS if name == "region" else list(range(1, self._ts + 2)))
            field, data_type = pc.field(name), self.schema.field(name).type
        stored = [row[name] for row in self.rows.values() if name != "s" and row.get(name) is not None]
        known = [value for value in [*values, *stored] if value is not None]
        value = pa.scalar(choice(known), data_type)
        is_nan = isinstance(value.as_py(), float) and math.isnan(value.as_py())
        equal = field == value, field.is_nan() if is_nan else field == value
        conditions: list[Condition] = [
            equal,
            equal,
            (field != value, ~equal[1] if is_nan else field != value),
            *((one, one) for one in (field < value, field >= value, (field > value) | (field <= value))),
            *((one, one) for one in (field.is_null(), field.is_valid())),
            (~equal[0], ~equal[1]),
        ]
        if name not in ("s",) and not pa.types.is_floating(data_type):
            some = self.random.sample(known, min(2, len(known)))
            is_in = field.isin(pa.array(some, data_type))
            conditions += [(is_in, is_in)] * 2
        return choice(conditions)


Condition = tuple[pc.Expression, pc.Expression]
"""A filter, and what it means: to a filter NaN equals NaN, to Arrow it does not."""
WORDS = (
    "partition statistics of the metadata table",
    "column statistics of the metadata table",
    "record index",
    "secondary index",
)


def _shown(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


STEPS, FEW_STEPS = 14, 5
QUICK, SLOW, SOAK = (8,), range(6), range(6, 300)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("seed", "steps"),
    [
        *(pytest.param(seed, FEW_STEPS, id=f"{seed}-some") for seed in QUICK),
        *(pytest.param(seed, STEPS, id=str(seed), marks=pytest.mark.slow) for seed in SLOW),
        *(pytest.param(seed, STEPS, id=str(seed), marks=pytest.mark.soak) for seed in SOAK),
    ],
)
@pytest.mark.one_in(4)
def test_no_history_makes_a_query_wrong(tmp_path: Path, seed: int, steps: int) -> None:
    version, kind = (6, 8, 9)[seed % 3], ("COPY_ON_WRITE", "MERGE_ON_READ")[seed // 3 % 2]
    types = [name for name in INDEX_TYPES if version == 9 or name != "RECORD_LEVEL_INDEX"]
    history = MetadataHistory(tmp_path / "t", seed, version, kind, types[seed // 6 % len(types)])
    history.step("upsert", looks=False)
    for _ in range(steps):
        history.step()
    history.step("upsert", looks=True)
    assert history.used, "no query used the metadata table"

"""Random histories of a table, whose changes lead from the rows at the begin of a range to those at its end.

Replays are strict: a delete or an update meets the row that it names, an insert meets none.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa

import hoodie
from hoodie import HoodieKey
from hoodie.exception import HoodieIOException, HoodieNotSupportedException
from tests.support.table_builder import init_table, local_client

__all__ = ["ChangeHistory", "changes_of", "replayed", "rows_by_place"]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("fare", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("deep", pa.struct([("x", pa.int64())])),
    ]
)
REGIONS = "xyz"
Place = tuple[str, str]
Rows = dict[Place, Mapping[str, Any]]


def changes_of(
    path: str | Path, begin: str | None, end: str | None = None, **query: Any
) -> tuple[pa.Table, str | None]:
    """The changes of a range, and the begin of the next one."""
    given = {"query_type": "incremental", "query_format": "cdc", "begin": begin or "earliest", **query}
    plan = hoodie.plan_read(str(path), **given, **({"end": end} if end else {}))
    return pa.Table.from_batches(plan.batches(), plan.result_schema), plan.next_begin


def rows_by_place(rows: Iterable[Mapping[str, Any]]) -> Rows:
    """Rows by partition and key."""
    return {(row["region"], row["id"]): row for row in rows}


def replayed(rows: Rows, changes: pa.Table) -> Rows:
    """Rows after changes."""
    found = dict(rows)
    for change in changes.to_pylist():
        before, after = change["before"], change["after"]
        row = before or after
        place = row["region"], row["id"]
        assert found.get(place) == before, (change, found.get(place))
        assert (change["op"], before is None, after is None) in {
            ("i", True, False),
            ("u", False, False),
            ("d", False, True),
        }, change
        if after is None:
            del found[place]
        else:
            assert (after["region"], after["id"]) == place
            found[place] = after
    return found


@attrs.define
class Known:
    """The table at a time.

    Attributes:
        time: The begin of the range that goes on from it; None for the table without commits.
        rows: Its rows.
    """

    time: str | None
    rows: Rows


class ChangeHistory:
    """A table, and its states after each step.

    Args:
        base_path: Its folder, which does not exist.
        seed: Chooses the steps.
        table_type: Its type.
        version: Its version.
        options: More options of its writer.
        properties: More properties of the table.
    """

    def __init__(
        self,
        base_path: Path,
        seed: int,
        table_type: str,
        version: int,
        options: Mapping[str, Any] | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        self.random = rng = random.Random(seed)
        self.is_on_read = table_type == "MERGE_ON_READ"
        self.log: list[str] = []
        self.seen: Counter[str] = Counter()
        self.states = [Known(None, {})]
        self._ts = 0
        self.options = {
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.parquet.small.file.limit": rng.choice([0, 1 << 20]),
            "hoodie.index.type": rng.choice(
                ["SIMPLE", "BLOOM", "INMEMORY"] if self.is_on_read else ["SIMPLE", "BLOOM"]
            ),
            "hoodie.clustering.plan.strategy.small.file.limit": 1 << 20,
            "hoodie.cleaner.commits.retained": 2,
            "hoodie.keep.min.commits": 3,
            "hoodie.keep.max.commits": 4,
            **(options or {}),
        }
        self.path = init_table(base_path, table_type=table_type, table_version=version, **(properties or {}))

    def step(self, **weights: int) -> None:
        """Write or serve the table once, and keep its new state.

        Args:
            weights: The weights of steps, instead of the defaults.
        """
        steps = {
            "upsert": 8,
            "insert": 2,
            "bulk_insert": 1,
            "delete": 4,
            "insert_overwrite": 2,
            "insert_overwrite_table": 1,
            "delete_partitions": 1,
            "cluster": 2,
            "schedule": 1 if self.is_on_read else 0,
            "compact": 2 if self.is_on_read else 0,
            "rollback": 1,
            **weights,
        }
        name = self.random.choices(list(steps), list(steps.values()))[0] if self.log else "upsert"
        self.log.append(name)
        self.seen[name] += 1
        with local_client(self.path, self.options, parallelism=1) as client:
            try:
                self._do(client, name)
            except HoodieNotSupportedException as error:
                # A pending compaction keeps what replaces file groups away.
                assert "Run the compaction first" in str(error), error
                self.log[-1] += " refused"
        rows = rows_by_place(hoodie.read_table(self.path, columns=SCHEMA.names).to_pylist())
        self.states.append(Known(changes_of(self.path, self.states[-1].time)[1], rows))

    def _do(self, client: Any, name: str) -> None:
        rng, rows = self.random, self.states[-1].rows
        if name == "schedule":
            client.schedule_compaction()
        elif name == "compact":
            if client.schedule_compaction() is not None:
                client.compact()
        elif name == "cluster":
            planned = client.schedule_clustering()
            if planned is not None:
                client.cluster(planned)
                self.seen["clustered"] += 1
        elif name in ("clean", "archive"):
            getattr(client, name)()
        elif name == "rollback":
            last = hoodie.HoodieTableMetaClient.load(self.path).active_timeline.completed_writes().last_instant
            assert last is not None
            try:
                client.rollback(last.requested_time)
            except hoodie.exception.HoodieRollbackException as error:
                self.log[-1] += f" {error}"
            else:
                self.states = self.states[:1]
        elif name == "delete":
            places = rng.sample(sorted(rows), min(len(rows), rng.randint(1, 5)))
            places.append(("x", "k-missing"))
            client.delete([HoodieKey(key, region) for region, key in places])
        elif name == "delete_partitions":
            client.delete_partitions([rng.choice(REGIONS)])
        else:
            data = self._incoming(set(rows) if name in ("insert", "bulk_insert") else set())
            if data.num_rows:
                getattr(client, name)(data)

    def _incoming(self, taken: set[Place]) -> pa.Table:
        rng = self.random
        self._ts += 10
        every = [(region, f"k{number:03d}") for region in REGIONS for number in range(12)]
        rows = []
        for region, key in rng.sample([place for place in every if place not in taken], min(7, 36 - len(taken))):
            stored = self.states[-1].rows.get((region, key))
            fare = rng.choice([None, rng.random(), 1.5])
            row = {
                "id": key, "region": region, "ts": self._ts, "fare": fare,
                "tags": rng.choice([None, [], ["a", None]]), "deep": rng.choice([None, {"x": None}, {"x": 3}]),
            }  # fmt: skip
            if stored is not None and rng.random() < 0.3:
                # An update that loses, or one that changes nothing.
                row = {**stored, "ts": stored["ts"] - 1} if rng.random() < 0.5 else dict(stored)
            rows.append(row)
        return pa.Table.from_pylist(rows, SCHEMA)

    def check(self, *, may_be_gone: bool = False, most: int = 14) -> None:
        """Replay the changes of some ranges between states, those to the newest state among them.

        Args:
            may_be_gone: Whether files were cleaned, or commits archived. Errors then name a time that can be read.
            most: The number of ranges.
        """
        known = [state for state in self.states if state.time is not None or state is self.states[0]]
        pairs = [(begin, end) for number, begin in enumerate(known) for end in known[max(number, 1) : -1]]
        chosen = self.random.sample(pairs, min(len(pairs), most)) + [(begin, known[-1]) for begin in known]
        for begin, end in chosen:
            try:
                self._check_range(begin, end, is_last=end is known[-1])
            except HoodieIOException as error:
                assert may_be_gone, (error, self.log)
                self.seen["gone"] += 1
                earliest = re.search(r"Begin at (\S+) or later", str(error))
                assert earliest is not None, error
                again = next(state for state in known if state.time is not None and state.time >= earliest.group(1))
                if end.time is not None and again.time is not None and again.time <= end.time:
                    self._check_range(again, end, is_last=end is known[-1])

    def _check_range(self, begin: Known, end: Known, *, is_last: bool) -> None:
        changes, following = changes_of(self.path, begin.time, None if is_last else end.time)
        self.seen["replayed"] += 1
        assert following == end.time
        assert replayed(begin.rows, changes) == end.rows, (begin.time, end.time, self.log)

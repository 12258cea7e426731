"""Fifty commits of hoodie and real Hudi on one table, in a seeded order, with cleaning and archiving after each."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.table.timeline.instant import Action, State
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE, Row, TableModel, archive_files, assert_all_agree, rows_of
from tests.support.table_invariants import check_table

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8]

SEED = 20261121
COMMITS = 50
READ_BY_HUDI_EVERY = 5
RETAINED = 3
SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
SERVICES = {
    "hoodie.cleaner.commits.retained": str(RETAINED),
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "7",
    "hoodie.commits.archival.batch": "2",
}
OPERATIONS = {"upsert": 12, "delete": 4, "insert": 4, "insert_overwrite": 1}
"""How often each is chosen."""
HOODIE = "hoodie"


class Writers:
    """The table, its model, and what each writer did to the timeline."""

    def __init__(self, base_path: Path, hudi: HudiProcess) -> None:
        self.base_path = base_path
        self.hudi = hudi
        self.model = TableModel(SIMPLE, SCHEMA, event_time=True)
        self.random = random.Random(SEED)
        self.commits: list[str] = []
        self.cleaned: Counter[str] = Counter()
        self.archived: Counter[str] = Counter()
        self._made = 0
        self._seen: dict[str, set[str]] = {"cleans": set(), "archive": set()}
        HoodieTableMetaClient.init_table(str(base_path), table_name="in_turn", **SIMPLE.init_arguments())

    def commit(self, number: int) -> None:
        """One commit by one of both, and the services that follow it."""
        operation = "insert" if number == 0 else self.random.choices(list(OPERATIONS), list(OPERATIONS.values()))[0]
        writer = self.random.choice([HOODIE, self.hudi.version])
        rows = self._rows_for(operation, number)
        print(f"{number}: {operation} of {len(rows)} rows by {writer}")
        if writer == HOODIE:
            config = HoodieWriteConfig.from_properties(str(self.base_path), SERVICES)
            with HoodieLocalWriteClient(config) as client:
                assert getattr(client, operation)(self.model.table(rows)).service_errors == ()
        else:
            options = {**SIMPLE.hudi_options("in_turn"), **SERVICES}
            self.hudi.write(self.base_path, self.model.table(rows), options, operation=operation)
        self._change_model(operation, rows)
        self._note(writer)

    def _rows_for(self, operation: str, number: int) -> list[Row]:
        new = [self._row(self._made + place, number) for place in range(self.random.randint(1, 8))]
        stored = self.random.sample(self.model.rows, min(len(self.model.rows), self.random.randint(1, 12)))
        if operation == "delete":
            return stored
        if operation == "upsert":
            # Some come too late, and change nothing.
            changed = [{**row, "ts": number - self.random.choice([0, 0, 0, 20]), "fare": number / 4} for row in stored]
            new = changed + new[: self.random.randint(0, len(new))]
        self._made += 8
        return new

    def _row(self, key: int, ts: int) -> Row:
        return {"id": f"k{key:03d}", "region": SIMPLE.regions[key % 3], "ts": ts, "fare": key + ts / 4}

    def _change_model(self, operation: str, rows: list[Row]) -> None:
        if operation == "insert_overwrite":
            partitions = {row["region"] for row in rows}
            self.model.rows = [row for row in self.model.rows if row["region"] not in partitions]
        {"upsert": self.model.upsert, "delete": self.model.delete}.get(operation, self.model.insert)(rows)

    def _note(self, writer: str) -> None:
        timeline = HoodieTableMetaClient.load(str(self.base_path)).active_timeline
        assert [str(instant) for instant in timeline if instant.state is not State.COMPLETED] == []
        newest = timeline.commits_timeline().last_instant
        assert newest is not None
        self.commits.append(newest.requested_time)
        cleans = {instant.requested_time for instant in timeline.filter_actions(Action.CLEAN)}
        archive = archive_files(self.base_path)
        for counter, name, found in ((self.cleaned, "cleans", cleans), (self.archived, "archive", archive)):
            counter[writer] += bool(found - self._seen[name])
            self._seen[name] |= found

    def check_timeline(self) -> None:
        """Every commit is in one of both timelines, the archived ones before the others."""
        table = HoodieTableMetaClient.load(str(self.base_path))
        active = [instant.requested_time for instant in table.active_timeline.commits_timeline()]
        archived = {instant.requested_time for instant in table.archived_timeline.commits_timeline()}
        assert [*sorted(archived - set(active)), *active] == self.commits
        assert len(active) <= 7 + 2


def test_rows_agree_after_each_of_fifty_commits_in_turn(tmp_path: Path, hudi: HudiProcess) -> None:
    base_path = tmp_path / "t"
    table = Writers(base_path, hudi)
    history: dict[str, list[str]] = {}
    for number in range(COMMITS):
        table.commit(number)
        by_hudi = (hudi,) if number % READ_BY_HUDI_EVERY == READ_BY_HUDI_EVERY - 1 else ()
        assert_all_agree(base_path, table.model, *by_hudi)
        check_table(base_path, was_cleaned=True)
        table.check_timeline()
        history[table.commits[-1]] = table.model.expected()
        if by_hudi:
            # Commits that are retained are read as they were, whatever was cleaned and archived since.
            oldest = table.commits[-RETAINED]
            assert rows_of(hudi.read(base_path, {"as.of.instant": oldest}), SCHEMA) == history[oldest]
    archived = hudi.archived_commits(base_path)
    assert {time for time, _ in archived} <= set(table.commits)
    print(
        f"seed {SEED}: cleaned {dict(table.cleaned)}, archived {dict(table.archived)}, {len(archived)} commits archived"
    )
    for writer in (HOODIE, hudi.version):
        assert table.cleaned[writer] >= 5
        assert table.archived[writer] >= 3
    assert len(archived) >= COMMITS // 2

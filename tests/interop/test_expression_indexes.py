"""Expression indexes that real Hudi 1.2.0 made by SQL: hoodie keeps them up or drops them, and Hudi reads by them.

Each index has a column of its own: Hudi takes any index of the column of a filter whose function has one argument,
whichever function the filter has. Its writer of an index of ranges needs its timeline server, which gives tasks a view
of the metadata table.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
import hoodie.metadata
from hoodie import HoodieKey
from hoodie.common.bloom.bloom_filter import create_bloom_filter
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.metadata.writer.index_definition_writer import delete_index_definition
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.interop.table_with_metadata import lie
from tests.support.expression_indexes import check_index, computed_values, indexes_of, stored_values
from tests.support.metadata_tampering import copied
from tests.support.table_builder import init_table, local_client

pytestmark = [pytest.mark.interop, pytest.mark.table_versions(9), pytest.mark.with_merge_on_read]

LOCK = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
ON = {"hoodie.metadata.enable": "true", "hoodie.clean.automatic": "false"}
OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.embed.timeline.server": "true",
    "hoodie.clean.automatic": "false",
    "hoodie.table.name": "listed",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}
LOW, LENGTH = "expr_index_low", "expr_index_length"
UP, SAME = "expr_index_up", "expr_index_same"
QUERIES = {
    LOW: ("lower(name) = 'name{0}'", "lower(name) < 'name2'", "lower(name) in ('name{0}', 'name1')"),
    LENGTH: ("length(word) = {1}", "length(word) > 4"),
    UP: ("upper(code) = 'C{0}'", "upper(code) in ('C{0}', 'C3')"),
    SAME: ("n = {0}",),
}


def rows(numbers: Sequence[int], ts: int, name: str = "Name") -> pa.Table:
    return pa.table(
        {
            "id": [f"k{n}" for n in numbers],
            "region": [f"d{n % 2}" for n in numbers],
            "ts": pa.array([ts] * len(numbers), pa.int64()),
            "name": pa.array([None if n % 7 == 5 else f"{name}{n}" for n in numbers]),
            "word": pa.array(["é" * (n % 6) + "b" for n in numbers]),
            "code": pa.array([f"c{n}" for n in numbers]),
            "n": pa.array(numbers, pa.int32()),
            "seconds": pa.array([n * 86_400 for n in numbers], pa.int64()),
        }
    )


class IndexedByHudi:
    """A table of hoodie on which real Hudi makes indexes."""

    def __init__(self, base_path: Path, hudi: HudiProcess, table_type: str) -> None:
        self.path = Path(init_table(base_path, table_name="listed", table_type=table_type))
        self.hudi = hudi
        self._ts = 0
        self.by_hoodie(range(12))

    def by_hoodie(self, numbers: Sequence[int], **given: Any) -> None:
        self._ts += 1
        with local_client(self.path, ON) as client:
            client.upsert(rows(numbers, self._ts, **given))

    def by_hudi(self, numbers: Sequence[int]) -> None:
        self._ts += 1
        self.hudi.write(self.path, rows(numbers, self._ts), {**OPTIONS, **LOCK})

    def create(self, *statements: str) -> None:
        """Let real Hudi make indexes."""
        options = {**self.hudi.standing_options(), **OPTIONS, **LOCK}
        self.hudi.sql("DROP TABLE IF EXISTS listed")
        self.hudi.sql(f"CREATE TABLE listed USING hudi LOCATION '{self.path}'")
        try:
            for key, value in options.items():
                self.hudi.sql(f"SET {key}={value}")
            for statement in statements:
                self.hudi.sql(statement)
        finally:
            for key in options:
                self.hudi.sql(f"RESET {key}")
            self.hudi.sql("DROP TABLE listed")

    def found(self, condition: str, path: Path | None = None) -> list[str]:
        """The keys that real Hudi finds, by its indexes."""
        options = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
        return sorted(self.hudi.read(path or self.path, options, condition)["id"].to_pylist())

    def expected(self, condition: str) -> list[str]:
        """The keys that it finds without any index."""
        options = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
        return sorted(self.hudi.read(self.path, options, condition)["id"].to_pylist())

    def check(self, names: Sequence[str], *numbers: int) -> None:
        """Indexes have what hoodie computes, and Hudi finds by them what it finds without them."""
        assert hoodie.metadata.validate(str(self.path)).is_right
        for name in names:
            check_index(self.path, name)
            for query in QUERIES[name]:
                for number in numbers:
                    condition = query.format(number, number % 6 + 1)
                    assert self.found(condition) == self.expected(condition), condition
                    if query == QUERIES[name][0]:
                        assert self.expected(condition), condition


LOWER_AND_UPPER = (
    "CREATE INDEX low ON listed USING column_stats(name) OPTIONS(expr='lower')",
    "CREATE INDEX up ON listed USING bloom_filters(code) OPTIONS(expr='upper')",
)
LENGTH_AND_IDENTITY = (
    "CREATE INDEX length ON listed USING column_stats(word) OPTIONS(expr='length')",
    "CREATE INDEX same ON listed USING bloom_filters(n) OPTIONS(expr='identity', filtertype='SIMPLE', "
    "numentries='100', fpp='0.01')",
)


@pytest.mark.parametrize(
    ("statements", "names"),
    [
        pytest.param(LOWER_AND_UPPER, (LOW, UP), id="lower_and_upper", marks=pytest.mark.interop_smoke),
        pytest.param(LENGTH_AND_IDENTITY, (LENGTH, SAME), id="length_and_identity"),
    ],
)
def test_both_writers_keep_indexes_up_in_turn(
    tmp_path: Path, hudi: HudiProcess, table_type: str, statements: Sequence[str], names: Sequence[str]
) -> None:
    table = IndexedByHudi(tmp_path / "t", hudi, table_type)
    if table_type == "MERGE_ON_READ":
        # Hudi fails to write log files to a table with bloom filters of expressions.
        statements, names = statements[:1], names[:1]
    table.create(*statements)
    assert indexes_of(table.path)[0] == set(names)
    table.by_hoodie([1, 2, 20])
    table.check(names, 1, 20)
    table.by_hudi([3, 4, 21])
    for name in names:
        stored, computed = stored_values(table.path, name), computed_values(table.path, name)
        assert {key: stored.get(key) for key in computed} == computed, name
    with local_client(table.path, ON) as client:
        client.delete([HoodieKey("k1", "d1")])
        client.insert_overwrite(rows(range(30, 36, 2), 9))
        if table_type == "MERGE_ON_READ":
            client.schedule_compaction()
            client.compact()
    table.check(names, 3, 34)
    table.by_hudi([41, 42])
    table.check(names, 41)
    assert indexes_of(table.path)[0] == set(names)


def test_hudi_reads_by_bloom_filters_of_hoodie_of_log_files_too(
    tmp_path: Path, hudi: HudiProcess, table_type: str
) -> None:
    table = IndexedByHudi(tmp_path / "t", hudi, table_type)
    table.create(LOWER_AND_UPPER[1])
    table.by_hoodie([1, 2, 20])
    table.check([UP], 1, 3, 20)
    liar = copied(table.path, tmp_path / "liar")

    def change(key: str, row: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        nothing = create_bloom_filter(row["bloom_type"], 100, 0.01)
        return [(key, {**row, "bloom_filter": nothing.to_base64_bytes()})]

    assert lie(liar, UP, MetadataPayload.BLOOM_FILTER, change) > 0
    assert table.found("upper(code) = 'C20'", liar) == []


def test_hudi_reads_by_the_ranges_that_hoodie_wrote(tmp_path: Path, hudi: HudiProcess, table_type: str) -> None:
    """A lie in them hides rows; a row of a partition that the index says nothing of is hidden, too."""
    table = IndexedByHudi(tmp_path / "t", hudi, table_type)
    table.create(LOWER_AND_UPPER[0])
    table.by_hoodie([1, 2, 20])
    assert table.found("lower(name) = 'name20'") == ["k20"]
    liar = copied(table.path, tmp_path / "liar")

    def change(key: str, row: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        end = {"branch": 7, "integer": None, "floating": None, "binary": b"zzz"}
        return [(key, {**row, "min_value": end, "max_value": end})]

    assert lie(liar, LOW, MetadataPayload.COLUMN_STATS, change) > 0
    assert table.found("lower(name) = 'name20'", liar) == []
    assert table.expected("lower(name) = 'name20'") == ["k20"]


@pytest.mark.interop_smoke
def test_an_index_that_hoodie_dropped_misleads_nobody_and_can_be_made_again(
    tmp_path: Path, hudi: HudiProcess, table_type: str
) -> None:
    table = IndexedByHudi(tmp_path / "t", hudi, table_type)
    day = "CREATE INDEX day ON listed USING column_stats(seconds) OPTIONS(expr='from_unixtime', format='yyyy-MM-dd')"
    condition = "from_unixtime(seconds, 'yyyy-MM-dd') = '1970-01-21'"
    table.create(day, LOWER_AND_UPPER[0])
    table.by_hoodie([1, 2, 20])
    assert indexes_of(table.path) == ({LOW}, {LOW}, {LOW})
    assert table.found(condition) == ["k20"]
    table.check([LOW], 1, 20)
    table.by_hoodie([4, 22], name="Straße")
    assert indexes_of(table.path) == (set(), set(), set())
    assert table.found("lower(name) = 'straße22'") == ["k22"]
    table.by_hudi([1, 2, 23])
    assert table.found(condition) == ["k20"]
    table.create(day)
    assert indexes_of(table.path)[0] == {"expr_index_day"}
    assert table.found(condition) == ["k20"]
    assert hoodie.metadata.validate(str(table.path)).is_right


def test_a_drop_that_died_misleads_no_reader_and_is_finished_by_the_next_write(
    tmp_path: Path, hudi: HudiProcess, table_type: str
) -> None:
    """The definition is gone, and the index is still listed. Hudi's writer fails where another index is defined."""
    table = IndexedByHudi(tmp_path / "t", hudi, table_type)
    table.create(LOWER_AND_UPPER[0], LENGTH_AND_IDENTITY[0])
    assert delete_index_definition(TableSnapshot.load(str(table.path)), LOW)
    assert table.found("lower(name) = 'name1'") == ["k1"]
    with pytest.raises(HudiError):
        table.by_hudi([1, 2, 20])
    table.by_hoodie([1, 2, 21])
    assert indexes_of(table.path) == ({LENGTH}, {LENGTH}, {LENGTH})
    table.by_hudi([3, 22])
    assert table.found("lower(name) in ('name21', 'name22')") == ["k21", "k22"]
    table.check([LENGTH], 21, 22)

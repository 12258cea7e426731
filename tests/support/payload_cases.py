"""Tables of every payload class, and batches of rows for them in which everything happens that payloads decide about.

Some keys come several times in a batch, in any order of their ordering values: late, newer, ties; with deletes before
and after inserts, and with null fields. `tests.interop.test_payloads` writes them with real Hudi;
``tests/data/payloads_hudi_0_15.parquet`` holds what Hudi 0.15.0 made of them, for tests without it::

    python -m tests.support.payload_cases        # makes that file again, with real Hudi
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.merge.payload_rules import TOASTED_VALUE
from tests.interop.hudi_process import HudiProcess

__all__ = ["GOLDEN", "TABLES", "PayloadTable", "commits_of", "hudi_options", "outcome", "steps_of"]

GOLDEN = Path(__file__).parents[1] / "data" / "payloads_hudi_0_15.parquet"
KEYS = 160
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ord", pa.int64()),
        ("name", pa.string()),
        ("a", pa.string()),
        ("b", pa.int32()),
        ("raw", pa.binary()),
        ("place", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("tags", pa.list_(pa.string())),
        ("Op", pa.string()),
        ("_change_operation_type", pa.string()),
        ("_event_seq", pa.string()),
        ("_event_lsn", pa.int64()),
        ("_hoodie_is_deleted", pa.bool_()),
        ("no", pa.int32()),
    ]
)
_MODEL = "org.apache.hudi.common.model."
_MARKERS = {"hoodie.payload.delete.field": "Op", "hoodie.payload.delete.marker": "D"}

Row = dict[str, Any]
Change = Callable[[int, list[Row], list[Row]], list[Row]]


def _as_it_is(step: int, rows: list[Row], first_rows: list[Row]) -> list[Row]:
    return rows


def _without_flags(step: int, rows: list[Row], first_rows: list[Row]) -> list[Row]:
    """With a marker EventTimeAvroPayload fails for new records with the flag: flags come last, for old keys."""
    if step < 2:
        return [{**row, "_hoodie_is_deleted": False if row["_hoodie_is_deleted"] else None} for row in rows]
    marked = {row["id"] for row in first_rows if row["Op"] == "D"}
    known = {row["id"] for row in first_rows} - marked
    return [row for row in rows if row["id"] in known]


@attrs.frozen
class PayloadTable:
    """One table.

    Attributes:
        name: Of the table.
        payload: The payload class.
        ordering_field: The ordering field.
        properties: More properties that decide about merging.
        change: What becomes of the rows of a step, given its number and the rows of the first step as well.
    """

    name: str
    payload: str
    ordering_field: str = "ord"
    properties: Mapping[str, str] = attrs.field(factory=dict)
    change: Change = _as_it_is


TABLES: Mapping[str, PayloadTable] = {
    table.name: table
    for table in (
        PayloadTable("overwrite", f"{_MODEL}OverwriteWithLatestAvroPayload"),
        PayloadTable("default", f"{_MODEL}DefaultHoodieRecordPayload"),
        PayloadTable("default_by_string", f"{_MODEL}DefaultHoodieRecordPayload", "name"),
        PayloadTable("default_marker", f"{_MODEL}DefaultHoodieRecordPayload", properties=_MARKERS),
        PayloadTable("event_time", f"{_MODEL}EventTimeAvroPayload"),
        PayloadTable("event_time_marker", f"{_MODEL}EventTimeAvroPayload", properties=_MARKERS, change=_without_flags),
        PayloadTable("first_value", f"{_MODEL}FirstValueAvroPayload"),
        PayloadTable("first_value_marker", f"{_MODEL}FirstValueAvroPayload", properties=_MARKERS),
        PayloadTable("partial_update", f"{_MODEL}PartialUpdateAvroPayload"),
        PayloadTable("partial_update_by_string", f"{_MODEL}PartialUpdateAvroPayload", "name"),
        PayloadTable("non_defaults", f"{_MODEL}OverwriteNonDefaultsWithLatestAvroPayload"),
        PayloadTable("aws_dms", f"{_MODEL}AWSDmsAvroPayload"),
        PayloadTable("aws_dms_old_name", "org.apache.hudi.payload.AWSDmsAvroPayload"),
        PayloadTable("mysql", f"{_MODEL}debezium.MySqlDebeziumAvroPayload"),
        PayloadTable("postgres", f"{_MODEL}debezium.PostgresDebeziumAvroPayload"),
    )
}
SEED = 7
STEPS = 3


def batches(seed: int) -> list[list[Row]]:
    """The rows of each step."""
    source = random.Random(seed)
    count = 0
    steps = []
    for _ in range(STEPS):
        rows: list[Row] = []
        for key in range(KEYS):
            if source.random() < 0.7:
                for _ in range(source.choice([1, 1, 1, 2, 2, 3, 4])):
                    count += 1
                    rows.append(_row(source, f"k{key:03d}", count))
        source.shuffle(rows)
        steps.append(rows)
    return steps


def _row(source: random.Random, key: str, number: int) -> Row:
    def often(value: Any) -> Any:
        return None if source.random() < 0.4 else value

    plain = source.random() < 0.4
    return {
        "id": key,
        "ord": source.randint(1, 5),
        "name": source.choice(["a", "b", "é", "\U0001f600", "\uffee"]),
        "a": TOASTED_VALUE if source.random() < 0.2 else often(f"a{number}"),
        "b": often(number),
        "raw": TOASTED_VALUE.encode() if source.random() < 0.2 else often(b"r%d" % number),
        "place": often({"x": often(number), "y": often(f"y{number}")}),
        "tags": often([f"t{number}"]),
        "Op": "U" if plain else source.choice(["I", "U", "U", "D", "d", None]),
        "_change_operation_type": "u" if plain else source.choice(["c", "u", "d", "D", "r", None]),
        "_event_seq": f"{source.randint(1, 2):06d}.{source.choice([3, 4, 10, 11])}",
        "_event_lsn": source.randint(1, 5),
        "_hoodie_is_deleted": source.choice([None, False, False, False, False, True]),
        "no": number,
    }


def steps_of(table: PayloadTable, seed: int = SEED) -> list[pa.Table]:
    """What is upserted, one after the other."""
    steps = batches(seed)
    return [pa.Table.from_pylist(table.change(step, rows, steps[0]), SCHEMA) for step, rows in enumerate(steps)]


def outcome(rows: pa.Table, commits: Sequence[str]) -> pa.Table:
    """Rows of a table in the order of their keys, each with the number of the commit that wrote it."""
    numbers = [commits.index(time) for time in rows["_hoodie_commit_time"].to_pylist()]
    return rows.select(SCHEMA.names).append_column("commit", pa.array(numbers, pa.int32())).sort_by("id")


def commits_of(base_path: Path | str) -> list[str]:
    """The times of completed commits, in their order."""
    folder = Path(base_path) / ".hoodie"
    return sorted(path.stem for path in folder.glob("*commit") if path.suffix in (".commit", ".deltacommit"))


def hudi_options(table: PayloadTable) -> dict[str, str]:
    """What real Hudi is given."""
    return {
        "hoodie.table.name": table.name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.datasource.write.precombine.field": table.ordering_field,
        "hoodie.datasource.write.payload.class": table.payload,
        **table.properties,
    }


def main() -> None:
    """Make the file of Hudi 0.15.0's results."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        process = HudiProcess("0.15.0", Path(folder))
        for table in TABLES.values():
            base_path = Path(folder) / table.name
            for step, rows in enumerate(steps_of(table)):
                process.write(base_path, rows, hudi_options(table))
                result = outcome(process.read(base_path), commits_of(base_path))
                result = result.append_column("step", pa.array([step] * result.num_rows, pa.int32()))
                results.append(result.append_column("table", pa.array([table.name] * result.num_rows)))
            print(table.name)
        process.stop()
    # A plain Parquet file without Spark's own metadata.
    merged = pa.concat_tables(
        [result.replace_schema_metadata(None) for result in results], promote_options="permissive"
    )
    pq.write_table(merged, GOLDEN, compression="zstd")


if __name__ == "__main__":
    main()

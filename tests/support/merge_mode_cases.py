"""Tables of versions 8 and 9 of every merge mode, and batches of rows for them; see `tests.support.payload_cases`.

Each table is upserted three times. Then some keys are deleted, and half of the rows of the second batch come again.
``tests/data/merge_modes_hudi_1_2.parquet`` holds what Hudi 1.2.0 made of them::

    python -m tests.support.merge_mode_cases        # makes that file again, with real Hudi
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from hoodie import HoodieTableMetaClient
from hoodie.merge.payload_rules import TOASTED_VALUE
from tests.interop.hudi_process import HudiProcess
from tests.support import payload_cases
from tests.support.payload_cases import SEED, Row

__all__ = [
    "GOLDEN", "SCHEMA", "TABLES", "ModeTable", "Step", "by_hudi", "commits_of", "create", "hudi_options", "outcome",
    "steps_of",
]  # fmt: skip

GOLDEN = Path(__file__).parents[1] / "data" / "merge_modes_hudi_1_2.parquet"
SCHEMA = pa.schema(
    [
        *payload_cases.SCHEMA,
        ("small", pa.int32()),
        ("_event_bin_file", pa.string()),
        ("_event_pos", pa.int64()),
    ]
)
_MODEL = "org.apache.hudi.common.model."
_MODE = "hoodie.write.record.merge.mode"
_MARKERS = {"hoodie.payload.delete.field": "Op", "hoodie.payload.delete.marker": "D"}


@attrs.frozen
class ModeTable:
    """One table.

    Attributes:
        name: Of the table.
        payload: The payload class that it is made with; None: none is named.
        ordering_fields: The ordering fields, with commas.
        properties: More properties that decide about merging.
        version: 8 or 9.
        told: Properties that real Hudi is told as well.
        table_type: ``COPY_ON_WRITE`` or ``MERGE_ON_READ``.
    """

    name: str
    payload: str | None = None
    ordering_fields: str = "ord"
    properties: Mapping[str, str] = attrs.field(factory=dict)
    version: int = 9
    told: Mapping[str, str] = attrs.field(factory=dict)
    table_type: str = "COPY_ON_WRITE"


# Hudi 1.2.0 fails for the other payload classes in tables of version 8 (those of Debezium and DMS where a flagged row
# deletes), and for FirstValueAvroPayload in both versions.
TABLES: Mapping[str, ModeTable] = {
    table.name: table
    for table in (
        ModeTable("event_time"),
        ModeTable("event_time_by_string", None, "name"),
        ModeTable("event_time_by_int", None, "small"),
        ModeTable("event_time_by_two", None, "ord,small"),
        ModeTable("event_time_by_string_and_number", None, "name,ord"),
        ModeTable("event_time_marker", properties=_MARKERS),
        ModeTable("commit_time", properties={_MODE: "COMMIT_TIME_ORDERING"}),
        ModeTable("commit_time_without_field", None, ""),
        ModeTable("default", f"{_MODEL}DefaultHoodieRecordPayload"),
        ModeTable("default_marker", f"{_MODEL}DefaultHoodieRecordPayload", properties=_MARKERS),
        ModeTable("event_time_payload", f"{_MODEL}EventTimeAvroPayload"),
        ModeTable("overwrite", f"{_MODEL}OverwriteWithLatestAvroPayload"),
        ModeTable("partial_update", f"{_MODEL}PartialUpdateAvroPayload"),
        ModeTable("partial_update_by_string", f"{_MODEL}PartialUpdateAvroPayload", "name"),
        ModeTable("non_defaults", f"{_MODEL}OverwriteNonDefaultsWithLatestAvroPayload"),
        ModeTable("aws_dms", f"{_MODEL}AWSDmsAvroPayload"),
        ModeTable("mysql", f"{_MODEL}debezium.MySqlDebeziumAvroPayload", "_event_bin_file,_event_pos"),
        ModeTable(
            "postgres",
            f"{_MODEL}debezium.PostgresDebeziumAvroPayload",
            "_event_lsn",
            # The write that makes the table does not combine its input by it, unless it is told.
            told={"hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value": TOASTED_VALUE},
        ),
        ModeTable("event_time_8", version=8),
        ModeTable("commit_time_8", properties={_MODE: "COMMIT_TIME_ORDERING"}, version=8),
        ModeTable("event_time_payload_8", f"{_MODEL}EventTimeAvroPayload", version=8),
        ModeTable("partial_update_8", f"{_MODEL}PartialUpdateAvroPayload", version=8),
        ModeTable("non_defaults_8", f"{_MODEL}OverwriteNonDefaultsWithLatestAvroPayload", version=8),
    )
}
DELETED = 0.3
"""The share of keys that are deleted."""


@attrs.frozen
class Step:
    """What is done to a table.

    Attributes:
        operation: ``upsert`` or ``delete``.
        rows: The rows; of a delete only the keys count.
    """

    operation: str
    rows: pa.Table


def steps_of(seed: int = SEED) -> list[Step]:
    """What is done, one after the other."""
    source = random.Random(seed + 1)
    batches = [[_with_more(row, source) for row in rows] for rows in payload_cases.batches(seed)]
    again = [row for row in batches[1] if source.random() < 0.5]
    keys = sorted({row["id"] for rows in batches for row in rows})
    deleted = [{**batches[0][0], "id": key, "_hoodie_is_deleted": None} for key in keys if source.random() < DELETED]
    steps = [*(("upsert", rows) for rows in batches), ("delete", deleted), ("upsert", again)]
    return [Step(operation, pa.Table.from_pylist(rows, SCHEMA)) for operation, rows in steps]


def _with_more(row: Row, source: random.Random) -> Row:
    return {
        **row,
        "small": source.randint(0, 2),
        "_event_bin_file": f"mysql-bin.{source.randint(1, 2):06d}",
        "_event_pos": source.choice([3, 4, 10, 11]),
    }


def outcome(rows: pa.Table, commits: Sequence[str]) -> pa.Table:
    """Rows of a table in the order of their keys, each with the number of the commit that wrote it."""
    numbers = [commits.index(time) for time in rows["_hoodie_commit_time"].to_pylist()]
    return rows.select(SCHEMA.names).append_column("commit", pa.array(numbers, pa.int32())).sort_by("id")


def commits_of(base_path: Path | str) -> list[str]:
    """The requested times of completed commits, in their order."""
    folder = Path(base_path) / ".hoodie/timeline"
    return sorted(
        path.name.partition("_")[0] for path in folder.glob("*_*commit") if path.suffix in (".commit", ".deltacommit")
    )


def create(base_path: Path | str, table: ModeTable) -> HoodieTableMetaClient:
    """Make a table by hoodie."""
    return HoodieTableMetaClient.init_table(
        str(base_path),
        table_name=table.name,
        record_key_fields="id",
        ordering_fields=table.ordering_fields,
        payload_class=table.payload,
        properties=table.properties,
        table_version=table.version,
        table_type=table.table_type,
    )


def hudi_options(table: ModeTable) -> dict[str, str]:
    """What real Hudi is given."""
    options = {
        "hoodie.table.name": table.name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.metadata.enable": "false",
        "hoodie.write.table.version": str(table.version),
        "hoodie.datasource.write.table.type": table.table_type,
        **table.properties,
        **table.told,
    }
    if table.ordering_fields:
        options["hoodie.datasource.write.precombine.field"] = table.ordering_fields
    if table.payload is not None:
        options["hoodie.datasource.write.payload.class"] = table.payload
    return options


def by_hudi(table: ModeTable, process: HudiProcess, base_path: Path) -> pa.Table:
    """What real Hudi makes of a table: the rows after each step."""
    results = []
    for number, step in enumerate(steps_of()):
        process.write(base_path, step.rows, hudi_options(table), operation=step.operation, standing_options=False)
        result = outcome(process.read(base_path), commits_of(base_path))
        result = result.append_column("step", pa.array([number] * result.num_rows, pa.int32()))
        results.append(result.append_column("table", pa.array([table.name] * result.num_rows)))
    return pa.concat_tables([result.replace_schema_metadata(None) for result in results])


def main() -> None:
    """Make the file of Hudi 1.2.0's results."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        process = HudiProcess("1.2.0", Path(folder))
        for table in TABLES.values():
            results.append(by_hudi(table, process, Path(folder) / table.name))
            print(table.name, flush=True)
        process.stop()
    pq.write_table(pa.concat_tables(results, promote_options="permissive"), GOLDEN, compression="zstd")


if __name__ == "__main__":
    main()

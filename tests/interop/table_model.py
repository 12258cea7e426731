"""What a table must hold, kept as a plain list of rows, and the readers that are held against it."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.table.timeline.instant import Action
from tests.interop.hudi_process import HudiProcess

__all__ = [
    "COMPLEX_HIVE",
    "LAYOUTS",
    "NON_PARTITIONED",
    "SIMPLE",
    "Layout",
    "TableModel",
    "archive_files",
    "assert_all_agree",
    "completed_file",
    "folder_content",
    "read_with_hudi_rs",
    "timeline_folder",
]

Row = dict[str, Any]
SHOWN = 3
META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)


@attrs.frozen
class Layout:
    """How keys and folders of a table are made, and what a row's must be.

    ``key_of`` and ``partition_of`` are written out by hand here: hoodie's key generators are under test.
    """

    name: str
    record_key_fields: Sequence[str]
    partition_fields: Sequence[str]
    key_of: Callable[[Row], str]
    partition_of: Callable[[Row], str]
    regions: Sequence[str] = ("north", "south", "süd ost")
    ordering_field: str = "ts"
    hive_style: bool = False
    url_encode: bool = False

    def init_arguments(self) -> dict[str, Any]:
        """For `HoodieTableMetaClient.init_table`."""
        return {
            "ordering_fields": self.ordering_field,
            "record_key_fields": list(self.record_key_fields),
            "partition_fields": list(self.partition_fields),
            "hive_style_partitioning": self.hive_style,
            "properties": {"hoodie.datasource.write.partitionpath.urlencode": "true"} if self.url_encode else {},
        }

    def hudi_options(self, table_name: str) -> dict[str, str]:
        """For a write by real Hudi."""
        kind = "Complex" if len(self.record_key_fields) > 1 else "Simple" if self.partition_fields else "Nonpartitioned"
        return {
            "hoodie.table.name": table_name,
            "hoodie.datasource.write.recordkey.field": ",".join(self.record_key_fields),
            "hoodie.datasource.write.partitionpath.field": ",".join(self.partition_fields),
            "hoodie.datasource.write.precombine.field": self.ordering_field,
            "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{kind}KeyGenerator",
            "hoodie.datasource.write.hive_style_partitioning": str(self.hive_style).lower(),
            "hoodie.datasource.write.partitionpath.urlencode": str(self.url_encode).lower(),
        }


ENCODED = {"north": "north", "a/b": "a%2Fb", "x:y=z": "x%3Ay%3Dz", "süd ost": "süd ost"}
"""Values of a partition field, and what Hudi's URL encoding makes of them."""

SIMPLE = Layout("simple", ["id"], ["region"], lambda row: row["id"], lambda row: row["region"])
COMPLEX_HIVE = Layout(
    "complex_hive_encoded",
    ["id", "kind"],
    ["region", "kind"],
    lambda row: f"id:{row['id']},kind:{row['kind']}",
    lambda row: f"region={ENCODED[row['region']]}/kind={row['kind']}",
    regions=tuple(ENCODED),
    hive_style=True,
    url_encode=True,
)
NON_PARTITIONED = Layout("non_partitioned", ["id"], [], lambda row: row["id"], lambda row: "")
LAYOUTS = [SIMPLE, COMPLEX_HIVE, NON_PARTITIONED]


class TableModel:
    """The rows that a table must hold.

    Args:
        layout: Of the table.
        schema: Its columns; `add_column` appends.
        event_time: A stored row with a larger ordering value stays; without it the incoming row always replaces.
    """

    def __init__(self, layout: Layout, schema: pa.Schema, *, event_time: bool) -> None:
        self.layout = layout
        self.schema = schema
        self.event_time = event_time
        self.rows: list[Row] = []

    def insert(self, rows: Iterable[Row]) -> None:
        """Add rows, whatever is there already."""
        self.rows.extend(rows)

    def upsert(self, rows: Iterable[Row]) -> None:
        """Each stored row of a key meets the incoming row of that key with the largest ordering value."""
        ordering = self.layout.ordering_field
        incoming: dict[tuple[str, str], Row] = {}
        for row in rows:
            place = self.place(row)
            if place not in incoming or row[ordering] >= incoming[place][ordering]:
                incoming[place] = row
        found = set()
        for number, stored in enumerate(self.rows):
            place = self.place(stored)
            if place in incoming:
                found.add(place)
                if not self.event_time or incoming[place][ordering] >= stored[ordering]:
                    self.rows[number] = incoming[place]
        self.rows.extend(row for place, row in incoming.items() if place not in found)

    def delete(self, rows: Iterable[Row]) -> None:
        """Take out every row of the keys."""
        places = {self.place(row) for row in rows}
        self.rows = [row for row in self.rows if self.place(row) not in places]

    def add_column(self, field: pa.Field) -> None:
        """A new last column; older rows hold null."""
        self.schema = self.schema.append(field)

    def place(self, row: Row) -> tuple[str, str]:
        """Partition path and record key."""
        return self.layout.partition_of(row), self.layout.key_of(row)

    def expected(self) -> list[str]:
        """Every row as text, with its key and partition path, sorted."""
        typed = self.table(self.rows).to_pylist()
        return sorted(repr((*self.place(row), *(plain(row[name]) for name in self.schema.names))) for row in typed)

    def table(self, rows: Iterable[Row]) -> pa.Table:
        """Rows as an input."""
        return pa.Table.from_pylist(list(rows), self.schema)


def plain(value: Any) -> Any:
    """A value in one form, whichever reader it came from."""
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(entry, tuple) for entry in value):  # a map, which has no order
            return sorted((key, plain(inner)) for key, inner in value)
        return [plain(inner) for inner in value]
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC).isoformat()
    return value


def rows_of(table: pa.Table, schema: pa.Schema) -> list[str]:
    """The rows of a reader, as `TableModel.expected` gives them."""
    assert set(table.schema.names) == {*META_COLUMNS, *schema.names}
    columns = ["_hoodie_partition_path", "_hoodie_record_key", *schema.names]
    return sorted(repr(tuple(plain(row[name]) for name in columns)) for row in table.select(columns).to_pylist())


def folder_content(base_path: Path) -> dict[str, bytes]:
    """Every file below a table's folder, with its content."""
    files = sorted(path for path in base_path.rglob("*") if path.is_file())
    return {path.relative_to(base_path).as_posix(): path.read_bytes() for path in files if path.parent.name != ".locks"}


def timeline_folder(base_path: Path) -> Path:
    """Where the files of a table's active timeline are."""
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    return Path(timeline.layout.active_path(timeline.meta_path))


def completed_file(base_path: Path, requested_time: str, action: Action) -> Path | None:
    """The file that completes an instant; None if the instant is not complete or not there."""
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    instant = timeline.find(requested_time, action)
    return Path(timeline.path_of(instant)) if instant is not None and instant.is_completed else None


def archive_files(base_path: Path) -> set[str]:
    """The names of the files that hold a table's archived instants."""
    meta = base_path / ".hoodie"
    return {
        path.name for path in (*meta.glob("archived/.commits_.archive.*"), *meta.glob("timeline/history/*.parquet"))
    }


def read_with_hudi_rs(base_path: Path) -> pa.Table:
    """Read with the package ``hudi``."""
    batches = HudiTableBuilder.from_base_uri(str(base_path)).build().read()
    return pa.Table.from_batches(batches)


def assert_all_agree(base_path: Path, model: TableModel, *versions: HudiProcess, hudi_rs: bool = True) -> None:
    """hoodie, hudi-rs and the given versions of real Hudi read exactly the model's rows."""
    expected = model.expected()
    _compare("hoodie", rows_of(hoodie.read_table(str(base_path)), model.schema), expected)
    if hudi_rs:
        _compare("hudi-rs", rows_of(read_with_hudi_rs(base_path), model.schema), expected)
    for version in versions:
        _compare(f"Hudi {version.version}", rows_of(version.read(base_path), model.schema), expected)


def _compare(reader: str, found: list[str], expected: list[str]) -> None:
    if found == expected:
        return
    missing = sorted((Counter(expected) - Counter(found)).elements())
    more = sorted((Counter(found) - Counter(expected)).elements())
    lines = [
        f"{reader} reads {len(found)} rows instead of {len(expected)}; {len(missing)} missing, {len(more)} too many"
    ]
    lines += [f"missing:  {row}" for row in missing[:SHOWN]] + [f"too many: {row}" for row in more[:SHOWN]]
    raise AssertionError("\n".join(lines))

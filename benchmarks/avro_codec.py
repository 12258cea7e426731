"""Seconds to turn Arrow rows into the content of an Avro block and back, beside fastavro where it is installed.

    python -m benchmarks.avro_codec [--rows 100000] [--runs 5] [--json FILE]

The rows have 15 columns, all nullable: Hudi's five meta columns, four strings, a timestamp and five doubles. A tenth of
the drivers and fares is null. fastavro works record by record, from and to dicts; the time that Arrow takes to make
them and to take them back is a line of its own.
"""

from __future__ import annotations

import argparse
import io
import json
import struct
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measure import Timing, describe_machine, timing, trips, write_json
from hoodie.avro.columnar_block import decode_avro_block, encode_avro_block
from hoodie.avro.schema_converters import to_avro
from hoodie.common.model.record_columns import META_COLUMNS

_LENGTH = struct.Struct(">i")
_INSTANT = "20260101120000000"


def rows_to_store(count: int) -> pa.RecordBatch:
    """Rows of trips with the meta columns of a commit."""
    table = trips(count).combine_chunks()
    rng = np.random.default_rng(3)
    columns = {name: table[name].chunk(0) for name in table.column_names}
    micros = 1_700_000_000_000_000 + rng.integers(0, 10**12, count)
    columns["ts"] = pa.array(micros).cast(pa.timestamp("us", tz="UTC"))
    for name in ("driver", "fare"):
        kept = pa.array(rng.random(count) >= 0.1)
        columns[name] = pc.if_else(kept, columns[name], None)
    meta = (
        pa.repeat(_INSTANT, count),
        pa.array([f"{_INSTANT}_0_{row}" for row in range(count)]),
        columns["uuid"],
        columns["partitionpath"],
        pa.repeat("9d2c4b1e-5f0d-4bdb-bb3e-2f6a0c1d7e55-0", count),
    )
    return pa.RecordBatch.from_pydict(dict(zip(META_COLUMNS, meta, strict=True)) | columns)


def fastavro_block(rows: list[dict[str, Any]], schema: Any) -> bytes:
    """The content of a block, written record by record."""
    import fastavro

    out = [struct.pack(">ii", 3, len(rows))]
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, row)
        out += [_LENGTH.pack(stream.tell()), stream.getvalue()]
    return b"".join(out)


def fastavro_rows(content: bytes, schema: Any) -> list[Any]:
    """The records of a block, read one by one."""
    import fastavro

    stream, rows = io.BytesIO(content), []
    stream.seek(8)
    while stream.read(4):
        rows.append(fastavro.schemaless_reader(stream, schema, None))
    return rows


def line(found: Timing, other: Timing | None = None) -> str:
    """Medians in milliseconds, and the ratio to another timing of the same run."""
    cpu = sorted(found.cpu)[len(found.cpu) // 2]
    ratio = f"   {found.median / other.median:6.1f} x {other.name}" if other is not None else ""
    return f"{found.name:<34} {found.median * 1000:8.1f} ms   {cpu * 1000:8.1f} CPU ms{ratio}"


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    rows = rows_to_store(arguments.rows)
    avro_schema = to_avro(rows.schema, "trips_record", "hoodie.trips", with_meta_columns=True)
    content = encode_avro_block(rows, avro_schema)
    if not decode_avro_block(content, avro_schema).equals(rows):
        raise ValueError("the rows that were read are not those that were written")
    machine = describe_machine("numpy", "pyarrow", "fastavro")
    print(machine)
    print(
        f"{arguments.rows} rows of {rows.num_columns} columns, {len(content) / 1e6:.1f} MB; medians of {arguments.runs}"
    )
    encoding = timing("encode", arguments.runs, lambda: encode_avro_block(rows, avro_schema))
    decoding = timing("decode", arguments.runs, lambda: decode_avro_block(content, avro_schema))
    few = rows.schema.empty_table().select(["_hoodie_record_key", "ts"]).schema
    some = timing("decode 2 columns", arguments.runs, lambda: decode_avro_block(content, avro_schema, few))
    timings = [encoding, decoding, some]
    print(*map(line, timings), sep="\n")
    if find_spec("fastavro") is not None:
        import fastavro

        schema: Any = fastavro.parse_schema(json.loads(avro_schema))
        dicts = rows.to_pylist()
        if fastavro_block(dicts, schema) != content or fastavro_rows(content, schema) != dicts:
            raise ValueError("fastavro writes or reads something else")
        peers = [
            (timing("fastavro encode", arguments.runs, lambda: fastavro_block(dicts, schema)), encoding),
            (timing("fastavro decode", arguments.runs, lambda: fastavro_rows(content, schema)), decoding),
            (timing("Arrow to dicts", arguments.runs, rows.to_pylist), encoding),
            (
                timing("dicts to Arrow", arguments.runs, lambda: pa.RecordBatch.from_pylist(dicts, rows.schema)),
                decoding,
            ),
        ]
        for found, ours in peers:
            print(line(found, ours))
            timings.append(found)
    if arguments.json:
        write_json(arguments.json, machine, {"rows": arguments.rows, "bytes": len(content)}, timings)


if __name__ == "__main__":
    main()

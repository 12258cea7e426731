"""Seconds to turn Arrow rows into the content of an Avro block and back, and Avro messages of Kafka into rows.

    python -m benchmarks.avro_codec [--rows 100000] [--runs 5] [--json FILE]

fastavro stands beside, where it is installed.

The rows have 15 columns, all nullable: Hudi's five meta columns, four strings, a timestamp and five doubles. A tenth of
the drivers and fares is null. fastavro works record by record, from and to dicts; the time that Arrow takes to make
them and to take them back is a line of its own.

Messages have the ten columns that are not meta columns, a frame with a schema id, and come in blocks of 20,000. One in
a hundred is cut short. They are decoded to rows and errors: by the streamer's decoder, with their own schema, with a
newer one that renames a field and has another one, and as messages of two schemas in turn; and by fastavro with
``from_pylist``, where an exception is an error.
"""

from __future__ import annotations

import argparse
import functools
import io
import json
import struct
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measure import Timing, describe_load, describe_machine, timing, trips, write_json
from hoodie.avro.columnar_block import decode_avro_block, encode_avro_block
from hoodie.avro.columnar_encoder import encode_records
from hoodie.avro.schema_converters import to_avro
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.utilities.config.schema_registry_config import SchemaRegistryClientConfig
from hoodie.utilities.schema.schema_registry_client import RegisteredSchema, SchemaRegistryClient
from hoodie.utilities.sources.helpers.avro_decoder import AvroDecoder
from hoodie.utilities.sources.helpers.message_decoder import Messages

_LENGTH = struct.Struct(">i")
_INSTANT = "20260101120000000"
_BLOCK = 20_000
"""The messages that the source of Kafka decodes at once."""


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


class KnownSchemas(SchemaRegistryClient):
    """A registry whose answers are known."""

    def __init__(self, schemas: dict[int, str]) -> None:
        super().__init__((), SchemaRegistryClientConfig())
        self._schemas = schemas

    def load_schema(self, schema_id: int) -> RegisteredSchema:
        return RegisteredSchema(self._schemas[schema_id])


def newer(schema: str) -> str:
    """A schema that renames a field, and adds one with a default."""
    record = json.loads(schema)
    first = record["fields"][0]
    record["fields"][0] = first | {"name": f"new_{first['name']}", "aliases": [first["name"]]}
    record["fields"].append({"name": "added", "type": "string", "default": "x"})
    return json.dumps(record)


def framed_messages(rows: pa.RecordBatch, schema: str, ids: tuple[int, ...]) -> list[bytes]:
    """Messages of a schema registry; every hundredth is cut short."""
    encoded = encode_records(rows, schema)
    ends = np.cumsum(encoded.lengths)
    data = bytes(encoded.data)
    found = []
    for row, (end, length) in enumerate(zip(ends.tolist(), encoded.lengths.tolist(), strict=True)):
        frame = b"\0" + ids[row % len(ids)].to_bytes(4, "big")
        found.append(frame + data[end - length : end - (3 if row % 100 == 7 else 0)])
    return found


def blocks_of(values: list[bytes]) -> list[Messages]:
    """Messages as the source gives them."""
    blocks = []
    for first in range(0, len(values), _BLOCK):
        some = values[first : first + _BLOCK]
        count = len(some)
        offsets = np.arange(first, first + count)
        blocks.append(Messages("trips", 0, offsets, some, [None] * count, np.full(count, -1, np.int64)))
    return blocks


def decoded_counts(decoder: AvroDecoder, blocks: list[Messages]) -> tuple[int, int]:
    """Rows and errors."""
    rows = errors = 0
    for block in blocks:
        found = decoder.decode(block)
        rows += len(found.rows)
        errors += 0 if found.errors is None else len(found.errors)
    return rows, errors


def fastavro_counts(blocks: list[Messages], written: Any, wanted: Any, columns: pa.Schema) -> tuple[int, int]:
    """Rows and errors, read one by one."""
    import fastavro

    rows = errors = 0
    for block in blocks:
        good: list[Any] = []
        for value in block.values:
            assert value is not None
            stream = io.BytesIO(value)
            stream.seek(5)
            try:
                good.append(fastavro.schemaless_reader(stream, written, wanted))
            except (EOFError, IndexError, ValueError):
                errors += 1
        rows += len(pa.RecordBatch.from_pylist(good, columns))
    return rows, errors


def message_timings(rows: pa.RecordBatch, runs: int) -> list[tuple[Timing, Timing | None]]:
    """The decoding of messages, each beside fastavro's of the same messages."""
    rows = rows.select([name for name in rows.schema.names if name not in META_COLUMNS])
    schema = to_avro(rows.schema, "trips_record", "hoodie.trips")
    changed = newer(schema)
    registry = KnownSchemas({1: schema, 2: schema})
    own, resolved = AvroDecoder(schema, registry), AvroDecoder(changed, registry)
    one, two = (blocks_of(framed_messages(rows, schema, ids)) for ids in ((1,), (1, 2)))
    expected = decoded_counts(own, one)
    if decoded_counts(resolved, two) != expected or expected[1] != len(range(7, len(rows), 100)):
        raise ValueError("the bad messages are not those that were made")
    size = sum(len(value or b"") for block in one for value in block.values) / len(rows)
    print(f"messages of {size:.0f} bytes, of which 1 in 100 is bad")
    named = [
        (timing("messages", runs, lambda: decoded_counts(own, one)), schema),
        (timing("messages, newer schema", runs, lambda: decoded_counts(resolved, one)), changed),
        (timing("messages of 2 schemas, newer schema", runs, lambda: decoded_counts(resolved, two)), changed),
    ]
    if find_spec("fastavro") is None:
        return [(found, None) for found, _ in named]
    import fastavro

    written: Any = fastavro.parse_schema(json.loads(schema))
    found: list[tuple[Timing, Timing | None]] = []
    peers: dict[str, Timing] = {}
    for ours, wanted in named:
        if wanted not in peers:
            parsed: Any = None if wanted == schema else fastavro.parse_schema(json.loads(wanted))
            columns = own.schema if wanted == schema else resolved.schema
            if fastavro_counts(one, written, parsed, columns) != expected:
                raise ValueError("fastavro finds other bad messages")
            peers[wanted] = timing(
                f"fastavro of {ours.name}", runs, functools.partial(fastavro_counts, one, written, parsed, columns)
            )
        found.append((ours, peers[wanted]))
    return found


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
    for ours, peer in message_timings(rows, arguments.runs):
        print(f"{line(ours)}   {arguments.rows / ours.median / 1e6:.2f}M a second")
        timings.append(ours)
        if peer is not None:
            print(line(peer, ours))
            timings.append(peer)
    print(describe_load())
    if arguments.json:
        write_json(arguments.json, machine, {"rows": arguments.rows, "bytes": len(content)}, timings)


if __name__ == "__main__":
    main()

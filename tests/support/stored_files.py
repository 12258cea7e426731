"""The files of tables, decoded to plain values with as little code as that takes.

It is not the code that hoodie reads with: pyarrow reads Parquet, fastavro reads Avro, and the rest follows the rules of
the formats. Values are dicts, lists, texts, numbers and bytes.

| file | decoded to |
|---|---|
| instants, plans, index definitions | JSON or the records of the Avro container, with its schema and codec |
| ``hoodie.properties`` and others of its kind | lines in their order |
| Parquet | schema, footer, row groups, column chunks, rows |
| log files, old archives | blocks with their types, headers, footers and contents |
| HFiles | trailer, file info, entries |
"""

from __future__ import annotations

import datetime
import decimal
import io
import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.metadata_table_files import read_hfile, read_hfile_trailer

__all__ = ["Entries", "decode_file", "files_with", "sizes_are_exact"]

_CONTAINER, _PARQUET, _HFILE, _LOG = b"Obj\x01", b"PAR1", b"DATABLK*", b"#HUDI#"
_BLOCK_TYPES = {0: "command", 1: "delete", 2: "corrupt", 3: "avro", 4: "hfile", 5: "parquet", 6: "cdc"}
_HEADERS = {
    0: "INSTANT_TIME", 1: "TARGET_INSTANT_TIME", 2: "SCHEMA", 3: "COMMAND_BLOCK_TYPE", 4: "COMPACTED_BLOCK_TIMES",
    5: "RECORD_POSITIONS", 6: "BLOCK_IDENTIFIER", 7: "IS_PARTIAL", 8: "BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS",
}  # fmt: skip
_COLUMN_FIELDS = ("path_in_schema", "physical_type", "compression", "encodings", "num_values", "has_dictionary_page")
_TRAILER = {
    3: "data index bytes", 4: "bytes", 5: "data index entries", 6: "meta index entries", 7: "entries",
    8: "data index levels", 9: "first data block", 11: "comparator", 12: "compression",
}  # fmt: skip
"""Fields of trailers whose values do not depend on how far blocks are compressed."""
_DIGEST_CHARACTERS = 24


class Entries(list[Any]):
    """A list whose order says nothing: it depends on names that differ from run to run."""


def decode_file(path: str, data: bytes) -> Any:
    """The contents of a file of a table.

    Args:
        path: Its path, for its kind.
        data: Its bytes.
    """
    name = path.rsplit("/", 1)[-1]
    if not data:
        return {"empty": True}
    if name.startswith("hoodie.properties") or name == ".hoodie_partition_metadata":
        return {"lines": data.decode().split("\n")}
    if "/.locks/" in f"/{path}" or "/.heartbeat/" in f"/{path}":
        # They name a process, a host and a moment.
        return {"left out": True}
    return decode(data)


def decode(data: bytes) -> Any:
    """The contents of some bytes, by how they begin."""
    if data.startswith(_CONTAINER):
        return {"avro": _container(data)}
    if data.startswith(_PARQUET):
        return {"parquet": _parquet(data)}
    if data.startswith(_LOG):
        return {"blocks": list(_log_blocks(data))}
    if len(data) > 4096 and b'TRABLK"$' in data[-4096:]:
        return {"hfile": _hfile(data)}
    if data[:1] in (b"{", b"["):
        try:
            return {"json": json.loads(data), "layout": _layout(data)}
        except ValueError:
            pass
    return {"bytes": data}


def _layout(data: bytes) -> str:
    """How a JSON text is written: what remains of its first line, and whether it ends with a new line."""
    first = data.split(b"\n", 1)[0].decode()
    return f"{first[:3]!r} {'lines' if data.count(10) > 1 else 'one line'} {data.endswith(b'}')}"


def sizes_are_exact(path: str, content: Any) -> bool:
    """Whether the size of a file follows from its decoded contents.

    Nothing in it is compressed, and it holds no durations, whose numbers have lengths that differ from run to run, as
    archives do.
    """
    if "archived/" in path or "history/" in path or not isinstance(content, dict):
        return False
    if "parquet" in content:
        groups = content["parquet"]["row groups"]
        return all(column["compression"] == "UNCOMPRESSED" for group in groups for column in group["columns"])
    if "blocks" in content:
        return all(block["type"] in ("avro", "delete", "command") for block in content["blocks"])
    return False


# --- Avro -------------------------------------------------------------------------------------------------------------


def _container(data: bytes) -> dict[str, Any]:
    stream = io.BytesIO(data)
    reader = fastavro.reader(stream)
    schema = json.loads(reader.metadata["avro.schema"])
    records = list(reader)
    return {
        "codec": reader.codec,
        "schema": json.dumps(schema),
        "metadata": sorted(key for key in reader.metadata if key not in ("avro.schema", "avro.codec")),
        "records": [_value(record) for record in records],
    }


def _datum(schema: Any, data: bytes) -> Any:
    return _value(fastavro.schemaless_reader(io.BytesIO(data), schema))


def _value(value: Any) -> Any:
    """A value of plain types; bytes that hold a file or JSON are decoded."""
    if isinstance(value, dict):
        if "fileIdHighBits" in value:
            return _record_index_value(value)
        return {key: _value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_value(inner) for inner in value]
    if isinstance(value, bytes):
        found = decode(value)
        return found if "bytes" not in found else value
    if isinstance(value, datetime.datetime | datetime.date | datetime.time | decimal.Decimal):
        return repr(value)
    return value


def _record_index_value(value: dict[str, Any]) -> dict[str, Any]:
    """A place in the record index, with its file group's UUID as text instead of two numbers."""
    found = {key: _value(inner) for key, inner in value.items() if key not in ("fileIdHighBits", "fileIdLowBits")}
    high, low = value["fileIdHighBits"], value["fileIdLowBits"]
    if high is not None:
        digits = struct.pack(">qq", high, low).hex()
        found["file id"] = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return found


# --- Parquet ----------------------------------------------------------------------------------------------------------


def _parquet(data: bytes) -> dict[str, Any]:
    file = pq.ParquetFile(pa.BufferReader(data))
    footer = file.metadata
    table = file.read()
    groups = []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        groups.append(
            {
                "rows": group.num_rows,
                "bytes": group.total_byte_size,
                "columns": [_column(group.column(place)) for place in range(group.num_columns)],
            }
        )
    return {
        "created by": footer.created_by,
        "format version": footer.format_version,
        "schema": str(file.schema).split("\n", 1)[1],
        "key value metadata": {
            key.decode(): _value(value) if key != b"ARROW:schema" else str(file.schema_arrow)
            for key, value in (footer.metadata or {}).items()
        },
        "row groups": groups,
        "rows": [_value(row) for row in table.to_pylist()],
    }


def _column(column: pq.ColumnChunkMetaData) -> dict[str, Any]:
    found = {name: _value(getattr(column, name)) for name in _COLUMN_FIELDS}
    statistics = column.statistics
    found["bytes"] = column.total_uncompressed_size
    found["statistics"] = None
    if statistics is not None:
        found["statistics"] = {
            "nulls": statistics.null_count if statistics.has_null_count else None,
            "min": _value(statistics.min) if statistics.has_min_max else None,
            "max": _value(statistics.max) if statistics.has_min_max else None,
        }
    return found


# --- log files --------------------------------------------------------------------------------------------------------


def _log_blocks(data: bytes) -> Iterator[dict[str, Any]]:
    """Magic, size, version, type, headers, length of the content, content, footers, size once more."""
    position = 0
    while position < len(data):
        assert data[position : position + 6] == _LOG, f"no block at byte {position}"
        (size,) = struct.unpack_from(">q", data, position + 6)
        end = position + 14 + size
        version, kind = struct.unpack_from(">ii", data, position + 14)
        headers, place = _headers(data, position + 22)
        (length,) = struct.unpack_from(">q", data, place)
        content = data[place + 8 : place + 8 + length]
        footers, place = _headers(data, place + 8 + length)
        assert struct.unpack_from(">q", data, place)[0] == size + 6, f"the block at byte {position} has another end"
        name = _BLOCK_TYPES[kind]
        yield {
            "version": version,
            "type": name,
            "headers": headers,
            "content": _block_content(name, headers, content),
            "footers": footers,
        }
        position = end


def _headers(data: bytes, position: int) -> tuple[dict[str, str], int]:
    (count,) = struct.unpack_from(">i", data, position)
    position += 4
    found = {}
    for _ in range(count):
        key, size = struct.unpack_from(">ii", data, position)
        found[_HEADERS.get(key, str(key))] = data[position + 8 : position + 8 + size].decode()
        position += 8 + size
    return found, position


def _block_content(name: str, headers: dict[str, str], content: bytes) -> Any:
    if name in ("avro", "cdc"):
        schema = fastavro.parse_schema(json.loads(headers["SCHEMA"]))
        return {"records": [_datum(schema, datum) for datum in _datums(content)]}
    if name in ("hfile", "parquet"):
        return decode(content)
    return {"bytes": content}


def _datums(content: bytes) -> list[bytes]:
    """Version, number of records; the length of each record before it."""
    _, count = struct.unpack_from(">ii", content, 0)
    position, found = 8, []
    for _ in range(count):
        (size,) = struct.unpack_from(">i", content, position)
        found.append(content[position + 4 : position + 4 + size])
        position += 4 + size
    return found


# --- HFiles -----------------------------------------------------------------------------------------------------------


def _hfile(data: bytes) -> dict[str, Any]:
    keys, values, info = read_hfile(data)
    text = info.get(b"schema")
    schema = None if text is None else fastavro.parse_schema(json.loads(text))
    rows = [
        {"key": key.decode(), "value": {} if not value or schema is None else _datum(schema, value)}
        for key, value in zip(keys, values, strict=True)
    ]
    return {
        "trailer": {_TRAILER[field]: value for field, value in read_hfile_trailer(data).items() if field in _TRAILER},
        "info": {key.decode(): value for key, value in info.items()},
        "entries": Entries(rows) if _is_by_file_name(rows) else rows,
    }


def _is_by_file_name(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether keys end with digests of file names, as those of ranges of columns and of bloom filters of files."""
    kinds = ("ColumnStatsMetadata", "BloomFilterMetadata")
    return any(
        any(row["value"].get(kind) is not None for kind in kinds) and len(row["key"]) > _DIGEST_CHARACTERS
        for row in rows
    )


def files_with(text: str, folder: Path) -> set[str]:
    """The files and folders below a folder that hold a text: in their path, their bytes, or their decoded content.

    Args:
        text: The text.
        folder: The folder.
    """
    found = set()
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        data = path.read_bytes() if path.is_file() else b""
        decoded = decode_file(str(path), data) if data else None
        if text in name or text.encode() in data or any(text in each for each in _texts(decoded)):
            found.add(name)
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, bytes):
        yield value.decode("latin-1")
    elif isinstance(value, dict):
        for each in (*value, *value.values()):
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
    else:
        yield str(value)

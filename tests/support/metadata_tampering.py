"""Metadata tables that lie: their files are written again with other records."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from hoodie.io.hfile.hfile_reader import HFileReader
from hoodie.io.hfile.hfile_writer import encode_hfile
from hoodie.io.log.hfile_block_writer import encode_hfile_block
from hoodie.io.log.log_block import HoodieLogBlockType
from hoodie.io.log.log_block_writer import encode_log_block
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.metadata.records.metadata_records import MetadataPayload, decode_values, encode_values

Entry = tuple[str, dict[str, Any]]
Change = Callable[[str, dict[str, Any]], Iterable[Entry]]
"""Takes the key and the row of an entry; gives the entries that stand in its place."""


def tables_with_metadata(*roots: Path) -> list[Path]:
    """The tables below some folders that list a metadata table."""
    return [
        folder.parents[1]
        for root in roots
        for folder in sorted(root.rglob(".hoodie/metadata"))
        if "partitions=files" in (text := (folder.parent / "hoodie.properties").read_text()) or ",files" in text
    ]


def copied(table: Path, folder: Path) -> Path:
    """A copy of a table that a test may change."""
    return Path(shutil.copytree(table, folder / table.name))


def tamper(table: Path, partition: str, payload: MetadataPayload, change: Change) -> int:
    """Write all HFiles of a partition of a metadata table again, with changed entries.

    Returns:
        How many entries are new or other ones.
    """
    count = 0

    def changed(keys: pa.Array, values: pa.Array, schema: str) -> tuple[pa.Array, pa.Array]:
        nonlocal count
        rows = decode_values(values, schema, payload).to_pylist()
        before = dict(zip(keys.to_pylist(), rows, strict=True))
        after = dict(entry for key, row in before.items() for entry in change(key, dict(row)))
        count += sum(before.get(key) != row for key, row in after.items()) + len(before.keys() - after.keys())
        ordered = sorted(after.items(), key=lambda item: item[0].encode())
        batch = pa.RecordBatch.from_pylist([row for _, row in ordered], schema=payload.schema)
        return pa.array([key for key, _ in ordered], pa.string()), encode_values(batch, schema, payload)

    for path in sorted((table / ".hoodie/metadata" / partition).iterdir()):
        data = path.read_bytes()
        if path.suffix == ".hfile":
            reader = HFileReader.of_bytes(data, str(path))
            found = reader.read_all().combine_chunks()
            if found.num_rows:
                schema = str(reader.avro_schema)
                keys, values = changed(found["key"].chunk(0), found["value"].chunk(0), schema)
                path.write_bytes(encode_hfile(keys, values, schema))
        elif ".log." in path.name and path.suffix != ".crc":
            written = b""
            for block in read_log_blocks(data, str(path)):
                if block.block_type is not HoodieLogBlockType.HFILE_DATA:
                    written += encode_log_block(block.block_type, block.headers, block.content)
                    continue
                found = HFileReader.of_bytes(block.content, str(path)).read_all().combine_chunks()
                keys, values = changed(found["key"].chunk(0), found["value"].chunk(0), str(block.schema))
                written += encode_hfile_block(keys, values, str(block.schema), str(block.instant_time))
            path.write_bytes(written)
    return count

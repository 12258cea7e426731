"""Avro blocks of the tables of real Hudi become their rows, and the rows become the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from hoodie.avro.columnar_block import decode_avro_block, encode_avro_block
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.log.avro_block import avro_datums
from hoodie.io.log.log_block import HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_file_reader import read_log_blocks
from tests.support.avro_values import decoded, python_rows


def avro_blocks(root: Path) -> Iterator[HoodieLogBlock]:
    for path in sorted(root.rglob(".*.log.*")):
        if path.suffix == ".crc":
            continue
        try:
            blocks = list(read_log_blocks(path.read_bytes(), str(path)))
        except HoodieCorruptedDataException:
            # Some tables hold torn files, which this is not about.
            continue
        yield from (block for block in blocks if block.block_type is HoodieLogBlockType.AVRO_DATA)


def test_blocks_are_read_as_fastavro_reads_them_and_written_as_java_wrote_them(
    shared_tables: Path, later_tables: Path
) -> None:
    count = 0
    for root in (shared_tables, later_tables):
        for block in avro_blocks(root):
            rows = decode_avro_block(block.content, str(block.schema), source=block.source)
            rows.validate(full=True)
            assert python_rows(rows) == decoded(json.loads(str(block.schema)), avro_datums(block)), block.source
            assert encode_avro_block(rows, str(block.schema)) == block.content, block.source
            count += 1
    assert count > 90

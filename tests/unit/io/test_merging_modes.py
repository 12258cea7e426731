"""Log files are merged by each merge mode as Hudi 1.2.0 merges the same rows in upserts: it has one set of rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.io import merging_reader
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.log.log_block import StoredLogBlock
from hoodie.io.log.log_block_scanner import LogScanCounts
from hoodie.io.log.log_records import LogDeletes, LogEntries, LogRows
from hoodie.io.merging_reader import LogMerging
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.storage.storage_factory import open_storage
from tests.support.log_slices import slice_of
from tests.support.merge_mode_cases import GOLDEN, SCHEMA, TABLES, Step, create, steps_of

pytestmark = pytest.mark.usefixtures("splices_small_files")

STORED = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *SCHEMA])


def stored(rows: pa.Table, commits: pa.Array) -> pa.Table:
    """Rows with Hudi's columns; the commit time is the number of the commit."""
    meta = {
        "_hoodie_commit_time": commits.cast(pa.string()),
        "_hoodie_record_key": rows["id"],
    }
    nothing = pa.nulls(rows.num_rows, pa.string())
    columns = [meta[n] if n in meta else nothing if n in META_COLUMNS else rows[n] for n in STORED.names]
    return pa.table(columns, schema=STORED).combine_chunks()


def file_of(folder: Path, rows: pa.Table) -> FileSlice:
    """A slice with these rows in its base file, and a log file that is not written."""
    log_slice = slice_of(folder, None)
    path = folder / "f-0_0-0-0_20240101000000000.parquet"
    pq.write_table(rows, path)
    return attrs.evolve(FileSlice.of_base_file("", str(path), path.stat().st_size), log_files=log_slice.log_files)


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: row["id"])


@pytest.fixture(scope="module")
def upserts() -> list[Step]:
    """What was done to the tables; the first of it made them."""
    return steps_of()


@pytest.mark.parametrize("name", list(TABLES))
def test_each_step_in_log_files_leaves_what_hudi_leaves_of_it_in_an_upsert(
    name: str, upserts: list[Step], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tmp_path / "table", TABLES[name])
    merging = LogMerging.of_table(TableSnapshot.load(str(tmp_path / "table")), SCHEMA)
    golden = pq.read_table(GOLDEN)
    golden = golden.filter(pc.equal(golden["table"], name))
    entries: list[LogEntries] = []

    class Scanner:
        counts = LogScanCounts()

        def __init__(self, storage: Any, files: Any, schema: Any, columns: Sequence[str], *others: Any) -> None:
            self.columns = list(columns)

        def blocks(self) -> list[StoredLogBlock]:
            return []

        def scan(self, blocks: Sequence[StoredLogBlock]) -> Iterator[LogEntries]:
            for e in entries:
                yield attrs.evolve(e, rows=e.rows.select(self.columns)) if isinstance(e, LogRows) else e

    monkeypatch.setattr(merging_reader, "HoodieLogRecordScanner", Scanner)
    changed = 0
    for number, step in list(enumerate(upserts))[1:]:
        after = golden.filter(pc.equal(golden["step"], number))
        before = golden.filter(pc.equal(golden["step"], number - 1))
        if step.operation == "delete":
            keys = step.rows["id"].combine_chunks()
            entries[:] = [LogDeletes("t", keys, pa.nulls(len(keys), pa.string()), pa.nulls(len(keys)))]
        else:
            commit = pa.array([number] * step.rows.num_rows)
            entries[:] = [LogRows("t", batch) for batch in stored(step.rows, commit).to_batches(max_chunksize=200)]
        if not merging.merge_spec.rules.by_mode:
            # An upsert combines its input by other rules than those for an incoming and a stored row.
            once = keys_that_come_once(step.rows)
            entries[:] = [with_keys(e, once) for e in entries]
            before, after = (with_keys(rows, once, step.rows["id"]) for rows in (before, after))
        base = stored(before, before["commit"])
        names = ["_hoodie_commit_time", *SCHEMA.names]
        context = HoodieReaderContext(open_storage(str(tmp_path)), STORED, names, merging)
        reader = HoodieFileGroupReader(context, file_of(tmp_path, base))
        found = pa.Table.from_batches(reader.iter_batches(100), reader_schema())
        expected = stored(after, after["commit"]).select(found.schema.names)
        if merging.merge_spec.rules.field_rule is not None and merging.merge_spec.rules.by_mode:
            # An upsert writes a row that takes some values anew.
            found, expected = (rows.drop_columns(["_hoodie_commit_time"]) for rows in (found, expected))
        assert in_order(found) == in_order(expected), f"step {number}"
        changed += found.num_rows
    assert changed > 100


def keys_that_come_once(rows: pa.Table) -> pa.Array:
    counts = rows["id"].value_counts()
    return counts.field("values").filter(pc.equal(counts.field("counts"), 1))


def with_keys(found: Any, keys: pa.Array, of: pa.ChunkedArray | None = None) -> Any:
    """Entries of these keys; or rows, without those of other keys of a column."""
    if isinstance(found, LogRows):
        chosen = pc.is_in(found.rows["_hoodie_record_key"], value_set=keys)
        return attrs.evolve(found, rows=found.rows.filter(chosen))
    if isinstance(found, LogDeletes):
        return found
    assert of is not None
    others = of.filter(pc.invert(pc.is_in(of, value_set=keys))).combine_chunks()
    return found.filter(pc.invert(pc.is_in(found["id"], value_set=others)))


def reader_schema() -> pa.Schema:
    return pa.schema([pa.field("_hoodie_commit_time", pa.string()), *SCHEMA])

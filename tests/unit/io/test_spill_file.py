"""Batches in a local file without a name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.exception import HoodieIOException
from hoodie.io.spill_file import SpillFile

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.RecordBatch.from_pylist([{"n": n, "text": f"row {n}" if n % 7 else None} for n in numbers], SCHEMA)


@pytest.mark.parametrize("is_compressed", [False, True])
def test_batches_are_read_by_number_and_the_folder_stays_empty(tmp_path: Path, is_compressed: bool) -> None:
    with SpillFile(str(tmp_path), SCHEMA, "rows", is_compressed=is_compressed) as file:
        for number in range(5):
            file.write(rows(100 * number, 100))
        file.finish()
        assert list(tmp_path.iterdir()) == []
        assert file.num_batches == 5
        assert [file.read(number) for number in (3, 0, 4)] == [rows(300, 100), rows(0, 100), rows(400, 100)]
        mapped = file.mapped()
    assert mapped == [rows(100 * number, 100) for number in range(5)]


def test_a_file_without_batches_needs_no_folder(tmp_path: Path) -> None:
    with SpillFile(str(tmp_path / "nowhere"), SCHEMA, "rows") as file:
        file.finish()
        assert file.num_batches == 0 and file.mapped() == []


def test_errors_say_what_was_written_where_and_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    with (
        SpillFile(str(folder), SCHEMA, "rows of more than 10 bytes (some.key)") as file,
        pytest.raises(HoodieIOException, match=r"^rows of more than 10 bytes \(some\.key\) go to .*nowhere.*more room"),
    ):
        file.write(rows(0, 1))
    with SpillFile(str(tmp_path), SCHEMA, "rows") as file:
        file.write(rows(0, 1))
        file.finish()
        assert file._file is not None
        file._file.truncate(10)
        with pytest.raises(HoodieIOException, match="rows go to .* cannot be read"):
            file.read(0)
    file.close()

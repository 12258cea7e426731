"""The first read of a process imports neither pandas nor pyarrow's datasets, which take longer than many reads."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.table_builder import init_table, local_client, rows_of_keys

PROGRAM = """
import sys
import hoodie
found = hoodie.read_table(sys.argv[1], filters={filters})
assert found.num_rows == {count}, found.num_rows
print([name for name in ("pandas", "pyarrow.dataset") if name in sys.modules])
"""


@pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed, so nothing imports it")
@pytest.mark.table_version(9)
@pytest.mark.metadata_table
@pytest.mark.parametrize(
    ("filters", "count"),
    [(None, 3), ([("id", "=", "b")], 1), ([("_hoodie_record_key", "=", "c")], 1), ([("ts", "<", 9)], 3)],
)
def test_the_first_read_of_a_process_imports_no_pandas(tmp_path: Path, filters: object, count: int) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.upsert(rows_of_keys("abc", region="x"))
    program = PROGRAM.format(filters=filters, count=count)
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr

"""Parquet files are opened in one package; everything else asks it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import hoodie

PACKAGE = Path(hoodie.__file__).parent
AT_HOME = (PACKAGE / "io" / "parquet", PACKAGE / "examples", PACKAGE / "cli" / "rows.py")
"""The last one writes files for users, not those of a table."""


def imported(source: str) -> Iterator[str]:
    """Dotted names that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def opens_parquet(source: str) -> bool:
    """Whether a module imports what reads and writes Parquet."""
    return any(f"{name}.".startswith("pyarrow.parquet.") for name in imported(source))


def test_only_one_package_imports_pyarrow_parquet() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    users = {path for path in modules if opens_parquet(path.read_text())}
    assert {path.parent for path in users} >= {AT_HOME[0]}
    outside = [str(path) for path in users if not any(path.is_relative_to(home) for home in AT_HOME)]
    assert outside == [], "read rows by HoodieFileGroupReader, footers and keys by HoodieParquetReader"


def test_every_form_of_the_import_is_found() -> None:
    for source in (
        "import pyarrow.parquet as pq",
        "import pyarrow.parquet",
        "from pyarrow import parquet",
        "from pyarrow.parquet import ParquetFile",
        "def f():\n    import pyarrow.parquet as pq",
    ):
        assert opens_parquet(source), source
    assert not opens_parquet("import pyarrow.parquet_like\nimport pyarrow.dataset as ds")

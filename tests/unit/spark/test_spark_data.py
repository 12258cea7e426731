"""Errors of Spark's tasks, of which Spark hands on the text."""

from __future__ import annotations

import traceback

import pytest

from hoodie.exception import HoodieIOException, HoodieMissingFileException
from hoodie.io.parquet.footer_tail import missing_base_file
from hoodie.spark.spark_data import hoodie_errors
from hoodie.storage.local_storage import LocalStorage


def told_by_spark(error: Exception) -> Exception:
    """What Spark raises on the driver for an error that ended a task."""
    text = "".join(traceback.format_exception(error))
    return RuntimeError(
        f"Job aborted due to stage failure: PythonException:\n{text}\n\tat org.apache.spark.Worker.run()"
    )


def test_a_missing_base_file_keeps_its_class_on_the_way_from_a_task() -> None:
    error = missing_base_file(LocalStorage("/table"), "/table/x/f.parquet")
    error.__cause__ = FileNotFoundError("/table/x/f.parquet")
    with (
        pytest.raises(HoodieMissingFileException, match=r"^base file /table/x/f\.parquet is missing; .* from a copy$"),
        hoodie_errors(),
    ):
        raise told_by_spark(error)


def test_an_error_that_quotes_another_is_of_its_own_class() -> None:
    with pytest.raises(HoodieIOException) as caught, hoodie_errors():
        raise told_by_spark(
            HoodieIOException(f"a log says: {missing_base_file(LocalStorage('/table'), '/table/x/f.parquet')}")
        )
    assert type(caught.value) is HoodieIOException

"""Names and types of an input's columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hoodie.common.data.stored_types import normalise_schema
from hoodie.common.model.record_columns import OPERATION
from hoodie.exception import (
    HoodieSchemaException,
)

UTC_MICROS = pa.timestamp("us", tz="UTC")
LOCAL_MICROS = pa.timestamp("us")


def test_meta_columns_and_pandas_index_columns_are_dropped() -> None:
    schema = pa.schema([("_hoodie_commit_time", pa.string()), ("a", pa.int64()), ("__index_level_0__", pa.int64())])
    assert normalise_schema(schema).names == ["a"]


@pytest.mark.parametrize("names", [["a", "a"], ["a", "b", "A"]])
def test_names_that_spark_cannot_tell_apart_are_refused(names: list[str]) -> None:
    with pytest.raises(HoodieSchemaException, match=f"'{names[0]}' and '{names[-1]}'"):
        normalise_schema(pa.schema([(name, pa.int64()) for name in names]))


def test_names_of_hoodies_own_columns_are_refused_and_reserved_ones_keep_their_type() -> None:
    with pytest.raises(HoodieSchemaException, match="__hoodie_mine"):
        normalise_schema(pa.schema([("__hoodie_mine", pa.int64())]))
    assert normalise_schema(pa.schema([(OPERATION, pa.int8())])).types == [pa.int8()]

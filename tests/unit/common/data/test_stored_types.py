"""Names and types of an input's columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hoodie.avro.schema_converters import to_avro
from hoodie.common.data.stored_types import normalise_schema, spelled_otherwise
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


@pytest.mark.parametrize(
    ("data_type", "path"),
    [
        (pa.struct([]), "c"),
        (pa.list_(pa.struct([])), "c.element"),
        (pa.map_(pa.string(), pa.struct([])), "c.value"),
        (pa.struct([("a", pa.struct([]))]), "c.a"),
    ],
    ids=str,
)
def test_a_struct_without_fields_is_refused_by_its_name(data_type: pa.DataType, path: str) -> None:
    with pytest.raises(HoodieSchemaException, match=f"column '{path}' of type .* without fields"):
        normalise_schema(pa.schema([("id", pa.int64()), ("c", data_type)]))
    with pytest.raises(HoodieSchemaException, match=f"Column '{path}' of type .* without fields"):
        to_avro(pa.schema([("c", data_type)]), "r", "n")


def test_a_struct_without_fields_is_the_tables_where_all_its_fields_are_missing() -> None:
    known = pa.schema([("c", pa.struct([("a", pa.int64())]))])
    assert normalise_schema(pa.schema([("c", pa.struct([]))]), known).types == [pa.struct([])]


def test_names_that_differ_in_case_only_are_asked_for() -> None:
    assert spelled_otherwise(["Fare", "tip"], ["fare"]) == " (did you mean 'Fare'?)"
    assert spelled_otherwise(["Fare", "tip"], ["fares"]) == " (did you mean 'Fare'?)"
    assert spelled_otherwise(["Fare", "tip"], ["FAER", "fares", "tpi"]) == " (did you mean 'Fare', 'tip'?)"
    assert spelled_otherwise(["Fare", "tip"], ["when"]) == ""

"""The functions of expression indexes: as Spark computes them, or none."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition
from hoodie.metadata.writer.index_expressions import IndexExpression, UnknownValuesError
from tests.support.expression_indexes import definition_of

SCHEMA = pa.schema(
    {
        "text": pa.string(),
        "number": pa.int64(),
        "price": pa.float64(),
        "amount": pa.decimal128(10, 2),
        "at": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "day": pa.date32(),
        "names": pa.list_(pa.string()),
    }
)


def expression(function: str, column: str = "text", index_type: str = "column_stats", **more: Any) -> IndexExpression:
    return IndexExpression.of(definition_of("i", index_type, function, column, **more), SCHEMA)


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("identity", ["a", None, "É"], ["a", None, "É"]),
        ("length", ["", None, "aé", "😀é"], [0, None, 2, 2]),
        ("lower", ["ABC xyz-9[", None, ""], ["abc xyz-9[", None, ""]),
        ("upper", ["ABC xyz-9{", None, ""], ["ABC XYZ-9{", None, ""]),
    ],
)
def test_functions_of_texts_give_what_spark_gives(function: str, values: list[Any], expected: list[Any]) -> None:
    found = expression(function).compute(pa.array(values, pa.string()))
    assert found.to_pylist() == expected
    assert found.type == (pa.int32() if function == "length" else pa.string())


@pytest.mark.parametrize("function", ["lower", "upper"])
@pytest.mark.parametrize("value", ["straße", "ΣΑΣ", "İstanbul", "\u0131", "É", "ﬁ"])
def test_texts_for_which_java_has_rules_of_its_own_are_not_changed(function: str, value: str) -> None:
    with pytest.raises(UnknownValuesError, match=f"not ASCII.*{function}"):
        expression(function).compute(pa.array(["plain", None, value]))


@pytest.mark.parametrize(
    ("function", "column"),
    [
        ("from_unixtime", "number"), ("date_format", "at"), ("year", "day"), ("trim", "text"), ("substring", "text"),
        ("LOWER", "text"), ("", "text"), ("length", "number"), ("lower", "number"), ("column_stats", "text"),
    ],
)  # fmt: skip
def test_other_functions_are_not_computed(function: str, column: str) -> None:
    with pytest.raises(UnknownValuesError, match=f"does not compute {function}"):
        expression(function, column)


@pytest.mark.parametrize(
    ("column", "index_type", "is_second"),
    [
        ("amount", "column_stats", True), ("local", "column_stats", True), ("names", "column_stats", True),
        ("at", "column_stats", False), ("day", "column_stats", False),
        ("price", "bloom_filters", True), ("at", "bloom_filters", True), ("day", "bloom_filters", True),
    ],
)  # fmt: skip
def test_columns_of_other_types_are_not_indexed(column: str, index_type: str, is_second: bool) -> None:
    definition = HoodieIndexDefinition(
        "expr_index_i", index_type, (column,), is_hashed_by_value=is_second, function="identity"
    )
    with pytest.raises(UnknownValuesError, match=f"does not index {column}"):
        IndexExpression.of(definition, SCHEMA)


@pytest.mark.parametrize("columns", [(), ("none",), ("text", "number"), ("text.part",)])
def test_an_index_of_no_column_on_the_top_level_is_not_computed(columns: tuple[str, ...]) -> None:
    definition = HoodieIndexDefinition("expr_index_i", "column_stats", columns, function="identity")
    with pytest.raises(UnknownValuesError, match="no column"):
        IndexExpression.of(definition, SCHEMA)


def test_an_index_of_another_type_is_not_computed() -> None:
    with pytest.raises(UnknownValuesError, match="of the type vector"):
        expression("identity", index_type="vector")

"""Numbers of another type than the table's: taken exactly or refused; a module subclasses it once per engine."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.table.timeline.instant import State
from hoodie.exception import SchemaCompatibilityException

__all__ = ["NumberContract"]

LARGE = 2**53 + 1
"""An integer that no double holds."""
LOSSY = {"hoodie.write.schema.widen.lossy": "true"}
NAN, INFINITE = float("nan"), float("inf")


def element(data_type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", data_type))


def rows(ids: str, values: list[Any], data_type: pa.DataType, ts: int = 1) -> pa.Table:
    """One row for each letter: the column ``n``, and ``c`` with the values in a struct, in a list, in a map."""
    struct = pa.struct([("x", data_type)])
    nested = pa.map_(pa.string(), element(struct))
    return pa.table(
        {
            "id": list(ids),
            "ts": pa.array([ts] * len(ids), pa.int64()),
            "n": pa.array(values, data_type),
            "c": pa.array([[("k", [{"x": value}])] for value in values], nested),
        }
    )


class NumberContract(ABC):
    """A column keeps its type, and its values, whatever numbers come in; what does not fit is refused by name."""

    @abstractmethod
    def write(self, base_path: str, table: pa.Table, operation: str = "upsert", **properties: str) -> Any:
        """Write an input by the engine."""

    @pytest.fixture
    def base_path(self, tmp_path: Path) -> str:
        path = str(tmp_path / "t")
        HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="id", ordering_fields="ts")
        return path

    def found(self, base_path: str) -> dict[str, Any]:
        table = hoodie.read_table(base_path)
        found = {row["id"]: row["n"] for row in table.to_pylist()}
        nested = {row["id"]: row["c"][0][1][0]["x"] for row in table.to_pylist()}
        assert found == nested
        return found

    def type_of(self, base_path: str, column: str = "n") -> pa.DataType:
        return HoodieTableMetaClient.load(base_path).load_schema().field(column).type

    def completed(self, base_path: str) -> int:
        timeline = HoodieTableMetaClient.load(base_path).active_timeline
        actions = ("commit", "replacecommit")
        return len([i for i in timeline.instants if i.state is State.COMPLETED and i.action in actions])

    def refused(
        self, base_path: str, table: pa.Table, match: str, operation: str = "upsert", **properties: str
    ) -> None:
        before = hoodie.read_table(base_path), self.completed(base_path)
        with pytest.raises(SchemaCompatibilityException, match=match):
            self.write(base_path, table, operation, **properties)
        assert (hoodie.read_table(base_path), self.completed(base_path)) == before

    @pytest.mark.parametrize("given", [pa.float32(), pa.float64()], ids=str)
    def test_whole_floats_and_nulls_are_the_integers_of_the_column_batch_after_batch(
        self, base_path: str, given: pa.DataType
    ) -> None:
        self.write(base_path, rows("abc", [LARGE, 123456789, 1], pa.int64()))
        self.write(base_path, rows("cd", [7.0, None], given, ts=2))
        self.write(base_path, rows("e", [-0.0], given, ts=2), "insert")
        self.write(base_path, rows("f", [-16777215.0], given), "bulk_insert")
        assert self.type_of(base_path) == pa.int64()
        expected = {"a": LARGE, "b": 123456789, "c": 7, "d": None, "e": 0, "f": -16777215}
        assert self.found(base_path) == expected
        self.write(base_path, rows("g", [3.0], given), "insert_overwrite_table")
        assert self.type_of(base_path) == pa.int64()
        assert self.found(base_path) == {"g": 3}

    @pytest.mark.parametrize(
        ("stored", "given", "value", "text"),
        [
            (pa.int64(), pa.float64(), 1.5, r"double 1\.5 there, which is not whole"),
            (pa.int64(), pa.float64(), 2.0**53, r"9007199254740992\.0 there, and from 2\^53 on a double may stand"),
            (pa.int64(), pa.float64(), -1e300, r"double -1e\+300 there"),
            (pa.int64(), pa.float64(), NAN, "double nan there, which is not a number"),
            (pa.int64(), pa.float64(), -INFINITE, "double -inf there, which is infinite"),
            (pa.int64(), pa.float32(), 123456792.0, r"123456792\.0 there, and from 2\^24 on a float may stand"),
            (pa.int32(), pa.float32(), -(2.0**31), r"-2147483648\.0 there"),
        ],
        ids=str,
    )
    def test_a_float_that_is_no_integer_of_the_column_is_refused_by_name(
        self, base_path: str, stored: pa.DataType, given: pa.DataType, value: float, text: str
    ) -> None:
        self.write(base_path, rows("ab", [LARGE % 2**31, None], stored))
        whole = rows("bc", [2.0, None], given, ts=2)
        column = rows("d", [value], given, ts=2).set_column(3, "c", whole["c"].slice(0, 1))
        option = ".*hoodie.write.schema.widen.lossy=true"
        self.refused(base_path, pa.concat_tables([whole, column]), f"column 'n' is {stored}.*{text}{option}")
        nested = rows("d", [value], given, ts=2).set_column(2, "n", pa.array([1.0], given))
        self.refused(base_path, pa.concat_tables([whole, nested]), rf"column 'c\.value\.element\.x' is .*{text}")

    @pytest.mark.parametrize("operation", ["insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"])
    def test_a_bad_value_among_many_rows_fails_every_operation_and_leaves_nothing(
        self, base_path: str, operation: str
    ) -> None:
        self.write(base_path, rows("ab", [LARGE, 1], pa.int64()))
        many = pa.concat_tables([rows("x" * 5000, [1.0] * 5000, pa.float64()), rows("y", [0.5], pa.float64())])
        self.refused(base_path, many, r"column 'n' is int64.* double 0\.5 there", operation)
        assert self.found(base_path) == {"a": LARGE, "b": 1}

    def test_the_ordering_column_stays_one_of_integers(self, base_path: str) -> None:
        self.write(base_path, rows("ab", [1, 1], pa.int64(), ts=LARGE))
        newer = rows("bc", [2, 2], pa.int64())
        self.write(base_path, newer.set_column(1, "ts", pa.array([2.0**53 - 1, 5], pa.float64())))
        assert self.type_of(base_path, "ts") == pa.int64()
        stamps = {row["id"]: row["ts"] for row in hoodie.read_table(base_path).to_pylist()}
        assert stamps == {"a": LARGE, "b": LARGE, "c": 5}
        assert self.found(base_path) == {"a": 1, "b": 1, "c": 2}
        half = newer.set_column(1, "ts", pa.array([2.5, 3], pa.float64()))
        self.refused(base_path, half, r"column 'ts' is int64.* double 2\.5 there")

    @pytest.mark.parametrize(("column", "bits"), [(pa.float32(), 24), (pa.float64(), 53)], ids=str)
    def test_integers_go_into_a_column_of_floats_exactly_or_not_at_all(
        self, base_path: str, column: pa.DataType, bits: int
    ) -> None:
        self.write(base_path, rows("abc", [0.5] * 3, column))
        exact = [2**bits, 2 ** (bits + 3), -(2**62)]
        self.write(base_path, rows("abc", exact, pa.int64()))
        assert self.found(base_path) == dict(zip("abc", map(float, exact), strict=True))
        assert self.type_of(base_path) == column
        for wrong in (2**bits + 1, 2**63 - 1):
            table = rows("ad", [1, wrong], pa.int64())
            self.refused(base_path, table, rf"column 'n' is {column}, which cannot hold {wrong} of the input")
        self.refused(base_path, table, rf"column 'n' is {column}", "bulk_insert")

    def test_the_option_widens_and_rounds_and_says_what_that_costs(
        self, base_path: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.write(base_path, rows("ab", [LARGE, 1], pa.int64()))
        with caplog.at_level(logging.WARNING, "hoodie"):
            self.write(base_path, rows("b", [0.5], pa.float64(), ts=2), **LOSSY)
        assert "column n becomes double, from int64: integers of the table and of the input beyond 2^53 are" in (
            caplog.text
        )
        assert "column c.value.element.x becomes double" in caplog.text
        assert "column ts" not in caplog.text
        assert self.type_of(base_path) == pa.float64()
        assert self.found(base_path) == {"a": 2.0**53, "b": 0.5}
        self.refused(base_path, rows("c", [LARGE], pa.int64()), "which cannot hold 9007199254740993 of the input")
        caplog.clear()
        with caplog.at_level(logging.WARNING, "hoodie"):
            self.write(base_path, rows("c", [LARGE], pa.int64()), **LOSSY)
        assert "column n stays double, the input has int64: integers of the input beyond 2^53" in caplog.text
        assert self.found(base_path)["c"] == 2.0**53

    def test_integers_that_are_keys_are_never_rounded(self, tmp_path: Path) -> None:
        path = str(tmp_path / "keys")
        HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="k", partition_fields="p")
        keys = pa.table({"k": [1, 2, LARGE], "p": [1, 1, 1], "v": ["a", "b", "c"]})
        self.write(path, keys)
        self.write(path, pa.table({"k": [1.0], "p": [1.0], "v": ["new"]}), **LOSSY)
        self.refused(path, pa.table({"k": [1.5], "p": [1.0], "v": ["x"]}), r"column 'k' is int64.* 1\.5", **LOSSY)
        self.write(path, pa.table({"k": [2.0], "p": [1.0]}), "delete")
        self.refused(path, pa.table({"k": [2.0**53], "p": [1.0]}), r"column 'k' is int64.* 9007199254740992", "delete")
        assert {row["k"]: row["v"] for row in hoodie.read_table(path).to_pylist()} == {1: "new", LARGE: "c"}
        assert self.type_of(path, "k") == pa.int64()

    def test_decimals_of_another_scale_are_exact_or_refused(self, base_path: str) -> None:
        column, spark_default = pa.decimal128(10, 2), pa.decimal128(38, 18)
        self.write(base_path, rows("ab", [Decimal("1.25"), None], column))
        self.write(base_path, rows("bc", [Decimal("99999999.99"), None], spark_default, ts=2))
        self.write(base_path, rows("d", [Decimal("-3")], pa.decimal128(20, 0)), "bulk_insert")
        assert self.type_of(base_path) == column
        expected = {"a": Decimal("1.25"), "b": Decimal("99999999.99"), "c": None, "d": Decimal("-3.00")}
        assert self.found(base_path) == expected
        for value in ("1.255", "100000000.00"):
            table = rows("ae", [Decimal("1"), Decimal(value)], spark_default, ts=3)
            self.refused(base_path, table, rf"column 'n' of type decimal.*first value: Decimal\('{value}")
            self.refused(base_path, table, "column 'n' of type decimal", "bulk_insert")

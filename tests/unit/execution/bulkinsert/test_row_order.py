"""Orders of rows: what they refuse, and the order that their sort keys give."""

from __future__ import annotations

import math
import pickle
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie import HoodieWriteConfig
from hoodie.config.layout_optimize_config import LayoutOptimizationStrategy, SpatialCurveCompositionStrategyType
from hoodie.exception import HoodieConfigException
from hoodie.execution.bulkinsert.row_order import RowOrder, sorted_numbers
from tests.support.curves import hilbert_bytes, hilbert_index, hilbert_long, z_bytes, z_value

LINEAR, ZORDER, HILBERT = LayoutOptimizationStrategy
DIRECT, SAMPLE = SpatialCurveCompositionStrategyType
MASK = (1 << 64) - 1
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [0, 5, -5, 2**63 - 1, -(2**63), None]),
    "int": (pa.int32(), [0, 5, -5, 2**31 - 1, -(2**31), None]),
    "double": (pa.float64(), [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 5e-324, None]),
    "float": (pa.float32(), [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, None]),
    "text": (pa.string(), ["", "a", "aa", "b", "\uff5e", "\U0001f600", None]),
    "bytes": (pa.binary(), [b"", b"\x00", b"\x7f", b"\x80", b"\xff\x00", None]),
    "decimal": (pa.decimal128(20, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("12345678901234567.89"), None]),
    "day": (pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(2026, 1, 1), None]),
    "at": (pa.timestamp("us", "UTC"), [datetime(1960, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), None]),
    "flag": (pa.bool_(), [True, False, None]),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in KINDS.items()]).append(pa.field("number", pa.int64()))


def batch_of(count: int, seed: int) -> pa.RecordBatch:
    source = random.Random(seed)
    columns = {name: source.choices(values, k=count) for name, (_, values) in KINDS.items()}
    return pa.RecordBatch.from_pydict(columns | {"number": list(range(count))}, SCHEMA)


def in_spark(value: Any) -> Any:
    """A value that Python compares as Spark does: nulls first, NaN last, texts by their bytes."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, value != value, 0.0 if value != value else value)
    return (1, value.encode() if isinstance(value, str) else value)


@pytest.mark.parametrize("columns", [*([name] for name in KINDS), ["flag", "double", "text"], ["text", "day", "long"]])
def test_a_linear_order_is_that_of_spark_and_stable(columns: list[str]) -> None:
    batch = batch_of(500, seed=len(columns))
    found = sorted_numbers(RowOrder(columns).checked(SCHEMA).sort_keys(batch))
    rows = batch.to_pylist()
    assert found.tolist() == sorted(range(500), key=lambda number: [in_spark(rows[number][name]) for name in columns])


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_all_values_that_are_no_number_are_the_same_largest_one(kind: pa.DataType) -> None:
    width = kind.bit_width
    bits = np.array([(1 << (width - 1)) - 1, (1 << width) - 1], f"u{width // 8}").view(f"f{width // 8}")
    batch = pa.record_batch({"x": pa.array([*bits, math.nan, math.inf, -math.inf], kind)})
    assert sorted_numbers(RowOrder(["x"]).sort_keys(batch)).tolist() == [4, 3, 0, 1, 2]


def bytes_of(keys: list[pa.Array], row: int) -> bytes:
    return b"".join(((key[row].as_py() & MASK) ^ (1 << 63)).to_bytes(8, "big") for key in keys)


@pytest.mark.parametrize("columns", [["text", "double"], ["double", "text"], list(KINDS)[:7], list(KINDS)])
@pytest.mark.parametrize("strategy", [ZORDER, HILBERT])
def test_sort_keys_of_curves_are_the_bytes_of_hudi(strategy: LayoutOptimizationStrategy, columns: list[str]) -> None:
    batch = batch_of(60, seed=3)
    keys = RowOrder(columns, strategy).checked(SCHEMA).sort_keys(batch)
    mixed = sorted(columns, key=SCHEMA.names.index)
    if len(columns) == 10:  # positions 5 to 14 are all below 16
        assert mixed == columns
    for number, row in enumerate(batch.to_pylist()):
        if strategy is ZORDER:
            assert bytes_of(keys, number) == z_value([z_bytes(row[name], KINDS[name][0]) for name in mixed])
        else:
            index = hilbert_index([hilbert_long(row[name], KINDS[name][0]) for name in mixed])
            whole = int.from_bytes(bytes_of(keys, number), "big") >> (64 * len(keys) - 63 * len(mixed))
            assert whole == index
            if len(mixed) < 8:
                assert hilbert_bytes(whole) == hilbert_bytes(index)


def test_columns_behind_the_sixteenth_come_first_on_a_curve() -> None:
    wide = pa.schema([(f"c{number}", pa.int64()) for number in range(20)])
    given = ["c0", "c11", "c10", "c27", "c12"]
    wide = wide.append(pa.field("c27", pa.int64()))
    # Positions 5, 16, 15, 25 and 17, modulo 16: 5, 0, 15, 9 and 1.
    assert RowOrder(given, ZORDER).checked(wide).columns == ("c11", "c12", "c0", "c27", "c10")
    assert RowOrder(given, HILBERT).checked(with_meta(wide)).columns == ("c11", "c12", "c0", "c27", "c10")
    assert RowOrder(given, LINEAR).checked(wide).columns == tuple(given)
    assert RowOrder(given, ZORDER, SAMPLE).checked(wide).columns == tuple(given)
    assert RowOrder(["c0", "_hoodie_record_key"], ZORDER).checked(wide).columns == ("_hoodie_record_key", "c0")


def with_meta(schema: pa.Schema) -> pa.Schema:
    names = ["time", "seqno", "record_key", "partition_path", "file_name"]
    meta = [
        pa.field(f"_hoodie_{'commit_' if number < 2 else ''}{name}", pa.string()) for number, name in enumerate(names)
    ]
    return pa.schema([*meta, *schema])


def test_one_column_is_sorted_whatever_the_strategy() -> None:
    batch = batch_of(200, seed=5)
    linear = RowOrder(["double"]).sort_keys(batch)
    for strategy in (ZORDER, HILBERT):
        order = RowOrder(["double"], strategy, SAMPLE).checked(SCHEMA)
        assert not order.is_curve and not order.needs_sample
        assert order.sort_keys(batch) == linear


def test_fields_of_structs_are_sorted_by_and_null_where_the_struct_is() -> None:
    rows = [{"s": {"a": {"b": 2}}}, {"s": None}, {"s": {"a": None}}, {"s": {"a": {"b": 1}}}, {"s": {"a": {"b": None}}}]
    kind = pa.struct([("a", pa.struct([("b", pa.int32())]))])
    batch = pa.RecordBatch.from_pylist(rows, pa.schema([("s", kind)]))
    order = RowOrder(["s.a.b"]).checked(batch.schema)
    assert sorted_numbers(order.sort_keys(batch)).tolist() == [1, 2, 4, 3, 0]
    assert order.top_columns(batch.schema) == ["s"]


def test_columns_encoded_as_dictionaries_are_sorted_by_their_values() -> None:
    batch = pa.record_batch({"d": pa.array(["b", None, "a", "b"]).dictionary_encode()})
    assert sorted_numbers(RowOrder(["d"]).sort_keys(batch)).tolist() == [1, 2, 0, 3]


LISTS = SCHEMA.append(pa.field("tags", pa.list_(pa.string()))).append(pa.field("local", pa.timestamp("us")))


@pytest.mark.parametrize(
    ("columns", "strategy", "message"),
    [
        (["txt"], LINEAR, r"the table has no column txt \(did you mean 'text'\?\); give columns of long, int"),
        (["text.a"], LINEAR, "the table has no column text.a"),
        (["tags"], LINEAR, r"tags is of type list<.*>, which has no order; leave it out of hoodie\.clustering\.plan"),
        (["long", "tags"], ZORDER, r"tags is of type list<.*>, which has no order; leave it out"),
        (["long", "local"], HILBERT, r"local is of type timestamp\[us\], which has no place on a curve.*LINEAR$"),
        (["x", "tags", "long"], ZORDER, r"no column x.*; tags is of type"),
    ],
)
def test_columns_that_cannot_be_sorted_by_are_refused_with_a_way_out(
    columns: list[str], strategy: LayoutOptimizationStrategy, message: str
) -> None:
    with pytest.raises(HoodieConfigException, match=message):
        RowOrder(columns, strategy).checked(LISTS)


def test_local_timestamps_are_sorted_by_in_linear_order() -> None:
    assert RowOrder(["local"]).checked(LISTS).columns == ("local",)


@pytest.mark.parametrize("columns", [[], ["long", "long"]])
def test_no_columns_and_columns_named_twice_are_refused(columns: list[str]) -> None:
    with pytest.raises(HoodieConfigException, match=r"name one or more columns, each once"):
        RowOrder(columns)


def test_ranks_of_samples_follow_the_values_and_use_all_bits() -> None:
    """Texts that begin alike are one value of a DIRECT curve, and many of a SAMPLE one."""
    source = random.Random(1)
    values = {
        "text": [f"https://a.b/{source.randrange(10**6)}" for _ in range(1000)],
        "int": source.choices([1, 2], k=1000),
    }
    batch = pa.RecordBatch.from_pydict(values | {"double": [None, *np.arange(999.0)]})
    order = RowOrder(["text", "int"], ZORDER, SAMPLE, sample_size=100)
    assert order.needs_sample
    order = pickle.loads(pickle.dumps(order.sampled([batch])))
    assert not order.needs_sample and order.is_curve
    assert [len(known) for known in order.boundaries or ()] == [100, 2]
    direct = RowOrder(["text", "int"], ZORDER)
    assert len(set(zip(*(key.to_pylist() for key in direct.sort_keys(batch)), strict=True))) == 2
    (key,) = order.sort_keys(batch)
    assert len(key.unique()) > 150
    # Rows with the same int are in the order of the texts, up to ranks.
    for chosen in (1, 2):
        pairs = sorted(
            (text, place)
            for text, number, place in zip(*values.values(), key.to_pylist(), strict=True)
            if number == chosen
        )
        assert [place for _, place in pairs] == sorted(place for _, place in pairs)
    # A few values are spread over all ranks, and nulls come behind the others.
    by_int = RowOrder(["int", "text"], ZORDER, SAMPLE, sample_size=100).sampled([batch])
    assert sorted(set(by_int._ranks(batch)[0].tolist())) == [0, 50]
    nulls = RowOrder(["double", "int"], HILBERT, SAMPLE, sample_size=100).sampled([batch])
    assert len(nulls.sort_keys(batch)) == 1
    ranks = nulls._ranks(batch)[0].tolist()
    assert ranks[0] == 100 and ranks[1:] == sorted(ranks[1:]) and max(ranks[1:]) == 99
    nothing = order.sampled([]).sort_keys(batch)
    assert [len(key) for key in nothing] == [1000]


def test_spellings_of_the_strategy_are_those_of_hudi() -> None:
    key = "hoodie.layout.optimize.strategy"
    for text, expected in [("z-order", ZORDER), ("ZOrder", ZORDER), ("Hilbert", HILBERT), ("linear", LINEAR)]:
        assert HoodieWriteConfig.from_properties("/t", {key: text}).layout.strategy is expected
    with pytest.raises(HoodieConfigException, match="LINEAR, ZORDER or HILBERT"):
        HoodieWriteConfig.from_properties("/t", {key: "spiral"})
    given = {
        "hoodie.layout.optimize.curve.build.method": "sample",
        "hoodie.layout.optimize.build.curve.sample.size": 10,
    }
    layout = HoodieWriteConfig.from_properties("/t", given).layout
    assert (layout.curve_build_method, layout.curve_sample_size) == (SAMPLE, 10)


@pytest.mark.parametrize(
    ("table", "strategy", "columns", "instant"),
    [
        ("clu_zorder", ZORDER, ["a", "b"], "20261127130059532"),
        ("clu_hilbert", HILBERT, ["a", "b", "s"], "20261127130756517"),
    ],
)
def test_files_of_real_hudi_are_in_this_order(
    serviced_tables: Path, table: str, strategy: LayoutOptimizationStrategy, columns: list[str], instant: str
) -> None:
    files = sorted((serviced_tables / f"v9_{table}" / table / "p0").glob(f"*_{instant}.parquet"))
    ranges = []
    for file in files:
        (batch,) = pq.read_table(file, partitioning=None).combine_chunks().to_batches()
        keys = RowOrder(columns, strategy).checked(batch.schema).sort_keys(batch)
        values = list(zip(*(key.to_pylist() for key in keys), strict=True))
        assert values == sorted(values) and len(set(values)) > 1
        ranges.append((values[0], values[-1]))
    ranges.sort()
    assert len(files) == (5 if strategy is ZORDER else 1)
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges))

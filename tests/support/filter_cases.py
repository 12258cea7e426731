"""Rows on which statistics and filters disagree, and filters of any form for hypothesis."""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import operator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from hypothesis import strategies as st

from hoodie.common.data.expression_tree import Call, Field, Literal, Node, build_expression, parse_expression

NAN, INF = math.nan, math.inf
UTC = datetime.UTC
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "f": (pa.float64(), [0.0, -0.0, NAN, INF, -INF, 1.0, 5.0, 0.1, 2.0**53, 16777217.0, -7.5]),
    "g": (pa.float32(), [0.0, -0.0, NAN, INF, -INF, 1.0, 5.0, 0.1, 16777216.0, -7.5]),
    "i": (pa.int32(), [0, 1, 5, -7, 2**31 - 1, -(2**31), 16777217]),
    "l": (pa.int64(), [0, 1, 5, -7, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]),
    "s": (pa.string(), ["", "a", "b", "é", "a\x00", "zz" * 40, "zz" * 40 + "b", "1"]),
    "y": (pa.binary(), [b"", b"a", b"\x00", b"\xff", b"\xff\xff"]),
    "b": (pa.bool_(), [True, False]),
    "d": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)]),
    "t": (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(1969, 12, 31, 23, 59, 59, 1, UTC), datetime.datetime(2024, 2, 29, tzinfo=UTC)],
    ),
    "c": (pa.decimal128(10, 2), [decimal.Decimal(text) for text in ("0.00", "-1.25", "1.25", "99999999.99")]),
    "n": (pa.struct([("x", pa.float64())]), [{"x": 1.0}, {"x": NAN}, {"x": -0.0}, {"x": None}]),
}
SCHEMA = pa.schema([pa.field("id", pa.int64()), *(pa.field(name, kind) for name, (kind, _) in COLUMNS.items())])
FLAT = [name for name in COLUMNS if name != "n"]
NUMBERS = ["f", "g", "i", "l"]
GROUP_ROWS = 3


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Row groups of `GROUP_ROWS` rows; of most columns a group has few values, so that statistics tell much."""
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for _ in range(draw(st.integers(0, 4))):
        for name, (_, pool) in COLUMNS.items():
            some = draw(st.lists(st.sampled_from([*pool, None]), min_size=1, max_size=2))
            columns[name] += draw(st.lists(st.sampled_from(some), min_size=GROUP_ROWS, max_size=GROUP_ROWS))
    columns["id"] = list(range(len(columns["f"])))
    return pa.table(columns, schema=SCHEMA)


def values(name: str) -> st.SearchStrategy[Any]:
    """What a column may be compared with: of its own type, or another that Arrow compares it with."""
    kind, pool = COLUMNS[name]
    own = st.sampled_from(pool)
    typed = own.map(lambda value: pa.scalar(value, kind))
    if name in NUMBERS:
        others = [value for other in NUMBERS for value in COLUMNS[other][1]]
        scalars = [pa.scalar(1, pa.int8()), pa.scalar(0.1, pa.float32()), pa.scalar(5.5, pa.float64())]
        return own | typed | st.sampled_from(others) | st.sampled_from(scalars) | st.floats() | st.integers(-10, 10)
    if name == "t":
        return own | st.just(pa.scalar(pool[1], pa.timestamp("s", "UTC")))
    if name == "c":
        return own | st.just(decimal.Decimal("1.250")) | st.just(decimal.Decimal("1.2505"))
    return own | typed


def sets(name: str) -> st.SearchStrategy[Any]:
    """Sets that a column may be searched in; they may hold nulls and values of other types."""
    kind, pool = COLUMNS[name]
    own = st.lists(st.sampled_from([*pool, None]), min_size=1, max_size=4).map(lambda found: pa.array(found, kind))
    if name not in NUMBERS:
        return own
    floats = st.lists(st.sampled_from(COLUMNS["f"][1]), min_size=1, max_size=4)
    return own | floats | st.lists(st.sampled_from([0, 1, 5, -7, 2**31, 16777217]), min_size=1, max_size=4)


COMPARISONS = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


@st.composite
def comparisons(draw: st.DrawFn) -> pc.Expression:
    """A column and a value, on either side."""
    name = draw(st.sampled_from(FLAT))
    value = draw(values(name))
    scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
    sides = [pc.field(name), pc.scalar(scalar)]
    if draw(st.booleans()):
        sides.reverse()
    return COMPARISONS[draw(st.sampled_from(sorted(COMPARISONS)))](*sides)


@st.composite
def searches(draw: st.DrawFn) -> pc.Expression:
    """A column and a set."""
    name = draw(st.sampled_from(FLAT))
    return pc.field(name).isin(draw(sets(name)))


OTHERS = [
    *(pc.field(name).is_null() for name in COLUMNS),
    *(pc.field(name).is_valid() for name in COLUMNS),
    *(pc.field(name).is_null(nan_is_null=True) for name in NUMBERS),
    pc.is_nan(pc.field("f")),
    pc.is_finite(pc.field("g")),
    pc.field("b"),
    pc.field("n", "x") == 1.0,
    pc.field("n", "x") != 1.0,
    pc.field("l").cast(pa.float64(), safe=False) == 2.0**53,
    pc.field("i").cast(pa.float32(), safe=False) != 16777216.0,
    pc.field("f").cast(pa.float32(), safe=False) == 0.0,
    pc.field("f") == pc.field("g"),
    pc.field("l") < pc.field("i"),
    pc.field("i") * 2 > 1,
    pc.sign(pc.field("f")) == 0.0,
    pc.field("f") / pc.field("g") > 0,
    pc.starts_with(pc.field("s"), "zz"),
    pc.if_else(pc.field("b"), pc.field("f") > 0, pc.field("g") > 0),
    pc.coalesce(pc.field("b"), pc.scalar(True)),
    pc.scalar(True),
    pc.scalar(False),
]


def expressions() -> st.SearchStrategy[pc.Expression]:
    """Expressions of any depth."""
    leaves = comparisons() | searches() | st.sampled_from(OTHERS)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda two: two[0] & two[1]),
            st.tuples(inner, inner).map(lambda two: two[0] | two[1]),
            inner.map(lambda one: ~one),
        ),
        max_leaves=5,
    )


@st.composite
def tuples(draw: st.DrawFn) -> tuple[str, str, Any]:
    """A filter of one column, as a tuple."""
    name = draw(st.sampled_from(FLAT))
    op = draw(st.sampled_from([*sorted(COMPARISONS), "=", "in", "not in"]))
    if op in ("in", "not in"):
        found = draw(sets(name))
        return name, op, found.to_pylist() if isinstance(found, pa.Array) else found
    value = draw(values(name))
    return name, op, value.as_py() if isinstance(value, pa.Scalar) else value


def lists() -> st.SearchStrategy[Any]:
    """Lists of tuples: and, or an or of ands."""
    conjunction = st.lists(tuples(), min_size=1, max_size=3)
    return conjunction | st.lists(conjunction, min_size=1, max_size=3)


def filters() -> st.SearchStrategy[Any]:
    """Filters in either form."""
    return expressions() | lists()


def in_memory(table: pa.Table, wanted: Any) -> list[int] | None:
    """The ids of the rows that a filter chooses, one row and one value after the other; None where Arrow fails.

    Values have the type of their column; -0.0 equals 0.0, NaN equals NaN, and numbers are compared exactly.
    """
    expression = wanted if isinstance(wanted, pc.Expression) else pq.filters_to_expression(wanted)
    tree = parse_expression(expression)
    assert tree is not None
    # pyarrow 17 joins chunks of truth values wrongly.
    table = table.combine_chunks()
    try:
        table.filter(expression)
    except (pa.ArrowException, TypeError) as error:
        # Arrow compares no integers with floats that it would have to round.
        if "was not representable" not in str(error) and "Integer value" not in str(error):
            return None
    try:
        return table.filter(_truth(tree, table))["id"].to_pylist()
    except (pa.ArrowException, TypeError):
        return None


def _truth(node: Node, table: pa.Table) -> Any:
    if isinstance(node, Call):
        if node.function in ("and_kleene", "or_kleene"):
            join = getattr(pc, node.function)
            return functools.reduce(join, [_truth(argument, table) for argument in node.arguments])
        if node.function == "invert":
            return pc.invert(_truth(node.arguments[0], table))
        found = _of_values(node, table)
        if found is not None:
            return found
    expression = build_expression(node)
    assert expression is not None
    return ds.dataset(table).to_table(columns={"found": expression})["found"]


def _of_values(node: Call, table: pa.Table) -> pa.Array | None:
    """A comparison or a search of a column, row by row; None for other calls."""
    sides = list(node.arguments)
    function = node.function
    if len(sides) == 2 and isinstance(sides[0], Literal):
        sides.reverse()
        function = {"less": "greater", "less_equal": "greater_equal", "greater": "less",
                    "greater_equal": "less_equal"}.get(function, function)  # fmt: skip
    if not isinstance(sides[0], Field) or sides[0].path[0] not in FLAT:
        return None
    name = sides[0].path[0]
    rows = table[name].to_pylist()
    if function == "is_in":
        assert node.options is not None
        held = [_of_column(value, name) for value in node.options["value_set"].values.to_pylist()]
        nulls = [row is None and None in held for row in rows]
        return pa.array([null or any(_equal(row, one) for one in held) for row, null in zip(rows, nulls, strict=True)])
    if function not in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        return None
    if not isinstance(sides[1], Literal):
        return None
    value = _of_column(sides[1].value.as_py(), name)
    return pa.array([None if None in (row, value) else _holds(function, row, value) for row in rows], pa.bool_())


def _holds(function: str, row: Any, value: Any) -> bool:
    if function in ("equal", "not_equal"):
        return _equal(row, value) == (function == "equal")
    operators = {"less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge}
    return bool(operators[function](row, value))


def _equal(row: Any, value: Any) -> bool:
    return row is not None and value is not None and bool(row == value or (row != row and value != value))


def _of_column(value: Any, name: str) -> Any:
    is_rounded = name == "g" and isinstance(value, float) and abs(value) <= float(np.finfo(np.float32).max)
    return float(np.float32(value)) if is_rounded else value

"""Rows on which statistics and filters disagree, and filters of any form for hypothesis."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

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

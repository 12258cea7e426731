"""Borders of the parts that a table of a database is read in."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from hoodie.exception import HoodieConfigException
from hoodie.utilities.sources.helpers.jdbc_partitions import PartitionOptions

FOUR = {"partitionColumn": "id", "lowerBound": "0", "upperBound": "100", "numPartitions": "4"}


def test_options_are_known_in_any_case_and_without_them_nothing_is_parted() -> None:
    wish = PartitionOptions.of({key.lower(): value for key, value in FOUR.items()} | {"fetchsize": "10"})
    assert wish == PartitionOptions("id", "0", "100", 4)
    assert PartitionOptions.of({"fetchsize": "10"}) is None
    assert PartitionOptions.of({"numPartitions": "8"}) is None


@pytest.mark.parametrize("missing", FOUR)
def test_some_of_the_options_without_the_others_are_refused(missing: str) -> None:
    given = {key: value for key, value in FOUR.items() if key != missing}
    with pytest.raises(
        HoodieConfigException, match=rf"without hoodie\.streamer\.jdbc\.extra\.options\.{missing}: give"
    ):
        PartitionOptions.of(given)


@pytest.mark.parametrize("number", ["0", "-1", "x", "1.5", "100001", "²"])
def test_a_number_of_parts_that_is_none_is_refused(number: str) -> None:
    with pytest.raises(HoodieConfigException, match="no whole number from 1 to 100,000"):
        PartitionOptions.of(FOUR | {"numPartitions": number})


@pytest.mark.parametrize(
    ("lower", "upper", "count", "borders"),
    [
        (0, 100, 4, [25, 50, 75]),
        (-10, 10, 3, [-4, 3]),
        (0, 2, 10, [1]),
        (5, 5, 4, []),
        (0, 10, 1, []),
        (0.0, 1.0, 4, [0.25, 0.5, 0.75]),
        (Decimal("0"), Decimal("3"), 2, [Decimal("1.5")]),
        (date(2026, 1, 1), date(2026, 1, 9), 2, [date(2026, 1, 5)]),
        (date(2026, 1, 1), date(2026, 1, 3), 9, [date(2026, 1, 2)]),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC), 2, [datetime(2026, 1, 1, 12, tzinfo=UTC)]),
    ],
)
def test_borders_are_as_far_from_each_other_as_they_can_be(lower: Any, upper: Any, count: int, borders: Any) -> None:
    assert PartitionOptions("c", "", "", count).borders(lower, upper) == borders


@pytest.mark.parametrize("value", ["a", True, b"a"])
def test_a_column_without_numbers_or_times_is_refused(value: Any) -> None:
    with pytest.raises(HoodieConfigException, match="partitionColumn = c has values of the type .*: choose a column"):
        PartitionOptions("c", "a", "b", 4).borders(value, value)


def test_bounds_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(HoodieConfigException, match="lowerBound = 9 is larger than upperBound = 1"):
        PartitionOptions("c", "9", "1", 4).borders(9, 1)

"""Parts of a table of a database that are read side by side, by the options of Spark's JDBC reader.

    partitionColumn=id  lowerBound=0  upperBound=100  numPartitions=4

    id < 25 or id is null    25 <= id < 50    50 <= id < 75    75 <= id

The bounds say where the parts meet; rows outside of them are read too.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import attrs

from hoodie.exception import HoodieConfigException
from hoodie.utilities.config.jdbc_source_config import EXTRA_OPTIONS

_COUNT: Final = "numPartitions"
_NAMES: Final = ("partitionColumn", "lowerBound", "upperBound", _COUNT)
_MOST: Final = 100_000


@attrs.frozen
class PartitionOptions:
    """The wish to read a table in parts.

    Attributes:
        column: The column that decides.
        lower: The end of the first part, about, as text.
        upper: The beginning of the last part, about, as text.
        count: The number of parts.
    """

    column: str
    lower: str
    upper: str
    count: int

    @classmethod
    def of(cls, extra: Mapping[str, str]) -> PartitionOptions | None:
        """The wish of options; None if they have none.

        Args:
            extra: The options, without their prefix. Case does not matter, as in Spark.

        Raises:
            HoodieConfigException: Some of the options are missing, or the number is none.
        """
        lowered = {key.lower(): value.strip() for key, value in extra.items()}
        given = {name: lowered[name.lower()] for name in _NAMES if lowered.get(name.lower())}
        if not set(given) - {_COUNT}:
            return None
        if missing := [name for name in _NAMES if name not in given]:
            raise HoodieConfigException(
                f"{', '.join(EXTRA_OPTIONS + name for name in given)} without "
                f"{', '.join(EXTRA_OPTIONS + name for name in missing)}: give all four of them to read a table in "
                "parts, or none"
            )
        count = given[_COUNT]
        if not (count.isascii() and count.isdigit() and 1 <= int(count) <= _MOST):
            raise HoodieConfigException(f"{EXTRA_OPTIONS}{_COUNT} = {count!r} is no whole number from 1 to {_MOST:,}")
        return cls(given["partitionColumn"], given["lowerBound"], given["upperBound"], int(count))

    def borders(self, lower: Any, upper: Any) -> list[Any]:
        """The values where one part ends and the next one begins, in order; none for a single part.

        Args:
            lower: The lower bound, of the type of the column's values.
            upper: The upper bound.

        Raises:
            HoodieConfigException: The bounds are no numbers, dates or times, or the lower one is larger.

            >>> PartitionOptions("id", "0", "100", 4).borders(0, 100)
            [25, 50, 75]
        """
        if not isinstance(lower, int | float | Decimal | date) or isinstance(lower, bool):
            raise HoodieConfigException(
                f"{EXTRA_OPTIONS}partitionColumn = {self.column} has values of the type {type(lower).__name__}: choose "
                "a column of numbers, dates or times"
            )
        if lower > upper:
            raise HoodieConfigException(
                f"{EXTRA_OPTIONS}lowerBound = {self.lower} is larger than upperBound = {self.upper}"
            )
        if isinstance(lower, date) and not isinstance(lower, datetime):
            days = (upper - lower).days
            count = min(self.count, days)
            return [lower + timedelta(days=days * number // count) for number in range(1, count)]
        if isinstance(lower, int):
            span = upper - lower
            count = min(self.count, span)
            return [lower + span * number // count for number in range(1, count)]
        if lower == upper:
            return []
        return [lower + (upper - lower) * number / self.count for number in range(1, self.count)]

"""Partition values from partition paths, as catalogs store them.

A catalog knows a partition by one text for each partition column; an extractor reads these texts out of the path. They
are not decoded: the value of the path ``day=2026%2F11`` is ``2026%2F11``, and that of null is
``__HIVE_DEFAULT_PARTITION__``. Hudi's clients of Hive metastores and of Glue write them like that as well; only its SQL
modes (``jdbc``, ``hiveql``) read ``hoodie.meta.sync.decode_partition``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from hoodie.common.util.class_loading import create_object
from hoodie.exception import HoodieConfigException, HoodieException, HoodieSyncException

EXTRACTOR_KEY = "hoodie.datasource.hive_sync.partition_extractor_class"
"""The property that names the extractor."""
_PACKAGE = "org.apache.hudi.hive."
_NUMBER = re.compile(r"[+-]?\d+")


class PartitionValueExtractor(ABC):
    """Reads the partition values out of a partition path. Subclass it for folders that the others cannot read::

        class YearAndMonth(PartitionValueExtractor):
            def extract_partition_values_in_path(self, partition_path):
                year, month = partition_path.split("-")
                return [year, month]

    A class of yours is named as ``package.module.Class``, and made without arguments. Different paths must give
    different values.

    Attributes:
        value_count: The number of values that every path gives; None if it depends on the path.
        form: The form of the paths that it reads, for messages; empty text for a class that takes any.

    Hudi: org.apache.hudi.sync.common.model.PartitionValueExtractor.
    """

    value_count: ClassVar[int | None] = None
    form: ClassVar[str] = ""

    @abstractmethod
    def extract_partition_values_in_path(self, partition_path: str) -> list[str]:
        """The partition values.

        Args:
            partition_path: The path below the table's folder, as the timeline has it; empty text in a table without
                partitions.

        Returns:
            One text for each partition column, in their order.

        Raises:
            ValueError: The path has another form.
        """


class NonPartitionedExtractor(PartitionValueExtractor):
    """No values, for tables without partitions.

    Hudi: org.apache.hudi.hive.NonPartitionedExtractor.
    """

    value_count = 0

    def extract_partition_values_in_path(self, partition_path: str) -> list[str]:
        """No values."""
        return []


class HiveStylePartitionValueExtractor(PartitionValueExtractor):
    """The text after the first ``=`` of the whole path: ``day=2026/11/14`` gives ``2026/11/14``.

    Hudi: org.apache.hudi.hive.HiveStylePartitionValueExtractor. Releases up to 1.2 refuse values with ``=``. Differs: a
    path with several named folders (``region=emea/day=7``) is refused, as it has the values of several columns.
    """

    value_count = 1
    form = "<column>=<value>"

    def extract_partition_values_in_path(self, partition_path: str) -> list[str]:
        """The value of one column."""
        _, separator, value = partition_path.partition("=")
        if not separator or any("=" in folder for folder in value.split("/")[1:]):
            raise ValueError
        return [value]


class SinglePartPartitionValueExtractor(PartitionValueExtractor):
    """The whole path with ``-`` for ``/``: ``2026/11/14`` gives ``2026-11-14``.

    Hudi: org.apache.hudi.hive.SinglePartPartitionValueExtractor.
    """

    value_count = 1

    def extract_partition_values_in_path(self, partition_path: str) -> list[str]:
        """The value of one column."""
        return [partition_path.replace("/", "-")]


class MultiPartKeysValueExtractor(PartitionValueExtractor):
    """One value for each folder, without the column's name: ``region=emea/2026`` gives ``emea`` and ``2026``.

    Hudi: org.apache.hudi.hive.MultiPartKeysValueExtractor. Releases up to 1.2 refuse values with ``=``.
    """

    def extract_partition_values_in_path(self, partition_path: str) -> list[str]:
        """The values of all columns."""
        if not partition_path:
            return []
        return [folder.partition("=")[2] if "=" in folder else folder for folder in _folders(partition_path)]


class SlashEncodedDayPartitionValueExtractor(PartitionValueExtractor):
    """A day of three folders, with or without names: ``2026/11/14`` and ``y=2026/m=11/d=14`` give ``2026-11-14``.

    Hudi: org.apache.hudi.hive.SlashEncodedDayPartitionValueExtractor. Differs: years are those from 1 to 9999.
    """

    value_count = 1
    form = "yyyy/MM/dd, such as 2026/11/14"

    def extract_partition_values_in_path(self, partition_path: str) -> list[str]:
        """The value of one column."""
        return [_time_of(partition_path, 3).date().isoformat()]


class SlashEncodedHourPartitionValueExtractor(PartitionValueExtractor):
    """An hour of four folders, with or without names: ``2026/11/14/07`` gives ``2026-11-14-07``.

    Hudi: org.apache.hudi.hive.SlashEncodedHourPartitionValueExtractor. Differs: years are those from 1 to 9999; hours
    that the clock of the process's time zone skips stay as they are, where Hudi gives them the value of the next hour.
    """

    value_count = 1
    form = "yyyy/MM/dd/HH, such as 2026/11/14/07"

    def extract_partition_values_in_path(self, partition_path: str) -> list[str]:
        """The value of one column."""
        return [_time_of(partition_path, 4).isoformat(sep="-", timespec="hours")]


_EXTRACTORS: Mapping[str, type[PartitionValueExtractor]] = {
    extractor.__name__: extractor
    for extractor in (
        NonPartitionedExtractor,
        HiveStylePartitionValueExtractor,
        SinglePartPartitionValueExtractor,
        MultiPartKeysValueExtractor,
        SlashEncodedDayPartitionValueExtractor,
        SlashEncodedHourPartitionValueExtractor,
    )
}


def create_partition_value_extractor(name: str) -> PartitionValueExtractor:
    """Create an extractor.

    Args:
        name: Hudi's class with or without its package, or a Python class as ``package.module.Class`` or
            ``package.module:Class``.

    Raises:
        HoodieConfigException: There is no such class, or it cannot be made.
    """
    found = _EXTRACTORS.get(name.removeprefix(_PACKAGE))
    if found is not None:
        return found()
    if "." not in name.replace(":", ".") or name.startswith("org.apache.hudi."):
        raise HoodieConfigException(
            f"{EXTRACTOR_KEY} = {name}: there is no such extractor: give one of {', '.join(_EXTRACTORS)}, or a class "
            "of yours as package.module.Class"
        )
    return create_object(name.replace(":", "."), EXTRACTOR_KEY, PartitionValueExtractor)


def infer_partition_value_extractor(
    partition_fields: Sequence[str], table_fields: Sequence[str], *, hive_style: bool
) -> str:
    """The name of the extractor of a table, if none is given.

    Args:
        partition_fields: The partition columns of the catalog's entry.
        table_fields: The table's partition fields.
        hive_style: Whether folders are ``<field>=<value>``.

    Source: org.apache.hudi.common.util.HoodieTableConfigUtils.inferPartitionValueExtractorClass. Differs: the number of
    the entry's columns counts too, so that one field of times (``yyyy/MM/dd``) can be three columns.
    """
    if not partition_fields:
        return NonPartitionedExtractor.__name__
    if len(partition_fields) > 1 or len(table_fields) > 1:
        return MultiPartKeysValueExtractor.__name__
    return (HiveStylePartitionValueExtractor if hive_style else SinglePartPartitionValueExtractor).__name__


def extract_values(extractor: PartitionValueExtractor, partition_path: str) -> tuple[str, ...]:
    """The partition values of a path.

    Args:
        extractor: The extractor.
        partition_path: The path below the table's folder.

    Raises:
        HoodieSyncException: The extractor cannot read the path, or a class of a user raised an error or gave something
            else than texts.
    """
    title = f"the partition values of {partition_path!r} by {type(extractor).__name__}"
    way_out = f"set {EXTRACTOR_KEY} to one that fits the table's folders, such as {_fitting(partition_path)}"
    try:
        values = extractor.extract_partition_values_in_path(partition_path)
    except HoodieException:
        raise
    except Exception as error:  # A class of the user's may raise anything.
        expected = f"it takes paths of the form {extractor.form}" if extractor.form else "it does not take this path"
        reason = f" ({type(error).__name__}: {error})" if str(error) else ""
        raise HoodieSyncException(f"{title}: {expected}{reason}; {way_out}") from error
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise HoodieSyncException(f"{title} are {values!r}: extract_partition_values_in_path must give a list of texts")
    return tuple(values)


def _fitting(partition_path: str) -> str:
    """The name of an extractor that reads a path."""
    if "/" not in partition_path:
        return (
            HiveStylePartitionValueExtractor if "=" in partition_path else SinglePartPartitionValueExtractor
        ).__name__
    return MultiPartKeysValueExtractor.__name__


def _folders(partition_path: str) -> list[str]:
    """The folders of a path; empty ones at its end do not count, as in Java."""
    return partition_path.rstrip("/").split("/") if partition_path.strip("/") else []


def _time_of(partition_path: str, folder_count: int) -> datetime:
    folders = _folders(partition_path)
    if len(folders) != folder_count:
        raise ValueError
    numbers = [folder.split("=")[1] if "=" in folder else folder for folder in folders]
    if not all(_NUMBER.fullmatch(number) for number in numbers):
        raise ValueError
    year, month, day, hour = map(int, [*numbers, "0"][:4])
    return datetime(year, month, day, hour)

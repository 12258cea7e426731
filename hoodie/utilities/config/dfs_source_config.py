"""Properties of sources that read the files of folders."""

from __future__ import annotations

import datetime
from typing import Final

import attrs

from hoodie.common.config.property import Parser, PropertyGroup, boolean, integer, property_field, text
from hoodie.common.util.date_pattern import DatePattern

_DFS: Final = "hoodie.streamer.source.dfs."
_DATED: Final = f"{_DFS}datepartitioned."
_PARQUET: Final = "hoodie.streamer.source.parquet.dfs."


def _pattern(value: str) -> DatePattern:
    if not value:
        raise ValueError
    pattern = DatePattern.of(value)
    pattern.check_readable()
    return pattern


def _date(value: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(value)
    except ValueError:
        raise ValueError from None


@attrs.frozen(kw_only=True, repr=False)
class DFSPathSelectorConfig(PropertyGroup):
    """The choice of files in a folder.

    Hudi: org.apache.hudi.utilities.config.DFSPathSelectorConfig.
    """

    root: str | None = property_field(f"{_DFS}root", text("a folder, a file or a glob of them"), None)
    """The folder, of any storage that tables can be in: local, `s3://`, `gs://`, `abfss://`. Files in folders below it
    are read too, but for names that begin with `.` or `_`, and empty files. hoodie also takes one file, and globs:
    `*`, `?`, `[a-z]`, `{a,b}` in a name, and `**` for any folders. A comma is part of the name."""
    selector: str | None = property_field("hoodie.streamer.source.input.selector", text("a class"), None)
    """The class that chooses files: DFSPathSelector (default), DatePartitionPathSelector, or `module:Class` of your
    own, a subclass of `hoodie.utilities.sources.helpers.dfs_path_selector.DFSPathSelector`."""
    min_age_ms: int = property_field(f"{_DFS}min.age.ms", integer(minimum=0), 0, is_ours=True)
    """Files that were changed less than this many milliseconds ago wait for a later round, by the clock of this
    machine. For producers that write a file under its final name bit by bit."""
    late_window_ms: int = property_field(
        f"{_DFS}late.window.ms", integer(minimum=0, maximum=86_400_000), 60_000, is_ours=True
    )
    """A file that appears after a newer one was read is read too, if its last change is at most this many milliseconds
    before the newest one that was read. For producers that rename files, for several of them whose clocks differ, and
    for listings that take a while. The names of the files in this window stand in the commit. If there are more than
    10,000, only the newest count, and the window is shorter. 0: only files of the very time of the newest one."""


@attrs.frozen(kw_only=True, repr=False)
class DFSSourceConfig(PropertyGroup):
    """The reading of files of folders. Hudi does not have it."""

    split_bytes: int = property_field(f"{_DFS}split.bytes", integer(minimum=0), 128 << 20, is_ours=True)
    """On Spark, a larger file of JSON, CSV or Parquet is read by several tasks, each of which has about so many bytes.
    Of rows with the same key and the same ordering value, one or the other task's may win. A compressed file, CSV whose
    values hold ends of lines, and CSV in another encoding than UTF-8, is read by one task. 0: so is every file."""


@attrs.frozen(kw_only=True, repr=False)
class DatePartitionPathSelectorConfig(PropertyGroup):
    """The choice of folders that are named for a day.

    Hudi: org.apache.hudi.utilities.config.DatePartitionPathSelectorConfig.
    """

    date_format: DatePattern = property_field(
        f"{_DATED}date.format", Parser(_pattern, "a pattern such as yyyy-MM-dd"), DatePattern.of("yyyy-MM-dd")
    )
    """The form of the dates in the names of folders, by Java's letters."""
    depth: int = property_field(f"{_DATED}selector.depth", integer(minimum=0, maximum=100), 0)
    """The level of the folders that are named for a day, as `2026-07-05` or `dt=2026-07-05`: 1 for those directly in
    the root. 0 means that there are none: the whole root is listed."""
    lookback_days: int = property_field(f"{_DATED}selector.lookback.days", integer(minimum=0, maximum=1_000_000), 2)
    """The number of days before the current one whose folders are listed too."""
    current_date: datetime.date | None = property_field(
        f"{_DATED}selector.currentdate", Parser(_date, "a date such as 2026-07-05"), None
    )
    """The current day; by default the day of this machine's clock and time zone."""
    parallelism: int = property_field(f"{_DATED}selector.parallelism", integer(minimum=1, maximum=1000), 20)
    """The number of folders that are listed at once."""


@attrs.frozen(kw_only=True, repr=False)
class ParquetDFSSourceConfig(PropertyGroup):
    """Parquet files of folders.

    Hudi: org.apache.hudi.utilities.config.ParquetDFSSourceConfig.
    """

    merges_schema: bool = property_field(
        f"{_PARQUET}merge.schema.enable",
        boolean(),
        True,
        alternatives=(f"{_PARQUET}merge_schema.enable",),
        since="0.15.0",
    )
    """Whether the rows have the columns of all files of a round. If false, the first file tells the columns, and others
    that only later files have are left out."""

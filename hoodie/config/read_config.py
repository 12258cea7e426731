"""Options of queries: Hudi's names of what `hoodie.read_table` has as arguments."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

import attrs

from hoodie.common.config.property import (
    PropertyGroup,
    all_keys,
    boolean,
    check_properties,
    choice,
    integer,
    property_field,
    read_group,
    text,
    to_property_value,
)
from hoodie.config.hudi_keys import load_hudi_keys
from hoodie.config.log_merge_config import HoodieLogMergeConfig
from hoodie.exception import HoodieConfigException
from hoodie.merge.merge_properties import MERGER_KEYS

logger = logging.getLogger(__name__)


class QueryType(StrEnum):
    """The kind of a query.

    Hudi: DataSourceReadOptions.QUERY_TYPE.
    """

    SNAPSHOT = "snapshot"
    INCREMENTAL = "incremental"
    READ_OPTIMIZED = "read_optimized"


class HollowCommitHandling(StrEnum):
    """The treatment of a pending commit that began before the end of an incremental query.

    Hudi: org.apache.hudi.common.table.timeline.TimelineUtils.HollowCommitHandling.
    """

    FAIL = "FAIL"
    BLOCK = "BLOCK"
    USE_TRANSITION_TIME = "USE_TRANSITION_TIME"


class IncrementalFormat(StrEnum):
    """The rows of an incremental query: the latest state of each row that was written, or changes.

    Hudi: DataSourceReadOptions.INCREMENTAL_FORMAT.
    """

    LATEST_STATE = "latest_state"
    CDC = "cdc"


class ChangeForm(StrEnum):
    """The form of changes: values of the table's types, or texts as Hudi gives them."""

    TYPED = "typed"
    HUDI = "hudi"


@attrs.frozen(kw_only=True, repr=False)
class HoodieReadConfig(PropertyGroup):
    """Kind, range and moment of a query.

    Hudi: org.apache.hudi.DataSourceReadOptions.
    """

    query_type: QueryType | None = property_field(
        "hoodie.datasource.query.type",
        # The value of the option in its old spelling.
        choice(QueryType, aliases={"REALTIME": QueryType.SNAPSHOT}),
        None,
        alternatives=("hoodie.datasource.view.type",),
    )
    """``snapshot``: the newest rows, or those at ``as.of.instant``. ``incremental``: the rows that commits of a range
    wrote, in their latest state. ``read_optimized``: of a copy-on-write table the same as ``snapshot``, of a
    merge-on-read table the rows of its base files alone. The default is ``snapshot``."""
    as_of: str | None = property_field("as.of.instant", text(), None)
    """Read the table as it was at this time, with the columns of that time: an instant, a date (``2026-01-02``), a time
    (``2026-01-02 10:15:30.123``; without a fraction, all of that second), or seconds or milliseconds since 1970."""
    begin: str | None = property_field("hoodie.datasource.read.begin.instanttime", text(), None)
    """An incremental query returns what was written after this time (excluded); ``earliest`` and ``000`` are before all
    commits."""
    end: str | None = property_field("hoodie.datasource.read.end.instanttime", text(), None)
    """An incremental query returns what was written up to this time (included); the default is the newest commit."""
    path_glob: str | None = property_field("hoodie.datasource.read.incr.path.glob", text(), None)
    """An incremental query reads only files whose path ends as this glob says, such as ``/year=2026/*``."""
    incremental_filters: str | None = property_field("hoodie.datasource.read.incr.filters", text(), None)
    """Conditions of SQL, separated by commas, that the rows of an incremental query fulfil; on Spark only."""
    incremental_format: IncrementalFormat = property_field(
        "hoodie.datasource.query.incremental.format", choice(IncrementalFormat), IncrementalFormat.LATEST_STATE
    )
    """Of an incremental query: ``latest_state``, the latest value of each row that was written; or ``cdc``, the
    changes of rows, deletes included."""
    change_form: ChangeForm | None = property_field("hoodie.read.changes.form", choice(ChangeForm), None)
    """The form of changes (``cdc``). ``typed``: ``op``, ``_hoodie_commit_time``, and ``before`` and ``after`` as
    structs of the table's types; ranges are those of other incremental queries, and miss nothing. ``hudi``: ``op``,
    ``ts_ms``, and ``before`` and ``after`` as JSON; a range of a batch read has requested times of commits, as in Hudi.
    The default is ``hudi`` where Spark is asked by Hudi's option, otherwise ``typed``. Hudi has no such option."""
    full_table_scan: bool | None = property_field(
        "hoodie.datasource.read.incr.fallback.fulltablescan.enable", boolean(), None
    )
    """What an incremental query does if it needs commits that were archived, or files that were cleaned. With true it
    reads the whole table as of its end and takes the rows of the range. With false, or without this option, it is an
    error."""
    hollow_commits: HollowCommitHandling = property_field(
        "hoodie.read.timeline.holes.resolution.policy",
        choice(HollowCommitHandling),
        HollowCommitHandling.FAIL,
        alternatives=("hoodie.datasource.read.handle.hollow.commit",),
    )
    """What an incremental query does if a commit of its range is pending, because a later one is completed or its end
    is given. FAIL: an error. BLOCK: the range ends before the pending commit. USE_TRANSITION_TIME: the range is of
    times at which commits were completed."""
    metadata_enable: bool = property_field("hoodie.metadata.enable", boolean(), True)
    """Whether a query uses the metadata table of a table that has one: its listing of files, its statistics and its
    indexes. With false, or if it is missing or damaged, folders are listed and footers read."""
    data_skipping: bool = property_field("hoodie.enable.data.skipping", boolean(), True)
    """Whether a query with a filter leaves out partitions and files by the statistics and indexes of the metadata
    table."""
    trusts_key_fields: bool = property_field("hoodie.read.trust.record.key.fields", boolean(), False)
    """Whether the record index answers filters on the record key fields, as it does for ``_hoodie_record_key``, and as
    in Hudi. Rows whose record key is not that of their columns are missed then: callers can give such keys, and
    ``MERGE INTO`` of Hudi can change a key field and leave the record key. Hudi has no such option."""
    driver_bytes: int | None = property_field("hoodie.spark.read.driver.max.bytes", integer(minimum=0), None)
    """Of `hoodie.spark.read`: the most stored bytes that the driver itself reads, at the call, if a filter names record
    keys or the query is incremental, of changes too. More bytes, or many rows, are left to Spark's scan or to tasks; 0
    leaves them all rows. Without it 512 MB if the driver is the only executor (master ``local``), and 64 MB on a
    cluster, whose executors read side by side. Hudi has no such option."""
    start_offset: str = property_field("hoodie.datasource.streaming.startOffset", text(), "earliest")
    """Where ``readStream.format("hoodie")`` begins if its checkpoint is new. ``earliest``: with all rows of the table.
    ``latest``: after the commits that are there. A time, or an instant: after it."""
    max_files_per_trigger: int | None = property_field(
        "hoodie.datasource.streaming.maxFilesPerTrigger", integer(minimum=1), None
    )
    """The most files that a batch of ``readStream.format("hoodie")`` reads. A batch has whole commits, and at least
    one, whatever it wrote. Without it a batch reads all that is there. Needs PySpark 4.2 or newer."""

    @classmethod
    def from_options(cls, options: Mapping[str, Any] | None) -> Self:
        """Parse options, with names in any case as Spark hands them over.

        Names of Hudi that change no row of a query (tuning, other features) are accepted. How log files are merged is
        for `HoodieLogMergeConfig`, and the user's record merger for the caller.

        Args:
            options: Hudi's names to values.

        Raises:
            HoodieConfigException: Names are unknown or values are not allowed; the message lists all of them.
        """
        check_properties(options, "options")
        own = {key.lower(): key for key in all_keys([cls])}
        known = {key.lower() for key in load_hudi_keys()} if options else set()
        of_logs = {key.lower() for key in (*all_keys([HoodieLogMergeConfig]), *MERGER_KEYS)}
        given: dict[str, str] = {}
        problems: list[str] = []
        ignored = []
        for key, value in (options or {}).items():
            name = str(key).lower()
            near = difflib.get_close_matches(name, own, n=1)
            if name in own:
                given[own[name]] = to_property_value(value)
            elif name in of_logs:
                continue
            elif name in known or (isinstance(key, str) and not near and not name.startswith("hoodie.")):
                ignored.append(str(key))
            else:
                problems.append(f"unknown read option {key}" + (f", did you mean {own[near[0]]}?" if near else ""))
        config = read_group(cls, given, problems)
        if problems:
            raise HoodieConfigException("; ".join(problems))
        if ignored:
            logger.info("options that change no row of a query are ignored: %s", ", ".join(ignored))
        return config

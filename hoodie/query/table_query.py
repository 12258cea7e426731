"""A query of a table, before the table is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from inspect import Parameter, signature
from typing import Any, Self, TypeAlias, TypedDict, TypeVar

import attrs
import pyarrow.compute as pc

from hoodie.common.config.property import to_property_value
from hoodie.common.table.timeline.instant_time import is_after, query_time
from hoodie.common.util.shown_value import shown_value
from hoodie.config.log_merge_config import HoodieLogMergeConfig
from hoodie.config.read_config import ChangeForm, HoodieReadConfig, IncrementalFormat, QueryType
from hoodie.exception import HoodieConfigException
from hoodie.merge.merge_properties import MERGER_KEYS
from hoodie.metadata.reader.metadata_listing import MetadataListingChoice
from hoodie.query.filter_tuples import filters_of_tuples

Filters: TypeAlias = pc.Expression | Sequence[Any] | str | None
"""A condition on rows: an expression; tuples as `pyarrow.parquet.read_table` takes them; or text, see
`hoodie.query.filter_text`. None or [] for all rows."""
QueryTime: TypeAlias = str | date | datetime
"""An instant, a date, or a time; see `hoodie.common.table.timeline.instant_time.query_time` for the forms."""

Function = TypeVar("Function", bound=Callable[..., Any])


class QueryArguments(TypedDict, total=False):
    """The arguments of a read, which `TableQuery.of` checks; `hoodie.read_table` says what they mean."""

    columns: str | Sequence[str] | None
    filters: Filters
    query_type: str
    query_format: str | None
    as_of: QueryTime | None
    begin: QueryTime | None
    end: QueryTime | None


class ReadArguments(QueryArguments, total=False):
    """The same with Hudi's read options."""

    options: Mapping[str, Any] | None


EARLIEST = "earliest"
_BEFORE_ALL = "000"
_FORMAT = "hoodie.datasource.query.incremental.format"
_OPTIONS = {
    "query_type": "hoodie.datasource.query.type",
    "as_of": "as.of.instant",
    "begin": "hoodie.datasource.read.begin.instanttime",
    "end": "hoodie.datasource.read.end.instanttime",
}


@attrs.frozen
class ChangeQuery:
    """The wish for changes instead of rows.

    Attributes:
        form: Their form.
        by_request: Whether the times of the range are requested times of commits, as in Hudi, in every version.
            Otherwise they are those of other incremental queries: in versions 8 and 9 times of completion.
        is_hudis: Whether Hudi's option asks, and no option chooses the form.
    """

    form: ChangeForm = ChangeForm.TYPED
    by_request: bool = False
    is_hudis: bool = False


@attrs.frozen
class QueryTimes:
    """The times of a query, as the caller gave them.

    Attributes:
        as_of: Read the table as it was at this time; None for now.
        begin: The begin of an incremental query: its rows were written after this time. `EARLIEST` for all.
        end: The end of an incremental query: its rows were written up to this time; None for the newest commit.
    """

    as_of: QueryTime | None = None
    begin: QueryTime | None = None
    end: QueryTime | None = None

    def check(self, query_type: QueryType) -> None:
        """Refuse times that are malformed or do not fit the query type.

        Args:
            query_type: The result.

        Raises:
            HoodieConfigException: They are, or do not.
        """
        is_incremental = query_type is QueryType.INCREMENTAL
        range_given = [name for name in ("begin", "end") if getattr(self, name) is not None]
        if is_incremental and self.as_of is not None:
            raise HoodieConfigException(
                "as_of (as.of.instant) with an incremental query: give end instead, the last commit of the range"
            )
        if is_incremental and self.begin is None:
            raise HoodieConfigException(
                "an incremental query needs begin (hoodie.datasource.read.begin.instanttime), the time after which "
                "rows were written: give an instant, a date, or 'earliest'"
            )
        if range_given and not is_incremental:
            raise HoodieConfigException(
                f"{' and '.join(range_given)} with a {query_type} query: give query_type='incremental' "
                "(hoodie.datasource.query.type) for the rows of a range of commits, or as_of for the table at a time"
            )
        for name in ("as_of", "begin", "end"):
            self._time(name, "UTC")

    def check_range(self, timezone: str) -> None:
        """Refuse a range that begins after its end.

        Args:
            timezone: The zone of the timeline. It decides the order of times with and without a zone.

        Raises:
            HoodieConfigException: The range begins after its end.
        """
        begin, end = self.begin_time(timezone), self.end_time(timezone)
        if begin is not None and end is not None and is_after(begin, end):
            raise HoodieConfigException(f"begin {str(self.begin)!r} is after end {str(self.end)!r}: exchange them")

    def as_of_time(self, timezone: str) -> str | None:
        """`as_of` as an instant time; None for now.

        Args:
            timezone: The zone of the timeline.
        """
        return self._time("as_of", timezone)

    def begin_time(self, timezone: str) -> str | None:
        """`begin` as an instant time; None for the beginning of the table.

        Args:
            timezone: The zone of the timeline.
        """
        time = self._time("begin", timezone)
        return None if time is not None and not time.strip("0") else time

    def end_time(self, timezone: str) -> str | None:
        """`end` as an instant time; None for the newest commit.

        Args:
            timezone: The zone of the timeline.
        """
        return self._time("end", timezone)

    def _time(self, name: str, timezone: str) -> str | None:
        value = getattr(self, name)
        if value is None:
            return None
        if name == "begin" and isinstance(value, str) and value.strip().lower() == EARLIEST:
            return _BEFORE_ALL
        try:
            if not isinstance(value, str | date):
                raise ValueError
            return query_time(value, timezone, any_digits=name != "as_of")
        except ValueError:
            raise HoodieConfigException(
                f"{name} ({_OPTIONS[name]}) is {shown_value(value)}, which is no time: give an instant such as "
                "20260102101530123, a date such as 2026-01-02, or a time such as 2026-01-02 10:15:30.123"
                + (f", or '{EARLIEST}'" if name == "begin" else "")
            ) from None


@attrs.frozen(eq=False)
class TableQuery:
    """A query whose arguments fit together.

    Attributes:
        columns: Names, in the order of the result; None for all.
        filters: The filters of rows; None for all.
        times: The states of the table, or the commits.
        config: The other options. The query type is also that of an argument.
        log_merge: The merge of log files.
        merger_class: The record merger of a table that merges by one; None if the caller names none.
        changes: The wish for changes; None for rows.
    """

    columns: tuple[str, ...] | None = None
    filters: pc.Expression | None = None
    times: QueryTimes = QueryTimes()
    config: HoodieReadConfig = attrs.field(factory=HoodieReadConfig)
    log_merge: HoodieLogMergeConfig = attrs.field(factory=HoodieLogMergeConfig)
    merger_class: str | None = None
    changes: ChangeQuery | None = None

    @property
    def query_type(self) -> QueryType:
        """The type of the query."""
        return self.config.query_type or QueryType.SNAPSHOT

    def as_on_spark(self) -> TableQuery:
        """The query with Hudi's form of changes where Hudi's option asks for them."""
        if self.changes is None or not self.changes.is_hudis:
            return self
        return attrs.evolve(self, changes=ChangeQuery(ChangeForm.HUDI, by_request=True))

    @property
    def listing_choice(self) -> MetadataListingChoice:
        """The choice of the listing of the table's files, for `TableSnapshot.load`."""
        return MetadataListingChoice(self.config.metadata_enable)

    @classmethod
    def of(
        cls,
        *,
        columns: str | Sequence[str] | None = None,
        filters: Filters = None,
        query_type: str = "snapshot",
        query_format: str | None = None,
        as_of: QueryTime | None = None,
        begin: QueryTime | None = None,
        end: QueryTime | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Check arguments and options together.

        Args:
            columns: Names, or one name.
            filters: See `Filters`.
            query_type: One of `QueryType`.
            query_format: The form of an incremental query, one of `IncrementalFormat`: ``cdc`` for changes in the
                table's types. Hudi's option for the same asks for Hudi's form.
            as_of: See `QueryTimes`.
            begin: See `QueryTimes`.
            end: See `QueryTimes`.
            options: Hudi's names for the same, and for more.

        Raises:
            HoodieConfigException: An argument or option is not allowed, or some contradict each other.
            HoodieNotSupportedException: An option asks for something that hoodie does not have.
        """
        config = HoodieReadConfig.from_options(options)
        if not isinstance(query_type, str) or query_type.lower() not in set(QueryType):
            raise HoodieConfigException(f"query_type {query_type!r}: hoodie has {', '.join(QueryType)}")
        asked_type = QueryType(query_type.lower())
        times = {"as_of": as_of, "begin": begin, "end": end}
        given = {"query_type": None if asked_type is QueryType.SNAPSHOT else asked_type, **times}
        for name, value in given.items():
            in_options = getattr(config, name)
            if value is not None and in_options is not None and value != in_options:
                raise HoodieConfigException(
                    f"{_OPTIONS[name]} = {str(in_options)!r}, and the argument says {str(value)!r}: give one of them"
                )
        query = cls(
            checked_columns(columns),
            to_expression(filters),
            QueryTimes(**{name: getattr(config, name) if time is None else time for name, time in times.items()}),
            attrs.evolve(config, query_type=config.query_type or asked_type),
            HoodieLogMergeConfig.from_options(options),
            _merger_of(options),
            _changes_of(query_format, config.incremental_format, config.change_form),
        )
        if query.changes is not None and query.query_type is not QueryType.INCREMENTAL:
            raise HoodieConfigException(
                f"changes ({'query_format' if query_format else _FORMAT} = cdc) with a {query.query_type} query: give "
                "query_type='incremental' (hoodie.datasource.query.type), and the begin of the range"
            )
        query.times.check(query.query_type)
        return query


def _changes_of(query_format: str | None, in_options: IncrementalFormat, form: ChangeForm | None) -> ChangeQuery | None:
    """The wish for changes, by the argument or by Hudi's option."""
    if query_format is None:
        asked = in_options
    elif not isinstance(query_format, str) or query_format.lower() not in set(IncrementalFormat):
        raise HoodieConfigException(f"query_format {query_format!r}: hoodie has {', '.join(IncrementalFormat)}")
    else:
        asked = IncrementalFormat(query_format.lower())
    if asked is IncrementalFormat.CDC:
        return ChangeQuery(
            form or ChangeForm.TYPED,
            by_request=form is ChangeForm.HUDI,
            is_hudis=query_format is None and form is None,
        )
    if in_options is IncrementalFormat.CDC:
        raise HoodieConfigException(
            f"{_FORMAT} = cdc, and the argument query_format says {query_format!r}: give one of them"
        )
    return None


def _merger_of(options: Mapping[str, Any] | None) -> str | None:
    """The user's record merger in options, as in those of writers. Hudi's own merger classes are left out."""
    values = [to_property_value(value) for key, value in (options or {}).items() if str(key).lower() in MERGER_KEYS]
    names = [name.strip() for value in values for name in value.split(",")]
    return next((name for name in names if name and not name.startswith("org.apache.hudi.")), None)


def shows_arguments(function: Function) -> Function:
    """A function that takes `QueryArguments` as ``**arguments``, with each of them in the signature that help shows.

    Args:
        function: It has ``storage_options`` as well.
    """
    own = signature(function)
    given = [each for each in own.parameters.values() if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
    taken = [each for each in own.parameters.values() if each.kind is Parameter.KEYWORD_ONLY]
    asked = [each for name, each in signature(TableQuery.of).parameters.items() if name not in own.parameters]
    function.__signature__ = own.replace(parameters=[*given, *asked, *taken])  # type: ignore[attr-defined]
    return function


def checked_columns(columns: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """The columns that a caller names, as a tuple; None for all.

    Raises:
        HoodieConfigException: A column is not a name.
    """
    if columns is None or isinstance(columns, str):
        return columns if columns is None else (columns,)
    if isinstance(columns, bytes) or not isinstance(columns, Iterable):
        raise HoodieConfigException(f"columns is {shown_value(columns)}: give a column's name, or a list of names")
    names = tuple(columns)
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise HoodieConfigException(f"columns has a name that is {shown_value(wrong[0])}: give names of columns")
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise HoodieConfigException(f"columns names {', '.join(twice)} more than once: name each column once")
    return names


def to_expression(filters: Filters) -> pc.Expression | None:
    """Filters in any form as an expression; None for all rows.

    Raises:
        HoodieConfigException: The filters are of another form.
    """
    if filters is None or isinstance(filters, pc.Expression):
        return filters
    if isinstance(filters, str):
        # Imported here: other filters need no parser, and start earlier without.
        from hoodie.query.filter_text import parse_filter

        return parse_filter(filters)
    if isinstance(filters, list | tuple) and not filters:
        return None
    return filters_of_tuples(filters)

"""The rows that commits of another Hudi table wrote since the last round.

A position is an instant: of version 1, the request time of the newest commit that was read; of version 2, its
completion time. Version 2 needs completion times in the table that is read, and keys of version 2 in the table that is
filled, so both have version 8 or later.

    commits, in order        c1  c2  c3  c4  c5 (pending)  c6
    position c1, 2 commits       [c2  c3]                        next position c3
    position c3                          [c4]                    request times: never past a pending commit

Completion times have no such gap: a pending commit comes later in their order.

Hudi: org.apache.hudi.utilities.sources.HoodieIncrSource and helpers.IncrSourceHelper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from hoodie.common.model.record_columns import META_COLUMNS, PARTITION_PATH_META
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.common.table.timeline.instant_time import is_after, is_before, is_instant_time, newest, oldest
from hoodie.config.read_config import HollowCommitHandling, HoodieReadConfig
from hoodie.exception import HoodieConfigException, HoodieIOException, HoodieReadFromSourceException
from hoodie.query.arrow_reader import plan_rows
from hoodie.query.commit_range import completion_of, last_archived, pending_writes
from hoodie.query.planner import narrowed
from hoodie.query.read_plan import ReadPlan
from hoodie.query.read_task import ReadTask, tasks_of
from hoodie.query.table_query import EARLIEST
from hoodie.utilities.config.hoodie_incr_source_config import HoodieIncrSourceConfig, MissingCheckpointStrategy
from hoodie.utilities.sources.checkpoint import Checkpoint, CheckpointVersion
from hoodie.utilities.sources.source import DecodedBatch, InputBatch, Source, SourceRead

REQUEST_TIME: Final = "resumeFromInstantRequestTime:"
"""The beginning of a given position that is a request time."""
COMPLETION_TIME: Final = "resumeFromInstantCompletionTime:"
"""The beginning of a given position that is a completion time."""
_STRATEGY = "hoodie.streamer.source.hoodieincr.missing.checkpoint.strategy"
_HOLES = ("hoodie.read.timeline.holes.resolution.policy", "hoodie.datasource.read.handle.hollow.commit")
_FULL_SCAN = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"
_FIRST_VERSION_OF_V2 = 8
_BEFORE_ALL = "00000000000000"


class HoodieIncrSource(Source):
    """The rows that commits of another table wrote, each once with its latest value; deleted rows do not come.

    Hudi: org.apache.hudi.utilities.sources.HoodieIncrSource. Differs: commits that are archived, or whose files are
    cleaned, are an error or are read as the table is now; they are never passed over. The holes policy
    ``USE_TRANSITION_TIME`` is refused.
    """

    def fetch(self, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        """See `Source.fetch`. The limit does not count; ``source.hoodieincr.num_instants`` does.

        Raises:
            HoodieConfigException: The position is no instant; or there is none, and no strategy.
            HoodieReadFromSourceException: Commits after the position were archived or cleaned.
            TableNotFoundException: There is no table at the path.
        """
        config = self.context.properties.read(HoodieIncrSourceConfig)
        if not config.path:
            raise HoodieConfigException(
                "HoodieIncrSource needs hoodie.streamer.source.hoodieincr.path, the folder of the table to read"
            )
        options = _read_options(config, self.context.properties)
        snapshot = TableSnapshot.load(config.path, self.context.storage_options)
        commits = _Commits(snapshot, options, writes_v2=self.context.table_version >= _FIRST_VERSION_OF_V2)
        begin = _begin(commits, config, checkpoint)
        following = commits.following(begin)
        if not following:
            version = CheckpointVersion.V2 if commits.is_v2 else CheckpointVersion.V1
            return InputBatch(checkpoint or Checkpoint(_BEFORE_ALL, version), details=_gauges(0, 0))
        chosen = following[: config.num_instants]
        takes_all = config.strategy is MissingCheckpointStrategy.READ_UPTO_LATEST_COMMIT
        takes_all = takes_all or options.get(_FULL_SCAN, "").lower() == "true"
        if begin is None or (takes_all and commits.is_archived_after(begin)):
            chosen = following
        try:
            plan = self._plan(config, commits.span(begin, chosen), options, is_snapshot=takes_all)
        except HoodieReadFromSourceException as error:
            if not takes_all or chosen == following:
                raise
            self.context.report(f"{error}; all rows up to the newest commit are read as they are now")
            chosen = following
            plan = self._plan(config, commits.span(begin, chosen), options, is_snapshot=True)
        kept = () if config.drop_all_meta_fields else (PARTITION_PATH_META,)
        columns = [name for name in plan.columns if name not in META_COLUMNS or name in kept]
        narrow = narrowed(plan, columns, None)
        left = len(following) - len(chosen)
        return InputBatch(
            commits.position_of(chosen[-1]),
            [IncrementalRead(config.path, task) for task in tasks_of(narrow)],
            narrow.result_schema,
            size_bytes=plan.size_bytes,
            backlog=left,
            details=_gauges(len(chosen), left),
        )

    def _plan(
        self, config: HoodieIncrSourceConfig, span: _Span, options: Mapping[str, Any], *, is_snapshot: bool
    ) -> ReadPlan:
        scan = {_FULL_SCAN: "true"} if is_snapshot else {}
        try:
            return plan_rows(
                config.path,
                storage_options=self.context.storage_options,
                query_type="incremental",
                begin=span.begin,
                end=span.end,
                filters=list(span.filters),
                options={**options, **scan},
            )
        except HoodieIOException as error:
            raise HoodieReadFromSourceException(
                f"HoodieIncrSource cannot read the rows of {config.path} after {span.begin}, up to {span.end}: "
                f"{error}. Set {_STRATEGY}=READ_UPTO_LATEST_COMMIT to read all rows that were written since, as they "
                "are now; or give --checkpoint with a later instant. Let the cleaner of that table keep more commits"
            ) from error


class IncrementalRead(SourceRead):
    """Some file slices of the table.

    Args:
        path: The folder of the table, for messages.
        task: The slices.
    """

    def __init__(self, path: str, task: ReadTask) -> None:
        self.path = path
        self.task = task

    def batches(self) -> Iterator[DecodedBatch]:
        """See `SourceRead.batches`.

        Raises:
            HoodieReadFromSourceException: Files were cleaned meanwhile, or cannot be read.
        """
        try:
            for batch in self.task.batches():
                yield DecodedBatch(batch)
        except HoodieIOException as error:
            raise HoodieReadFromSourceException(
                f"HoodieIncrSource: reading {self.path} failed: {error}. If the file was cleaned, the next round reads "
                "newer ones; let the cleaner of that table keep more commits"
            ) from error


@attrs.frozen
class _Begin:
    """The position of a round.

    Attributes:
        time: Commits after this time are read; None for all.
        is_request_time: Whether it is a request time.
    """

    time: str
    is_request_time: bool


@attrs.frozen
class _Span:
    """The arguments of an incremental query."""

    begin: str
    end: str
    filters: Sequence[tuple[str, str, Any]] = ()


class _Commits:
    """The completed commits of the table that is read, in the order of the positions.

    Args:
        snapshot: The table.
        options: The read options.
        writes_v2: Whether positions may have version 2.
    """

    def __init__(self, snapshot: TableSnapshot, options: Mapping[str, Any], *, writes_v2: bool) -> None:
        self.snapshot = snapshot
        self.has_completion_times = snapshot.active_timeline.layout.has_completion_times
        self.is_v2 = self.has_completion_times and writes_v2
        self._blocks = HoodieReadConfig.from_options(options).hollow_commits is HollowCommitHandling.BLOCK
        self._completed: list[HoodieInstant] | None = None

    def position_of(self, instant: HoodieInstant) -> Checkpoint:
        """The position after a commit."""
        if self.is_v2:
            return Checkpoint(completion_of(instant), CheckpointVersion.V2)
        return Checkpoint(instant.requested_time)

    def time_of(self, instant: HoodieInstant) -> str:
        """The time of a commit in the order of the positions."""
        return completion_of(instant) if self.is_v2 else instant.requested_time

    def following(self, begin: _Begin | None) -> list[HoodieInstant]:
        """The commits after a position, in order; with request times, those before the first pending one."""
        found = self._after(begin)
        pending = pending_writes(self.snapshot.active_timeline).first_instant
        if not self.is_v2 and self._blocks and pending is not None:
            found = [instant for instant in found if is_before(instant.requested_time, pending.requested_time)]
        return sorted(found, key=self.time_of)

    def is_archived_after(self, begin: _Begin) -> bool:
        """Whether commits after a position are in the archive only."""
        if not self.has_completion_times:
            return last_archived(self.snapshot, begin.time) is not None
        active = self.snapshot.active_timeline
        return any(not active.contains(instant.requested_time) for instant in self._after(begin))

    def span(self, begin: _Begin | None, chosen: Sequence[HoodieInstant]) -> _Span:
        """The query of the rows of commits that follow a position.

        A query by completion times asks for all commits of a range. Where the commits were chosen by request times, the
        range is the smallest that has them, and a filter leaves out the others.
        """
        if not self.has_completion_times:
            return _Span(EARLIEST if begin is None else begin.time, chosen[-1].requested_time)
        if begin is None:
            # A state in between may have no instant time.
            return _Span(EARLIEST, newest(map(completion_of, self._all())) or "")
        end = newest(map(completion_of, chosen)) or ""
        if self.is_v2 and not begin.is_request_time:
            return _Span(begin.time, end)
        first = oldest(map(completion_of, chosen)) or ""
        before = newest(time for time in map(completion_of, self._all()) if is_before(time, first))
        wanted = [instant.requested_time for instant in chosen]
        return _Span(before or EARLIEST, end, [("_hoodie_commit_time", "in", wanted)])

    def _after(self, begin: _Begin | None) -> list[HoodieInstant]:
        if begin is None:
            return self._all()
        if begin.is_request_time:
            return [instant for instant in self._all() if is_after(instant.requested_time, begin.time)]
        return [instant for instant in self._all() if is_after(completion_of(instant), begin.time)]

    def _all(self) -> list[HoodieInstant]:
        """All completed commits; without completion times, those of the active timeline."""
        if self._completed is None:
            active = self.snapshot.active_timeline.completed_writes()
            self._completed = list(active)
            if self.has_completion_times:
                archived = self.snapshot.archived_timeline.completed_writes()
                self._completed += [one for one in archived if not active.contains(one.requested_time)]
        return self._completed


def _begin(commits: _Commits, config: HoodieIncrSourceConfig, checkpoint: Checkpoint | None) -> _Begin | None:
    """The position of a round; None for all commits.

    Raises:
        HoodieConfigException: It is no instant, or of a kind that does not fit; or there is none, and no strategy.
    """
    if checkpoint is None or not checkpoint.position:
        return _begin_without_position(commits, config)
    text, version = checkpoint.position, checkpoint.version
    if text.startswith(REQUEST_TIME):
        begin = _Begin(text.removeprefix(REQUEST_TIME), True)
    elif text.startswith(COMPLETION_TIME):
        begin = _Begin(text.removeprefix(COMPLETION_TIME), False)
    elif checkpoint.is_given and commits.is_v2:
        raise HoodieConfigException(
            f"--checkpoint {text}: say which time it is. {REQUEST_TIME}{text} begins after the commit that was "
            f"requested then, {COMPLETION_TIME}{text} after the one that was completed then"
        )
    else:
        begin = _Begin(text, version is CheckpointVersion.V1)
    if not (is_instant_time(begin.time) or (begin.time.isdigit() and not begin.time.strip("0"))):
        raise HoodieConfigException(
            f"the position {text!r} is no instant of {config.path}: HoodieIncrSource reads positions such as "
            f"20260102101530123; give --checkpoint {REQUEST_TIME}INSTANT, or --ignore-checkpoint"
        )
    if not begin.is_request_time and not commits.has_completion_times:
        raise HoodieConfigException(
            f"the position {text!r} is a completion time, and {config.path} has a version below 8, which stores none: "
            f"give --checkpoint {REQUEST_TIME}INSTANT"
        )
    return begin if begin.time.strip("0") else None


def _begin_without_position(commits: _Commits, config: HoodieIncrSourceConfig) -> _Begin | None:
    match config.strategy:
        case None:
            raise HoodieConfigException(
                f"there is no position to read {config.path} from: set {_STRATEGY}=READ_UPTO_LATEST_COMMIT to begin "
                "with all of its rows, or =READ_LATEST to begin with its newest commit; or give --checkpoint "
                f"{REQUEST_TIME}INSTANT"
            )
        case MissingCheckpointStrategy.READ_UPTO_LATEST_COMMIT:
            return None
        case MissingCheckpointStrategy.READ_LATEST:
            *_, last = [None, None, *commits.following(None)][-2:]
            if last is None:
                return None
            before = str(int(commits.time_of(last)) - 1).zfill(len(commits.time_of(last)))
            return _Begin(before, not commits.is_v2)


def _read_options(config: HoodieIncrSourceConfig, properties: Mapping[str, str]) -> dict[str, str]:
    """The read options of the table.

    Raises:
        HoodieConfigException: An option has no value, or asks for another order of commits.
    """
    options: dict[str, str] = {_HOLES[0]: HollowCommitHandling.BLOCK.value}
    for key in (*_HOLES, _FULL_SCAN):
        if key in properties:
            options[_HOLES[0] if key in _HOLES else key] = properties[key]
    for part in filter(None, config.datasource_options.split(",")):
        key, found, value = part.partition("=")
        if not found:
            raise HoodieConfigException(
                f"hoodie.streamer.source.hoodieincr.data.datasource.options: {part.strip()!r} is not key=value"
            )
        options[key.strip()] = value.strip()
    if options[_HOLES[0]].upper() == HollowCommitHandling.USE_TRANSITION_TIME.value:
        raise HoodieConfigException(
            f"{_HOLES[0]} = {options[_HOLES[0]]}: HoodieIncrSource reads by request times or completion times; use "
            "BLOCK, which waits for pending commits, or FAIL; a table of version 8 or later needs neither"
        )
    return options


def _gauges(read: int, left: int) -> dict[str, int]:
    return {"numCommitsInProgress": read, "numUnprocessedCommits": left}

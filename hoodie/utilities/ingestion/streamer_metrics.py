"""The figures of a run of the streamer, by Hudi's names, and one log line for each round.

All names begin with the prefix of the metrics (by default the table's name) and ``.deltastreamer.``:

==================================  ================================================================================
duration                            milliseconds of the last round
success, failure                    1 and 0 after a round that ended well, 0 and 1 after one that failed
lastSync                            the end of the last good round, in milliseconds since 1970
numSuccessfulSyncs, numFailedSyncs  rounds of this run
numConsecutiveFailures              failed rounds since the last good one
heartbeatTimestampMs                the beginning of the last round, in milliseconds since 1970
totalSyncDurationMs                 milliseconds of all rounds of this run
actualSyncDurationMs                milliseconds of those that committed
errorTableCommitDuration            milliseconds in which errors were kept
kafkaDelayCount, ...                the figures of the source, zero too
rowsWritten, errorCount, backlog    of the last good round; hoodie only
==================================  ================================================================================
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

import attrs

from hoodie.client.metrics_publisher import create_reporter
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieIOException
from hoodie.metrics.reporters import MetricsReporter
from hoodie.storage.storage_path import file_name, normalise_path
from hoodie.utilities.streamer.sync_result import SyncResult

logger = logging.getLogger(__name__)

_GROUP: Final = "deltastreamer"
_ERRORS_STEP: Final = "errors"
_SHOWN_STEPS: Final = ("resume", "fetch", "write", _ERRORS_STEP, "commit", "sync")
_SHOWN_POSITION: Final = 300
_IDLE_LINE_SECONDS: Final = 60.0


@attrs.frozen
class Health:
    """The state of a run, for a monitor.

    Attributes:
        problems: The reasons why it is not healthy; none if it is.
    """

    problems: tuple[str, ...] = ()

    @property
    def is_healthy(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


class HoodieStreamerMetrics:
    """Counts and times the rounds of one table, and reports them. Thread safe; never fails a round.

    It is a `hoodie.utilities.ingestion.ingestion_service.RoundListener`.

    Args:
        config: The configuration of the writer: ``hoodie.metrics.*`` say where figures go.
        clock_ms: The time in milliseconds since 1970.
        monotonic: Seconds that never go back.

    Raises:
        HoodieConfigException: There is no such reporter, or it lacks a property that it needs.

    Hudi: org.apache.hudi.utilities.streamer.HoodieStreamerMetrics. Differs: figures are counted without a reporter too.
    """

    def __init__(
        self,
        config: HoodieWriteConfig,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.table_name: Final = config.table.table_name or file_name(normalise_path(config.base_path))
        self._prefix = (config.metrics.prefix or self.table_name).replace(".", "_")
        self._reporter: MetricsReporter | None = create_reporter(config.metrics) if config.metrics.is_on else None
        self._clock_ms = clock_ms
        self._monotonic = monotonic
        self._lock = threading.RLock()
        self._reporting = threading.Lock()
        self._values: dict[str, float] = dict.fromkeys(
            ("numSuccessfulSyncs", "numFailedSyncs", "numConsecutiveFailures", "totalSyncDurationMs",
             "actualSyncDurationMs"), 0
        )  # fmt: skip
        self._begun: float | None = None
        self._last_end = monotonic()
        self._last_error = ""
        self._told_idle = float("-inf")
        """The time at which a round without news was told in the log since the last news: once a minute."""

    # --- rounds -------------------------------------------------------------------------------------------------

    def round_begins(self) -> None:
        """A round begins. It is reported at its end."""
        with self._lock:
            self._begun = self._monotonic()
            self._values["heartbeatTimestampMs"] = self._clock_ms()

    def round_ends(self, result: SyncResult) -> None:
        """A round ended well.

        Args:
            result: Its outcome.
        """
        with self._lock:
            values, milliseconds = self._values, self._end()
            values["numSuccessfulSyncs"] += 1
            values |= {"numConsecutiveFailures": 0, "success": 1, "failure": 0, "lastSync": self._clock_ms()}
            values["actualSyncDurationMs"] += milliseconds if result.is_committed else 0
            values |= {"rowsWritten": result.rows, "errorCount": result.error_count}
            if result.backlog is not None:
                values["backlog"] = result.backlog
            if _ERRORS_STEP in result.seconds:
                values["errorTableCommitDuration"] = round(result.seconds[_ERRORS_STEP] * 1000)
            values |= result.details
            now = self._monotonic()
            is_news = result.is_committed or result.error_count > 0
            is_told = is_news or now - self._told_idle >= _IDLE_LINE_SECONDS
            if is_told:
                self._told_idle = float("-inf") if is_news else now
            number = int(values["numSuccessfulSyncs"] + values["numFailedSyncs"])
        logger.log(logging.INFO if is_told else logging.DEBUG, "%s", describe_round(result, self.table_name, number))
        self._report()

    def round_failed(self, error: BaseException) -> None:
        """A round failed.

        Args:
            error: The reason. Only the name of its class is kept.
        """
        with self._lock:
            self._end()
            self._last_error = type(error).__name__
            self._values["numFailedSyncs"] += 1
            self._values["numConsecutiveFailures"] += 1
            self._values |= {"success": 0, "failure": 1}
        self._report()

    def catalogs_synced(self, tool: str, seconds: float) -> None:
        """A catalog was told of the table.

        Args:
            tool: The simple name of the class, which names the figure: ``HiveSyncTool``.
            seconds: The time that it took.
        """
        with self._lock:
            self._values[tool] = round(seconds * 1000)

    def _end(self) -> int:
        """End the round; the milliseconds that it took."""
        now = self._monotonic()
        milliseconds = 0 if self._begun is None else round((now - self._begun) * 1000)
        self._begun, self._last_end = None, now
        self._values["duration"] = milliseconds
        self._values["totalSyncDurationMs"] += milliseconds
        return milliseconds

    # --- readers ------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, float]:
        """The figures as they are now, by their full names."""
        with self._lock:
            return {f"{self._prefix}.{_GROUP}.{name}": value for name, value in self._values.items()}

    def health(self, max_failures: int, max_age_seconds: float) -> Health:
        """The state of the run.

        Args:
            max_failures: So many failed rounds in a row are a problem.
            max_age_seconds: So is a last round that ended longer ago; or a start, if there was none.
        """
        with self._lock:
            failures = int(self._values["numConsecutiveFailures"])
            age = self._monotonic() - self._last_end
            is_running = self._begun is not None
        problems = []
        if failures >= max_failures:
            problems.append(
                f"{self.table_name}: {failures} rounds in a row failed, the last one by {self._last_error}; see the log"
            )
        if age > max_age_seconds:
            what = "the present one still runs" if is_running else "none has begun since"
            problems.append(f"{self.table_name}: no round has ended for {age:.0f} s; {what}")
        return Health(tuple(problems))

    def close(self) -> None:
        """Close the reporter; may be called twice."""
        reporter, self._reporter = self._reporter, None
        if reporter is not None:
            try:
                reporter.close()
            except Exception as error:
                logger.warning("the metrics reporter could not be closed: %s", error)

    def _report(self) -> None:
        # One at a time, so that older figures never come after newer ones.
        with self._reporting:
            reporter = self._reporter
            if reporter is None:
                return
            try:
                reporter.report(self.snapshot())
            except HoodieIOException as error:
                logger.warning("the figures of the streamer could not be reported: %s", error)
            except Exception:
                logger.warning("the figures of the streamer could not be reported", exc_info=True)


def describe_round(result: SyncResult, table_name: str, number: int) -> str:
    """The log line of a round.

    Args:
        result: Its outcome.
        table_name: The table.
        number: The number of the round in this run.

        >>> describe_round(SyncResult(position_before="t,0:7", position_after="t,0:7", seconds={"total": 0.02}), "t", 3)
        'round 3 of t: nothing new in 0.02 s; position t,0:7'
    """
    size = "" if not result.size_bytes else f" ({_megabytes(result.size_bytes)})"
    took = f"{result.seconds.get('total', 0.0):.2f} s"
    steps = [f"{name} {result.seconds[name]:.2f}" for name in _SHOWN_STEPS if name in result.seconds]
    if result.is_committed:
        what = f"{result.rows:,} {'row' if result.rows == 1 else 'rows'}{size} in commit {result.instant_time}, {took}"
        what += f" ({', '.join(steps)})" if steps else ""
    else:
        what = f"nothing new in {took}"
    parts = [f"round {number} of {table_name}: {what}"]
    if result.error_count:
        parts.append("1 error" if result.error_count == 1 else f"{result.error_count:,} errors")
    before, after = _shown(result.position_before), _shown(result.position_after)
    if before == after:
        parts += [] if after is None else [f"position {after}"]
    else:
        parts.append(f"position {'none' if before is None else before} -> {after}")
    if result.backlog is not None:
        parts.append(f"backlog {result.backlog:,}")
    if result.service_errors:
        parts.append(f"{'after the commit: ' if result.is_committed else ''}{'; '.join(result.service_errors)}")
    return "; ".join(parts)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size:,} bytes"


def _shown(position: str | None) -> str | None:
    if position is None or len(position) <= _SHOWN_POSITION:
        return position
    return f"{position[: _SHOWN_POSITION - 3]}..."

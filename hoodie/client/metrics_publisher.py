"""Compute Hudi's metrics from the steps of a client's calls and from their commits, and report them.

Hudi: org.apache.hudi.metrics.HoodieMetrics, org.apache.hudi.metrics.MetricsReporterFactory. Differs: metrics are
reported at the end of each call, not on a timer.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from hoodie.callback.write_commit_callback import HoodieWriteCommitCallbackMessage
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.config.metrics_config import REPORTER_TYPES, HoodieMetricsConfig, parse_labels
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieException, HoodieIOException
from hoodie.metrics.metrics import StepDuration
from hoodie.metrics.progress import ProgressListener
from hoodie.metrics.reporters import (
    ConsoleReporter,
    JsonLinesReporter,
    MetricsReporter,
    PrometheusReporter,
    PushGatewayReporter,
)

logger = logging.getLogger(__name__)

_TYPE_KEY = "hoodie.metrics.reporter.type"
_AFTER_COMMIT = "post-commit"
_DURATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "clean": "clean.duration",
        "archive": "archive.duration",
        "roll back": "rollback.duration",
        "tag location": "index.lookup.duration",
        "update index": "index.update.duration",
        "reconcile with markers": "finalize.duration",
    }
)
"""Step -> Hudi's name for its duration."""


def commit_gauges(action: str, metadata: HoodieCommitMetadata) -> dict[str, float]:
    """The metrics of a commit, under Hudi's names.

    Args:
        action: ``commit`` or ``replacecommit``.
        metadata: The metadata of the commit.
    """
    runtimes = [stat.runtime_stats for stat in metadata.write_stats if stat.runtime_stats is not None]
    figures = {
        "totalPartitionsWritten": metadata.total_partitions_written,
        "totalFilesInsert": metadata.total_files_inserted,
        "totalFilesUpdate": metadata.total_files_updated,
        "totalRecordsWritten": metadata.total_records_written,
        "totalUpdateRecordsWritten": metadata.total_updates,
        "totalInsertRecordsWritten": metadata.total_inserts,
        "totalRecordsDeleted": metadata.total_deletes,
        "totalBytesWritten": metadata.total_bytes_written,
        "totalScanTime": sum(runtime.total_scan_time for runtime in runtimes),
        "totalCreateTime": sum(runtime.total_create_time for runtime in runtimes),
        "totalUpsertTime": sum(runtime.total_upsert_time for runtime in runtimes),
    }
    found = {f"{action}.{name}": float(value) for name, value in figures.items()}
    return found | {"finalize.numFilesFinalized": float(sum(1 for _ in metadata.write_stats))}


def step_gauges(steps: Iterable[StepDuration]) -> dict[str, float]:
    """The durations of steps, in milliseconds: under Hudi's name where it has one, and always ``step.<name>.duration``.

    Args:
        steps: The steps of one call; durations of steps with the same name are added up.
    """
    found: dict[str, float] = {}

    def add(name: str, value: float) -> None:
        found[name] = found.get(name, 0.0) + value

    for step in steps:
        milliseconds = round(step.seconds * 1000, 3)
        add(f"step.{re.sub('[^0-9A-Za-z]+', '_', step.name)}.duration", milliseconds)
        if step.name in _DURATIONS:
            add(_DURATIONS[step.name], milliseconds)
        match step.name:
            case "clean":
                add("clean.numFilesDeleted", step.files or 0)
            case "archive":
                add("archive.numInstantsArchived", step.records or 0)
            case "delete the files":
                add("rollback.numFilesDeleted", step.files or 0)
    return found


class MetricsPublisher(ProgressListener):
    """Listens to a client's calls, and reports their metrics when each call ends; never fails.

    It is a `hoodie.table.action.listeners.CompletionListener` too: what a call completed is part of its metrics.

    Args:
        config: The writer's configuration.
        steps: Returns the steps that have ended.
        table_name: Returns the table's name; called when the configuration has no prefix and there was no commit yet.

    Raises:
        HoodieConfigException: There is no such reporter, or it lacks a property that it needs.
    """

    def __init__(
        self, config: HoodieWriteConfig, steps: Callable[[], tuple[StepDuration, ...]], table_name: Callable[[], str]
    ) -> None:
        self._steps = steps
        self._table_name = table_name
        self._told: tuple[StepDuration, ...] = ()
        self._prefix = (config.metrics.prefix or config.table.table_name or "").replace(".", "_")
        self._commit: dict[str, float] = {}
        self._action = ""
        self._reporter = create_reporter(config.metrics) if config.metrics.is_on else None

    @property
    def is_on(self) -> bool:
        """Whether metrics are reported."""
        return self._reporter is not None

    def completed(self, message: HoodieWriteCommitCallbackMessage) -> None:
        """Note that the current call completed a commit.

        Args:
            message: The commit. The table's name is the prefix of the metrics where the configuration has none. The
                action is ``commit``, ``deltacommit`` or ``replacecommit``; ``compaction`` of one that was asked for.
        """
        self._prefix = self._prefix or message.table_name.replace(".", "_")
        self._action = message.commit_action_type
        self._commit = commit_gauges(self._action, message.metadata)

    def take_failures(self) -> list[str]:
        """None: what fails is only logged."""
        return []

    def end(self, summary: str) -> None:
        """Report the metrics of the call."""
        if self._reporter is not None:
            with _errors_logged("the metrics of a call could not be reported; the table is not affected"):
                self._reporter.report(self._gauges())

    def close(self) -> None:
        """Close the reporter."""
        if self._reporter is not None:
            with _errors_logged("the metrics reporter could not be closed"):
                self._reporter.close()

    def _gauges(self) -> dict[str, float]:
        steps = self._steps()
        known = len(self._told)
        is_continued = all(one is other for one, other in zip(steps, self._told, strict=False)) and len(steps) >= known
        gauges = step_gauges(steps[known:] if is_continued else steps)
        self._told = steps
        if self._commit:
            milliseconds = sum(step.seconds for step in steps if step.depth == 0 and step.name != _AFTER_COMMIT) * 1000
            gauges |= self._commit
            gauges[f"{self._action}.duration"] = round(milliseconds, 3)
            gauges[f"{self._action}.commitTime"] = round(time.time() * 1000 - milliseconds)
            self._commit = {}
        prefix = self._name_prefix() if gauges else ""
        return {f"{prefix}.{name}" if prefix else name: value for name, value in gauges.items()}

    def _name_prefix(self) -> str:
        if not self._prefix:
            try:
                self._prefix = self._table_name().replace(".", "_")
            except HoodieException as error:
                logger.warning("the metrics of a call are reported without the table's name: %s", error)
        return self._prefix


@contextmanager
def _errors_logged(problem: str) -> Iterator[None]:
    """Log errors as warnings, with the traceback unless storage or a network failed."""
    try:
        yield
    except HoodieIOException as error:
        logger.warning("%s: %s", problem, error)
    except Exception:
        logger.warning("%s", problem, exc_info=True)


def create_reporter(config: HoodieMetricsConfig) -> MetricsReporter | None:
    """The reporter that the properties name; None if it reports nothing.

    Args:
        config: The properties.

    Raises:
        HoodieConfigException: There is no such reporter, or it lacks a property that it needs.
    """
    kind = (config.reporter_type or "").upper()
    if config.missing_reporter is None and kind not in REPORTER_TYPES:
        raise HoodieConfigException(
            f"{_TYPE_KEY} = {config.reporter_type}: there is no such reporter; give one of {', '.join(REPORTER_TYPES)}"
        )
    if config.missing_reporter is not None or kind == "INMEMORY":
        return None
    if kind == "CONSOLE":
        return ConsoleReporter()
    if kind == "JSON_LINES":
        if config.json_path is None:
            raise HoodieConfigException(f"{_TYPE_KEY} = JSON_LINES needs hoodie.metrics.json.path: give a file")
        return JsonLinesReporter(config.json_path)
    if kind == "PROMETHEUS":
        try:
            return PrometheusReporter(config.prometheus_port)
        except OSError as error:
            logger.warning(
                "metrics are not served: port %d (hoodie.metrics.prometheus.port) cannot be opened: %s",
                config.prometheus_port, error,
            )  # fmt: skip
            return None
    suffix = f"-{secrets.randbelow(2**31)}" if config.pushgateway_random_suffix else ""
    return PushGatewayReporter(
        f"{config.pushgateway_host}:{config.pushgateway_port}",
        f"{config.pushgateway_job_name}{suffix}",
        parse_labels(config.pushgateway_labels) if config.pushgateway_labels else {},
        config.pushgateway_delete_on_shutdown,
    )

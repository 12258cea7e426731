"""Several tables in one command: a file of common properties, and a file for each table.

Hudi: org.apache.hudi.utilities.streamer.HoodieMultiTableStreamer. Differs: tables run side by side, continuous
ones too; a table that fails does not stop the others, and the command fails at the end.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from typing import Any

import attrs

from hoodie.exception import HoodieConfigException, HoodieException
from hoodie.threads import ThreadPool
from hoodie.utilities.config.streamer_properties import PREFIX, StreamerProperties
from hoodie.utilities.ingestion.http_endpoint import MetricsEndpoint
from hoodie.utilities.ingestion.streamer_metrics import Health
from hoodie.utilities.streamer.arguments import parse_arguments
from hoodie.utilities.streamer.dry_run import DryRun
from hoodie.utilities.streamer.hoodie_streamer import HoodieStreamer
from hoodie.utilities.streamer.run_options import load_properties, read_properties
from hoodie.utilities.streamer.streamer_config import StreamerConfig
from hoodie.utilities.streamer.sync_result import SyncResult

logger = logging.getLogger(__name__)

_INGESTION = f"{PREFIX}ingestion."
_REGISTRY = f"{PREFIX}schemaprovider.registry."
_CONFIG_SUFFIX = "_config.properties"
_ORDERING = "ts"
"""The ordering field that Hudi's multi-table streamer takes where none is named."""


@attrs.frozen(eq=False)
class TableRun:
    """The run of one table.

    Attributes:
        name: ``database.table``.
        config: The flags.
        properties: The properties of the table and the common ones.
    """

    name: str
    config: StreamerConfig
    properties: StreamerProperties


@attrs.frozen
class TableOutcome:
    """The outcome of one table.

    Attributes:
        name: ``database.table``.
        result: The last round; None if there was none.
        dry_run: The next round, with ``--dry-run``.
        error: The reason why the table failed; None if it did not.
    """

    name: str
    result: SyncResult | None = None
    dry_run: DryRun | None = None
    error: Exception | None = None


class HoodieMultiTableStreamer:
    """Runs the streamers of several tables side by side.

    Args:
        runs: The tables.
        parallelism: The most tables that run at once; None for all, which continuous mode needs.
        engine_context: See `HoodieStreamer`.
    """

    def __init__(self, runs: Sequence[TableRun], parallelism: int | None = None, engine_context: Any = None) -> None:
        if not runs:
            raise HoodieConfigException(f"no table: name some in {_INGESTION}tablesToBeIngested")
        if any(run.config.continuous for run in runs):
            parallelism = len(runs)
        self._runs = list(runs)
        self._parallelism = min(len(runs), parallelism or len(runs))
        self._engine_context = engine_context
        self._lock = threading.Lock()
        self._running: list[HoodieStreamer] = []
        self._begun: dict[str, HoodieStreamer] = {}
        self._failed: dict[str, str] = {}
        self._is_stopping = False

    def sync(self) -> list[TableOutcome]:
        """Run all tables to their end.

        Returns:
            One outcome for each table, in the order of the tables.
        """
        endpoint = self._endpoint()
        pool = ThreadPool(self._parallelism, "hoodie-streamer-table")
        outcomes: dict[str, TableOutcome] = {}
        try:
            futures = {pool.submit(self._run, run): run for run in self._runs}
            for future in as_completed(futures):
                outcome = future.result()
                outcomes[outcome.name] = outcome
        except BaseException:
            self.shutdown_gracefully()
            raise
        finally:
            pool.shutdown(wait=True)
            if endpoint is not None:
                endpoint.close()
        return [outcomes[run.name] for run in self._runs]

    @property
    def metrics(self) -> Mapping[str, float]:
        """The gauges of all tables that were begun: Hudi's name -> newest value.

        Names of tables in several databases have the database and the table before them: ``d.trips.trips...``.
        """
        with self._lock:
            begun = dict(self._begun)
        tables = Counter(run.config.table_name for run in self._runs)
        alike = {run.name for run in self._runs if tables[run.config.table_name] > 1}
        return {
            f"{name}.{gauge}" if name in alike else gauge: value
            for name, streamer in begun.items()
            for gauge, value in streamer.metrics.items()
        }

    def health(self) -> Health:
        """The state of all tables that run, and of those that failed."""
        with self._lock:
            running, failed = list(self._running), dict(self._failed)
        problems = [f"{name}: ended by {error}; see the log" for name, error in failed.items()]
        return Health((*problems, *(problem for streamer in running for problem in streamer.health().problems)))

    def _endpoint(self) -> MetricsEndpoint | None:
        """The endpoint that serves all tables; None if the flags ask for none."""
        address = next((run.config.metrics_address for run in self._runs if run.config.metrics_address), None)
        if address is None:
            return None
        endpoint = MetricsEndpoint(address, lambda: self.metrics, self.health)
        endpoint.start()
        return endpoint

    def shutdown_gracefully(self) -> None:
        """Let the present round of each table be its last one; tables that wait are not begun."""
        # A signal may come while this thread has the lock, so none is taken here.
        self._is_stopping = True
        for streamer in list(self._running):
            streamer.shutdown_gracefully()

    @property
    def is_stopping(self) -> bool:
        """Whether `shutdown_gracefully` was called."""
        return self._is_stopping

    def _run(self, run: TableRun) -> TableOutcome:
        if self._is_stopping:
            return TableOutcome(run.name)
        try:
            config = attrs.evolve(run.config, metrics_address=None)
            streamer = HoodieStreamer(config, self._engine_context, run.properties.given)
            with self._lock:
                self._running.append(streamer)
                self._begun[run.name] = streamer
            if self._is_stopping:
                streamer.shutdown_gracefully()
            try:
                if run.config.dry_run:
                    return TableOutcome(run.name, dry_run=streamer.dry_run())
                return TableOutcome(run.name, streamer.sync())
            finally:
                with self._lock:
                    self._running.remove(streamer)
        except Exception as error:
            if isinstance(error, HoodieException):
                logger.error("%s failed: %s", run.name, error)
            else:
                logger.exception("%s failed", run.name)
            with self._lock:
                self._failed[run.name] = type(error).__name__
            return TableOutcome(run.name, error=error)


def parse_multi_arguments(
    arguments: Sequence[str], say: Callable[[str], None] = lambda line: None
) -> tuple[list[TableRun], int | None]:
    """Read a command line of the multi-table streamer.

    Args:
        arguments: The words after ``hoodie streamer multi``: Hudi's flags, and ``--parallelism N``.
        say: Takes lines for the user.

    Returns:
        The tables, and the most that run at once.

    Raises:
        HoodieConfigException: Flags or files are missing or wrong.
    """
    words = list(arguments)
    prefix = _taken(words, "--base-path-prefix")
    folder = _taken(words, "--config-folder")
    parallelism = _taken(words, "--parallelism")
    missing = [
        flag for flag, value in (("--base-path-prefix", prefix), ("--config-folder", folder)) if not value
    ] + ([] if any(word.partition("=")[0] == "--props" for word in words) else ["--props"])  # fmt: skip
    if missing:
        raise HoodieConfigException(f"hoodie streamer multi needs {' and '.join(missing)}")
    if parallelism is not None and (not parallelism.isdigit() or int(parallelism) < 1):
        raise HoodieConfigException(f"--parallelism {parallelism}: must be a whole number, at least 1")
    assert prefix is not None and folder is not None
    prefix, folder = prefix.rstrip("/"), folder.rstrip("/")
    common = parse_arguments(["--target-base-path", prefix, *words], say)
    properties = load_properties(common)
    names = [name.strip() for name in properties.get(f"{_INGESTION}tablesToBeIngested", "").split(",") if name.strip()]
    if len(set(names)) != len(names):
        raise HoodieConfigException(f"{_INGESTION}tablesToBeIngested names a table twice: {', '.join(names)}")
    runs = [_table_run(name, common, properties, prefix, folder) for name in names]
    return runs, None if parallelism is None else int(parallelism)


def _table_run(name: str, common: StreamerConfig, properties: StreamerProperties, prefix: str, folder: str) -> TableRun:
    database, _, table = name.rpartition(".")
    database = database or "default"
    named = properties.get(f"{_INGESTION}{database}.{table}.configFile")
    path = named or f"{folder}/{database}_{table}{_CONFIG_SUFFIX}"
    own = properties.with_(read_properties(path, common.storage, f"the file of {name}"))
    base_path = own.get(f"{_INGESTION}targetBasePath") or f"{prefix}/{database}/{table}"
    transformers = own.get(f"{PREFIX}transformer.class")
    config = attrs.evolve(
        common,
        target_base_path=base_path,
        target_table=table,
        props=None,
        hoodie_conf={},
        source_ordering_fields=common.source_ordering_fields or _ORDERING,
        transformer_classes=tuple(one.strip() for one in transformers.split(",")) if transformers else (
            common.transformer_classes
        ),
    )  # fmt: skip
    given = dict(own.given)
    given.setdefault("hoodie.database.name", database)
    if (common.schema_provider_class or "").endswith("SchemaRegistryProvider"):
        given |= _registry_urls(own, name)
    return TableRun(f"{database}.{table}", config, StreamerProperties(given))


def _registry_urls(properties: StreamerProperties, name: str) -> Mapping[str, str]:
    """The addresses of the schemas of a table's topic, where they are not given."""
    found = {}
    for key, suffix_key in (("url", "sourceUrlSuffix"), ("targetUrl", "targetUrlSuffix")):
        if properties.get(_REGISTRY + key) is not None:
            continue
        base, topic = properties.get(_REGISTRY + "baseUrl"), properties.get(f"{PREFIX}source.kafka.topic")
        suffix = properties.get(_REGISTRY + "urlSuffix") or properties.get(_REGISTRY + suffix_key)
        if not (base and topic and suffix):
            raise HoodieConfigException(
                f"{name}: give {_REGISTRY}{key}, or {_REGISTRY}baseUrl with urlSuffix or {suffix_key} and the topic"
            )
        found[_REGISTRY + key] = f"{base}{topic}{suffix}"
    return found


def _taken(words: list[str], flag: str) -> str | None:
    """The value of a flag, which is taken out of the words; None without it."""
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name != flag:
            continue
        if equals:
            del words[at]
            return value
        if at + 1 == len(words):
            raise HoodieConfigException(f"{flag} lacks its value")
        value = words[at + 1]
        del words[at : at + 2]
        return value
    return None

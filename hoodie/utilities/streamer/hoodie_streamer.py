"""The streamer: makes the parts of a run of flags and properties, and runs it once or continuously.

Hudi: org.apache.hudi.utilities.streamer.HoodieStreamer, org.apache.hudi.utilities.deltastreamer.HoodieDeltaStreamer.
Differs: it runs without Spark by default.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from hoodie.client.open_or_create import find_writable_table
from hoodie.common.table.table_definition import DEFAULT_TABLE_VERSION
from hoodie.common.util.class_loading import create_object
from hoodie.config.table_options import version_of
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException
from hoodie.spark import load
from hoodie.storage.storage_path import normalise_path
from hoodie.utilities.checkpointing.initial_checkpoint_provider import make_initial_checkpoint_provider
from hoodie.utilities.config.error_table_config import HoodieErrorTableConfig
from hoodie.utilities.config.offset_validator_config import OffsetValidatorConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.config.streamer_run_config import HoodieStreamerConfig
from hoodie.utilities.ingestion.http_endpoint import MetricsEndpoint
from hoodie.utilities.ingestion.ingestion_service import IngestionService
from hoodie.utilities.ingestion.streamer_metrics import Health, HoodieStreamerMetrics
from hoodie.utilities.ingestion.termination_strategy import create_termination_strategy
from hoodie.utilities.schema.schema_providers import make_schema_provider
from hoodie.utilities.sources.kafka_source import KafkaSource
from hoodie.utilities.sources.source import SourceContext
from hoodie.utilities.sources.sources import make_source
from hoodie.utilities.streamer.checkpoint_utils import check_source_id
from hoodie.utilities.streamer.dry_run import DryRun, look_ahead
from hoodie.utilities.streamer.error_table import create_error_writer
from hoodie.utilities.streamer.local_engine import LocalStreamerEngine
from hoodie.utilities.streamer.offset_validator import SparkKafkaOffsetValidator
from hoodie.utilities.streamer.run_options import (
    load_properties,
    log_properties,
    validates_offsets,
    write_config_of,
)
from hoodie.utilities.streamer.stream_sync import StreamerRun, StreamSync
from hoodie.utilities.streamer.streamer_config import StreamerConfig
from hoodie.utilities.streamer.streamer_engine import StreamerEngine
from hoodie.utilities.streamer.sync_result import SyncResult
from hoodie.utilities.streamer.tombstone_rules import TombstoneRules
from hoodie.utilities.streamer.tombstones import check_tombstones, with_record_key
from hoodie.utilities.transform.transformers import make_transformer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)


class HotUpdate(Protocol):
    """A user's class of ``--config-hot-update-strategy-class``."""

    def update(self, properties: Mapping[str, str]) -> Mapping[str, Any] | None:
        """New properties for the next rounds.

        Args:
            properties: The present ones.

        Returns:
            Properties to change; None, or none of them, for no change.
        """


class HoodieStreamer:
    """Brings a source into a table: `sync` runs one round, or rounds until somebody ends them.

        >>> from hoodie.utilities.streamer import HoodieStreamer, StreamerConfig
        >>> config = StreamerConfig(target_base_path="/data/trips", source_class="JsonDFSSource")
        >>> properties = {
        ...     "hoodie.streamer.source.dfs.root": "/data/in",
        ...     "hoodie.datasource.write.recordkey.field": "id",
        ... }
        >>> HoodieStreamer(config, properties=properties).sync()  # doctest: +SKIP

    Args:
        config: The flags.
        engine_context: A session of Spark, or a `StreamerEngine`; None for what the flags ask for: this process, unless
            ``--engine spark`` or ``--spark-master`` is given.
        properties: Properties, which beat those of ``--hoodie-conf`` and ``--props``.

    Raises:
        HoodieConfigException: Flags or properties are unknown, wrong or contradict each other or the table. Nothing was
            read from the source.
    """

    def __init__(
        self,
        config: StreamerConfig,
        engine_context: SparkSession | StreamerEngine | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        self._config = config
        self._properties = load_properties(config, properties)
        self._engine = _engine_of(config, engine_context)
        self._hot_update = _hot_update_of(config)
        run = self._make_run()
        log_properties(self._properties)
        self._metrics = HoodieStreamerMetrics(run.write_config)
        self._sync = StreamSync(run)
        termination = create_termination_strategy(config.termination_strategy_class, self._properties)
        self._service = IngestionService(
            config, run.options, self._sync, self._metrics, termination, self._update_if_asked
        )
        self._endpoint: MetricsEndpoint | None = None

    @property
    def config(self) -> StreamerConfig:
        """The flags."""
        return self._config

    @property
    def properties(self) -> StreamerProperties:
        """The properties."""
        return self._properties

    @property
    def metrics(self) -> Mapping[str, float]:
        """The gauges of the run: Hudi's name -> newest value."""
        return self._metrics.snapshot()

    def health(self) -> Health:
        """The state of the run, as ``/health`` tells it."""
        options = self._sync.run.options
        return self._metrics.health(options.unhealthy_failed_rounds, options.unhealthy_after_seconds)

    def sync(self) -> SyncResult | None:
        """Run: one round, or with ``continuous`` rounds until `shutdown_gracefully` or the termination strategy.

        The streamer is closed afterwards.

        Returns:
            The outcome of the last round; None if it was ended before the first one.

        Raises:
            HoodieConfigException: The flags ask for a dry run, which is `dry_run`.
            HoodieException: A round failed. The table holds what earlier rounds committed.
        """
        if self._config.dry_run:
            raise HoodieConfigException("--dry-run: call dry_run() instead of sync(); nothing was written")
        try:
            if self._config.metrics_address is not None:
                self._endpoint = MetricsEndpoint(self._config.metrics_address, self._metrics.snapshot, self.health)
                self._endpoint.start()
            return self._service.run()
        finally:
            self.close()

    def shutdown_gracefully(self) -> None:
        """Let the present round be the last one. `sync` returns after it; may be called from any thread or signal."""
        self._service.stop()
        self._sync.stop_waiting()

    @property
    def is_stopping(self) -> bool:
        """Whether `shutdown_gracefully` was called."""
        return self._service.is_stopping

    def dry_run(self, rows: int = 5) -> DryRun:
        """Find what the next round would do, and change nothing: neither the table nor the source.

        Args:
            rows: The most rows to decode.

        Returns:
            The options, the position, the lag, the first rows and the change of the columns.
        """
        try:
            return look_ahead(self._sync, self._properties, rows, _schema_of_table(self._sync.run.write_config))
        finally:
            self.close()

    def close(self) -> None:
        """Give back the client, the source, the endpoint and their threads; may be called twice."""
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            endpoint.close()
        self._sync.close()
        self._metrics.close()

    # --- the parts ----------------------------------------------------------------------------------------------

    def _make_run(self) -> StreamerRun:
        config, properties = self._config, self._properties
        options = properties.read(HoodieStreamerConfig)
        check_source_id(options.source_id)
        write_config = write_config_of(config, properties)
        table = find_writable_table(write_config)
        version = write_config.table.table_version or DEFAULT_TABLE_VERSION
        if table is not None:
            version = version_of(table.table_config.properties)
            write_config = write_config_of(config, properties, str(table.table_config.table_type))
            write_config.check_against_table(table.table_config)
        elif config.table_type is None:
            logger.info("no --table-type: a new table is COPY_ON_WRITE")
        storage_options = dict(config.storage) or None
        provider = make_schema_provider(config.schema_provider_class, properties, storage_options)
        context = SourceContext(
            properties=with_record_key(properties, table),
            schema_provider=provider,
            storage_options=storage_options,
            # A transformer may change the columns, so those of the table say nothing of the source's.
            load_table_schema=lambda: None if config.transformer_classes else _schema_of_table(write_config),
            table_version=int(version),
            spark=getattr(self._engine, "spark", None),
            report=logger.warning,
        )
        _refuse_own_folder(write_config, properties)
        if config.force_empty_sync and not write_config.sync.is_on:
            logger.warning("--force-empty-sync has no effect: no catalog is synced; give --enable-sync")
        if options.checkpoint_force_skip and config.continuous:
            raise HoodieConfigException(
                "hoodie.streamer.checkpoint.force.skip = true with --continuous: no position is stored, so each round "
                "would write the same rows again; leave one of them out"
            )
        source = make_source(config.source_class, context)
        if source.needs_spark and self._engine.name != "spark":
            raise HoodieConfigException(f"--source-class {config.source_class} needs Spark: give --engine spark")
        tombstones = TombstoneRules()
        if isinstance(source, KafkaSource):
            tombstones = check_tombstones(source.config, source.columns, config, write_config, table)
        return StreamerRun(
            config=config,
            properties=properties,
            options=options,
            write_config=write_config,
            engine=self._engine,
            source=source,
            identity=identity_of(config.source_class, properties),
            schema_provider=provider,
            transformer=make_transformer(config.transformer_classes),
            tombstones=tombstones,
            error_writer=create_error_writer(properties, write_config),
            error_table=properties.read(HoodieErrorTableConfig),
            offsets=SparkKafkaOffsetValidator(properties.read(OffsetValidatorConfig))
            if validates_offsets(properties)
            else None,
            initial=_initial_of(config, properties, storage_options),
        )

    def _update_if_asked(self) -> None:
        """Ask the user's class for new properties, and make the parts anew if there are some."""
        if self._hot_update is None:
            return
        changed = self._hot_update.update(dict(self._properties.given))
        if not changed:
            return
        updated = self._properties.with_(StreamerProperties.of(changed).given)
        if updated == self._properties:
            return
        self._properties = updated
        logger.info("new properties of the streamer: %s", ", ".join(sorted(changed)))
        before = self._sync
        self._sync = StreamSync(self._make_run())
        self._service.rounds = self._sync
        before.close()


def identity_of(source_class: str, properties: StreamerProperties) -> str:
    """The name of a source, by which a run knows the positions of another one. It holds no secret.

    Args:
        source_class: The value of ``--source-class``.
        properties: The properties.

        >>> identity_of("JsonDFSSource", StreamerProperties({"hoodie.streamer.source.dfs.root": "s3a://lake/in/"}))
        'folder s3://lake/in'
    """
    topic = properties.get("hoodie.streamer.source.kafka.topic")
    folder = properties.get("hoodie.streamer.source.dfs.root")
    followed = properties.get("hoodie.streamer.source.hoodieincr.path")
    database = properties.get("hoodie.streamer.jdbc.url")
    simple = source_class.rpartition(".")[2]
    if ":" in source_class:
        places = [place for place in (topic, folder, followed) if place is not None]
        return " of ".join([f"source {source_class}", *places])
    if "Kafka" in simple or "Debezium" in simple:
        return f"topic {topic}"
    if "DFS" in simple and folder is not None:
        return f"folder {normalise_path(folder)}"
    if simple == "HoodieIncrSource" and followed is not None:
        return f"table {normalise_path(followed)}"
    if simple == "JdbcSource" and database is not None:
        # What follows the name of the database may hold a password; so may a user before the host.
        place = re.sub(r"//[^/@]*@", "//", re.split(r"[?;]", database)[0])
        return f"table {properties.get('hoodie.streamer.jdbc.table.name')} of {place}"
    return f"source {source_class}"


def _refuse_own_folder(config: HoodieWriteConfig, properties: StreamerProperties) -> None:
    """Refuse a source that holds the table or its error table: each round would read what the last one wrote."""
    own = [normalise_path(config.base_path)]
    errors = properties.read(HoodieErrorTableConfig)
    if errors.is_enabled:
        own.append(normalise_path(errors.base_path) if errors.base_path else f"{own[0]}_errors")
    followed = properties.get("hoodie.streamer.source.hoodieincr.path")
    if followed is not None and normalise_path(followed) in own:
        raise HoodieConfigException(
            f"hoodie.streamer.source.hoodieincr.path = {followed!r} is the table that is filled: each round would read "
            "what the one before it wrote"
        )
    root = properties.get("hoodie.streamer.source.dfs.root")
    if root is None or any(character in root for character in "*?[{"):
        return
    folder = f"{normalise_path(root).rstrip('/')}/"
    for path in own:
        if f"{path}/".startswith(folder) or folder.startswith(f"{path}/"):
            raise HoodieConfigException(
                f"hoodie.streamer.source.dfs.root = {root!r} and the table {path} are in one another: each round would "
                "read what the one before it wrote. Put the table elsewhere"
            )


def _engine_of(config: StreamerConfig, given: Any) -> StreamerEngine:
    if isinstance(given, StreamerEngine):
        return given
    if given is None and config.engine != "spark" and not config.spark_master:
        return LocalStreamerEngine()
    # A run in this process needs no PySpark.
    made = load("hoodie", "SparkStreamerEngine", "hoodie.utilities.streamer.spark_engine")
    engine: StreamerEngine = made(given, config)
    return engine


def _hot_update_of(config: StreamerConfig) -> HotUpdate | None:
    name = config.config_hot_update_strategy_class
    if not name:
        return None
    made: Any = create_object(name.replace(":", "."), "--config-hot-update-strategy-class", object)
    if not callable(getattr(made, "update", None)):
        raise HoodieConfigException(f"--config-hot-update-strategy-class {name} has no method update(properties)")
    updating: HotUpdate = made
    return updating


def _initial_of(
    config: StreamerConfig, properties: StreamerProperties, storage_options: Mapping[str, str] | None
) -> Callable[[], str] | None:
    if config.initial_checkpoint_provider is None:
        return None
    provider = make_initial_checkpoint_provider(config.initial_checkpoint_provider, properties, storage_options)
    return provider.load_checkpoint


def _schema_of_table(config: HoodieWriteConfig) -> pa.Schema | None:
    table = find_writable_table(config)
    if table is None or table.load_avro_schema() is None:
        return None
    return table.load_schema()

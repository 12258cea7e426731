"""The error table: an ordinary table of messages and lines that could not be made rows.

It is written before the rows of its round are committed. A record key names each message, so a round that is repeated
after a crash replaces what it wrote before, and doubles nothing. Until the repetition, the table may hold errors of a
round whose rows were never committed: their ``instant`` is not in the timeline of the table.

    error_id                reason                              payload  topic  partition  offset  file  line  instant
    trips/0/17              JSON_AVRO_DESERIALIZATION_FAILURE   {"a":    trips  0          17                  2026...
    s3://b/in/x.json:3      JSON_AVRO_DESERIALIZATION_FAILURE   nul                                x.json 3    2026...

Hudi: org.apache.hudi.utilities.streamer.BaseErrorTableWriter, of which Hudi has no implementation.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.client.new_table import check_new_table
from hoodie.client.open_or_create import open_or_create
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieException, HoodieStreamerException
from hoodie.storage.storage_options import StorageOptions
from hoodie.storage.storage_path import is_same_path, normalise_path
from hoodie.utilities.class_names import find_class
from hoodie.utilities.config.error_table_config import HoodieErrorTableConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.ingestion.error_event import ERROR_SCHEMA

logger = logging.getLogger(__name__)

INSTANT_COLUMN: Final = "instant"
"""The instant of the round, which is that of its rows in the timeline of the table."""
ERROR_TABLE_SCHEMA: Final = ERROR_SCHEMA.append(pa.field(INSTANT_COLUMN, pa.string(), nullable=False))
"""The columns of an error table."""
_WRITE_CLASS_KEY: Final = "hoodie.errortable.write.class"
_SUFFIX: Final = "_errors"
_AT_ONCE_BYTES: Final = 64 << 20
"""The most bytes of errors that are written to the error table at once."""
_SHARED: Final = (
    "hoodie.write.lock.",
    "hoodie.write.concurrency.",
    "hoodie.client.heartbeat.",
    "hoodie.cleaner.policy.failed.writes",
    "hoodie.storage.retry.",
    "hoodie.aws.",
)
"""Properties of the table's writer that count for the error table too: the ways to reach and to lock a storage."""
_OWN_LOCK: Final = frozenset({"hoodie.write.lock.zookeeper.lock_key", "hoodie.write.lock.dynamodb.partition_key"})
"""Names of the table's own lock; the error table has one by its name."""


@attrs.frozen
class ErrorTableContext:
    """All that a writer of errors is given.

    Attributes:
        base_path: The folder of the error table.
        table_name: Its name.
        source_base_path: The folder of the table whose errors they are.
        properties: The properties of the run.
        writer_properties: The properties of the table's writer.
        storage_options: Options of the storage; never printed.
    """

    base_path: str
    table_name: str
    source_base_path: str
    properties: StreamerProperties
    writer_properties: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    storage_options: StorageOptions | None = attrs.field(default=None, repr=False)


class BaseErrorTableWriter(ABC):
    """Keeps messages and lines that could not be made rows. A class of yours is named by hoodie.errortable.write.class.

    Args:
        context: The place of the errors, and the properties of the run.

    Hudi: org.apache.hudi.utilities.streamer.BaseErrorTableWriter. Differs: one call instead of three.
    """

    def __init__(self, context: ErrorTableContext) -> None:
        self.context = context

    @abstractmethod
    def write(self, errors: Iterable[pa.RecordBatch], instant_time: str) -> int:
        """Keep the errors of a round. When the call returns they are durable; only then the rows are committed.

        The same errors come again, with another instant, if the round fails after this call. ``error_id`` tells them.

        Args:
            errors: Batches of `hoodie.utilities.ingestion.error_event.ERROR_SCHEMA`.
            instant_time: The instant of the round in the table.

        Returns:
            The number of errors.

        Raises:
            HoodieException: They cannot be kept.
        """

    def close(self) -> None:  # noqa: B027
        """Give back what the writer has; may be called twice."""


class ErrorTableWriter(BaseErrorTableWriter):
    """Keeps errors in a table of hoodie, which the first one creates. No thread and no file is held between calls.

    Args:
        context: The place of the error table, and the properties of the run.

    Raises:
        HoodieConfigException: The error table is in the folder of the table itself.
    """

    def __init__(self, context: ErrorTableContext) -> None:
        super().__init__(context)
        if is_same_path(context.base_path, context.source_base_path):
            raise HoodieConfigException(
                f"hoodie.errortable.base.path = {context.base_path}: that is the folder of the table itself; give "
                "another one, or leave the property out"
            )
        self._config = HoodieWriteConfig.from_properties(
            context.base_path,
            {
                **_shared(context.writer_properties),
                "hoodie.table.name": context.table_name,
                "hoodie.datasource.write.recordkey.field": "error_id",
                # Streamers of several sources may have one error table.
                "hoodie.write.lock.wait.retry": "true",
            },
            context.storage_options,
        )

    def write(self, errors: Iterable[pa.RecordBatch], instant_time: str) -> int:
        """Upsert the errors of a round; see `BaseErrorTableWriter.write`.

        Raises:
            HoodieStreamerException: The table could not be written.
        """
        count = 0
        part: list[pa.RecordBatch] = []
        for batch in errors:
            part.append(batch)
            if sum(one.nbytes for one in part) >= _AT_ONCE_BYTES:
                # Many errors are several commits, so that memory does not grow with them; a repetition replaces all.
                count += self._write_part(part, instant_time)
                part = []
        count += self._write_part(part, instant_time)
        if count:
            logger.info("%d errors of the instant %s are in %s", count, instant_time, self.context.base_path)
        return count

    def _write_part(self, errors: list[pa.RecordBatch], instant_time: str) -> int:
        rows = pa.Table.from_batches(errors, ERROR_SCHEMA)
        if not len(rows):
            return 0
        instants = pa.array([instant_time], pa.string()).take(pa.array(np.zeros(len(rows), np.int32)))
        rows = rows.append_column(ERROR_TABLE_SCHEMA.field(INSTANT_COLUMN), instants)
        try:
            with open_or_create(self._config, HoodieLocalWriteClient) as table:
                if table.found is None:
                    check_new_table(rows.schema, self._config)
                    table.create()
                table.write("upsert", rows)
        except HoodieException as error:
            raise HoodieStreamerException(
                f"{len(rows)} errors of the instant {instant_time} could not be written to the error table "
                f"{self.context.base_path}: {error}. Correct that; or commit the rows without them, by "
                "hoodie.errortable.write.failure.strategy=LOG_ERROR"
            ) from error
        return len(rows)


def create_error_writer(properties: StreamerProperties, write_config: HoodieWriteConfig) -> BaseErrorTableWriter | None:
    """The writer of errors that the properties ask for.

    Args:
        properties: The properties of the run.
        write_config: The configuration of the table's writer.

    Returns:
        The writer; None if errors are not kept.

    Raises:
        HoodieConfigException: Properties are wrong, or there is no such class.
    """
    config = properties.read(HoodieErrorTableConfig)
    if not config.is_enabled:
        return None
    of_table = normalise_path(write_config.base_path)
    name = write_config.table.table_name or of_table.rpartition("/")[2]
    context = ErrorTableContext(
        base_path=normalise_path(config.base_path) if config.base_path else f"{of_table}{_SUFFIX}",
        table_name=config.table_name or f"{name}{_SUFFIX}",
        source_base_path=of_table,
        properties=properties,
        writer_properties=dict(write_config.properties),
        storage_options=write_config.storage_options,
    )
    if config.write_class is None:
        return ErrorTableWriter(context)
    own = find_class(config.write_class, {"ErrorTableWriter": __name__}, _WRITE_CLASS_KEY, BaseErrorTableWriter)
    return own(context)


def _shared(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in properties.items() if key.startswith(_SHARED) and key not in _OWN_LOCK}

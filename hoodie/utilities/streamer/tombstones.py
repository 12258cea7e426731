"""The look at a table before tombstones of Kafka delete its records.

A tombstone has a key and no value. So its row has values in the record key fields, and in the columns of the message's
place; all other columns are null. Where the partition or the order of a record depends on one of these, the delete does
not reach the record that it is meant for.

Hudi does not have it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException
from hoodie.index.index_factory import create_index
from hoodie.utilities.config.kafka_source_config import TOMBSTONES, KafkaSourceConfig, Tombstones
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.helpers.kafka_rows import DELETED_COLUMN, OFFSET_COLUMN, KafkaColumns
from hoodie.utilities.sources.kafka_source import KEY_FIELDS
from hoodie.utilities.streamer.streamer_config import StreamerConfig
from hoodie.utilities.streamer.tombstone_rules import TombstoneRules

logger = logging.getLogger(__name__)

_ASKED = f"{TOMBSTONES} = {Tombstones.DELETE}"
_INSTEAD = "send a whole record with _hoodie_is_deleted = true instead of the tombstone"


def with_record_key(properties: StreamerProperties, table: TableSnapshot | None) -> StreamerProperties:
    """The properties for the source, with the record key fields of the table where tombstones need them.

    Args:
        properties: The properties.
        table: The table; None for a new one.
    """
    if TOMBSTONES not in properties or table is None or any(key in properties for key in KEY_FIELDS):
        return properties
    fields = table.table_config.record_key_fields
    return properties.with_({KEY_FIELDS[0]: ",".join(fields)}) if fields else properties


def check_tombstones(
    source: KafkaSourceConfig,
    columns: KafkaColumns,
    config: StreamerConfig,
    write_config: HoodieWriteConfig,
    table: TableSnapshot | None,
) -> TombstoneRules:
    """Refuse to delete by tombstones where they do not reach the records of their keys.

    Rows of a transformer may have values in more columns: then a line of the log says what it has to keep and to fill,
    and each round looks whether it did.

    Args:
        source: The properties of the source.
        columns: The columns that it adds.
        config: The flags.
        write_config: The configuration of the writer.
        table: The table; None for a new one.

    Returns:
        The demands on rows of a transformer.

    Raises:
        HoodieConfigException: Tombstones are to be deletes; and the operation deletes nothing, or the table has
            partitions and an index that is not global, or it has ordering fields. One message names all.
    """
    if source.tombstones is not Tombstones.DELETE:
        return TombstoneRules()
    problems = []
    if config.op.upper() != "UPSERT":
        problems.append(f"--op {config.op} deletes no records: give --op UPSERT")
    if table is not None:
        partitions: Sequence[str] = table.table_config.partition_fields
        orderings: Sequence[str] = table.table_config.ordering_fields
    else:
        given = write_config.table.partition_fields or ()
        partitions = [field.partition(":")[0].strip() for field in given]
        orderings = write_config.table.ordering_fields or ()
    filled = {*columns.key_fields, *(field.name for field in columns.added)}
    missing = []
    apart = _lacking(partitions, filled)
    if apart and create_index(write_config).is_global:
        apart = []
    if apart:
        index = write_config.index
        named = (
            f"hoodie.index.type = {index.index_type}"
            if index.index_class is None
            else f"hoodie.index.class = {index.index_class}"
        )
        missing.append(
            f"the table is partitioned by {', '.join(apart)}, which a tombstone does not tell, and {named} looks for a "
            "key in its own partition only: give a global index, such as hoodie.index.type = GLOBAL_SIMPLE; or make "
            f"the partition fields a part of the key; or {_INSTEAD}"
        )
    unordered = _lacking(orderings, filled)
    if unordered:
        missing.append(
            f"the table has the ordering field {', '.join(unordered)}, and tombstones have no ordering value: "
            f"{_INSTEAD}; or leave the ordering field out of a new table, so that the last message "
            f"counts; or order it by {OFFSET_COLUMN}, with hoodie.streamer.source.kafka.append.offsets = true"
        )
    if config.transformer_classes:
        unfilled = [*apart, *unordered]
        told = "".join(f"; and to fill {name}, which is null in rows of tombstones" for name in unfilled)
        logger.warning(
            "%s: the transformer has to keep the rows of tombstones and the column %s%s",
            _ASKED, DELETED_COLUMN, told,
        )  # fmt: skip
        missing = []
    problems += missing
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise HoodieConfigException(f"{_ASKED} would not delete the records of table {write_config.base_path}:{lines}")
    if not config.transformer_classes:
        return TombstoneRules()
    return TombstoneRules((DELETED_COLUMN,), tuple(apart))


def _lacking(fields: Sequence[str], filled: set[str]) -> list[str]:
    return [field for field in fields if field not in filled]

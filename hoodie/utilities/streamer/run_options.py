"""The options of a run, of all places that tell them, and the configuration of its writer.

A property of a caller in Python beats one of ``--hoodie-conf``, that one of ``--props``, that one of
``hudi-defaults.conf`` in the folder ``$HUDI_CONF_DIR`` or ``/etc/hudi/conf``.

Hudi: org.apache.hudi.utilities.streamer.HoodieStreamer (combineProperties), UtilHelpers.
"""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from hoodie.common.config.property import all_keys, display_value
from hoodie.config.hudi_keys import find_hudi_key
from hoodie.config.write_config import GROUPS, HoodieWriteConfig
from hoodie.exception import HoodieConfigException
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_path import normalise_path
from hoodie.utilities.callback.kafka_callback import HUDI_NAME, HoodieWriteCommitKafkaCallback
from hoodie.utilities.class_names import SOURCES
from hoodie.utilities.config.groups import STREAMER_GROUPS, STREAMER_PREFIXES
from hoodie.utilities.config.offset_validator_config import OffsetValidatorConfig
from hoodie.utilities.config.streamer_properties import (
    OLD_PREFIX,
    PREFIX,
    StreamerProperties,
    parse_dfs_properties,
    spellings,
)
from hoodie.utilities.sources.helpers.kafka_consumer_properties import kafka_property_problems
from hoodie.utilities.streamer.offset_validator import CLASS_NAMES
from hoodie.utilities.streamer.streamer_config import StreamerConfig

logger = logging.getLogger(__name__)

_DEFAULTS_FOLDER: Final = "/etc/hudi/conf"
_DEFAULTS_FILE: Final = "hudi-defaults.conf"
_OF_FLAGS = ("hoodie.datasource.write.operation", "hoodie.auto.commit")
"""Properties that the flags replace without a word in Hudi; of a contradiction to any other one a run dies."""
_CHANGES_ROWS: Final = {
    f"{PREFIX}source.sanitize.invalid.schema.field.names": (
        "CSV, Parquet and rows of databases are read without a schema provider, and a transformer gives the columns "
        "valid names; JSON is read by a class of yours with fetch(position, limit), as --source-class module:Class"
    ),
    f"{PREFIX}snapshotload.query.splitter.class.name": (
        "to read a table in several rounds, begin with --checkpoint resumeFromInstantRequestTime:T, a time before the "
        "first commit to read, and bound each round by hoodie.streamer.source.hoodieincr.num_instants"
    ),
}
"""Properties of Hudi that would change rows -> what to do instead."""
_VALIDATORS_KEY: Final = "hoodie.precommit.validators"
_CALLBACK_KEY: Final = "hoodie.write.commit.callback.class"
_OF_STREAMER = (PREFIX, OLD_PREFIX, "hoodie.errortable.", "hoodie.debezium.")


def load_properties(config: StreamerConfig, given: Mapping[str, Any] | None = None) -> StreamerProperties:
    """The properties of a run.

    Args:
        config: The flags.
        given: Properties of a caller.

    Raises:
        HoodieConfigException: The file of ``--props`` is missing, or files include each other.
        HoodieIOException: Storage failed.
    """
    found = StreamerProperties(_defaults())
    if config.props is not None:
        found = found.with_(read_properties(config.props, config.storage, "--props"))
    found = found.with_(config.hoodie_conf)
    return found if given is None else found.with_(StreamerProperties.of(given).given)


def write_config_of(
    config: StreamerConfig, properties: StreamerProperties, found_type: str | None = None
) -> HoodieWriteConfig:
    """The configuration of the writer.

    Args:
        config: The flags.
        properties: The properties.
        found_type: The type of the table; None for a new table, which gets the name of its folder if no flag names it.

    Raises:
        HoodieConfigException: Properties are unknown, not allowed, or contradict the flags; one message names all.
    """
    problems = unknown_properties(properties) + _problems_of_source(config, properties)
    own = all_keys(GROUPS.values())
    kept = {key: text for key, text in properties.given.items() if key in own or not is_of_streamer(key)}
    of_validator = all_keys([OffsetValidatorConfig])
    kept = {key: text for key, text in kept.items() if key.startswith("hoodie.") and key not in of_validator}
    _without_own_classes(kept)
    names_table = found_type is None and "hoodie.table.name" not in kept
    type_of_table = config.table_type or found_type or "COPY_ON_WRITE"
    is_compacted = type_of_table == "MERGE_ON_READ" and not config.disable_compaction
    wanted: dict[str, str | None] = {
        "hoodie.table.name": config.target_table or (config.table_name if names_table else None),
        "hoodie.datasource.write.table.type": config.table_type or found_type,
        "hoodie.datasource.write.precombine.field": config.source_ordering_fields,
        "hoodie.datasource.write.payload.class": config.payload_class,
        "hoodie.write.record.merge.mode": config.merge_mode,
        "hoodie.write.record.merge.strategy.id": config.merge_strategy_id,
        "hoodie.write.record.merge.custom.implementation.classes": config.merge_impl_classes,
        "hoodie.datasource.write.operation": config.op.lower(),
        "hoodie.datasource.write.insert.drop.duplicates": "true" if config.filter_dupes else None,
        "hoodie.combine.before.upsert": "true",
        "hoodie.combine.before.insert": "true" if config.filter_dupes else None,
        "hoodie.compact.inline": "true" if is_compacted and not config.continuous else "false",
        "hoodie.datasource.compaction.async.enable": "true" if is_compacted and config.continuous else None,
        "hoodie.datasource.meta.sync.enable": "true" if config.enable_sync else None,
        "hoodie.meta.sync.client.tool.class": config.sync_tool_classes if config.enable_sync else None,
        "hoodie.auto.commit": "false",
    }
    for key, value in wanted.items():
        if value is None:
            continue
        for spelling in own[key].keys if key in own else (key,):
            stored = kept.pop(spelling, None)
            if stored is None or stored.strip().lower() == value.lower():
                continue
            if key in _OF_FLAGS:
                logger.warning(
                    "%s = %s has no effect: the flags of the run say %s, as in Hudi", spelling, stored, value
                )
            else:
                problems.append(
                    f"{spelling} = {display_value(spelling, stored)}: the flags of this run ask for {value!r}; leave "
                    "the property out"
                )
        kept[key] = value
    try:
        written = HoodieWriteConfig.from_properties(config.target_base_path, kept, dict(config.storage) or None)
    except HoodieConfigException as error:
        problems.append(str(error))
    if problems:
        lines = "".join(f"\n  - {problem}" for problem in problems)
        raise HoodieConfigException(f"the properties of the streamer:{lines}")
    return written


def _problems_of_source(config: StreamerConfig, properties: StreamerProperties) -> list[str]:
    """The wrong properties for Kafka, where the source is a topic, so that all mistakes are told at once."""
    simple = config.source_class.rpartition(".")[2]
    if simple not in SOURCES or not ("Kafka" in simple or "Debezium" in simple):
        return []
    try:
        return kafka_property_problems(properties)
    except HoodieConfigException as error:
        return [str(error)]


def validates_offsets(properties: StreamerProperties) -> bool:
    """Whether ``hoodie.precommit.validators`` names the validator of offsets.

    Args:
        properties: The properties.
    """
    return not set(_names(properties.get(_VALIDATORS_KEY, ""))).isdisjoint(CLASS_NAMES)


def _without_own_classes(kept: dict[str, str]) -> None:
    """Give the writer's configuration the classes that the streamer adds to those of every write."""
    if _VALIDATORS_KEY in kept:
        others = [name for name in _names(kept.pop(_VALIDATORS_KEY)) if name not in CLASS_NAMES]
        if others:
            kept[_VALIDATORS_KEY] = ",".join(others)
    if kept.get(_CALLBACK_KEY, "").strip() in (HUDI_NAME, HUDI_NAME.rpartition(".")[2]):
        callback = HoodieWriteCommitKafkaCallback
        kept[_CALLBACK_KEY] = f"{callback.__module__}.{callback.__name__}"


def _names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


def is_of_streamer(key: str) -> bool:
    """Whether a property is one of the streamer, not of the writer.

    Args:
        key: The property.
    """
    return key.startswith(_OF_STREAMER)


def unknown_properties(properties: StreamerProperties) -> list[str]:
    """Properties of the streamer that nothing reads, one sentence each with the nearest one.

    Those without ``hoodie.`` belong to Kafka and other systems, and are looked at by their sources.

    Args:
        properties: The properties.
    """
    known = {name for key in all_keys(STREAMER_GROUPS) for name in spellings(key)}
    beginnings = tuple(name for prefix in STREAMER_PREFIXES for name in spellings(prefix))
    writers = all_keys(GROUPS.values())
    problems = []
    for key, value in properties.given.items():
        if not is_of_streamer(key) or key in known or key in writers or key.startswith(beginnings):
            continue
        entry = find_hudi_key(key)
        advice = next((text for name, text in _CHANGES_ROWS.items() if key in spellings(name)), None)
        if advice is not None and value.strip().lower() not in ("", "false"):
            problems.append(f"{key} = {display_value(key, value)}: hoodie does not do that; {advice}")
            continue
        if entry is not None:
            logger.warning("%s = %s has no effect: %s", key, display_value(key, value), entry.note)
            continue
        names = known | set(writers)
        nearest = difflib.get_close_matches(key, names, 1, 0)[0]
        # A misspelt name does not tell whether its value is a secret.
        problems.append(f"{key}: there is no such property; nearest: {nearest}")
    return problems


def log_properties(properties: StreamerProperties, log: Callable[[str], None] = logger.info) -> None:
    """Tell all properties, sorted, without secrets.

    Args:
        properties: The properties.
        log: Takes the text.
    """
    log("properties of the streamer: " + ", ".join(shown_properties(properties)))


def shown_properties(properties: StreamerProperties) -> Iterable[str]:
    """The properties as texts, sorted, without secrets.

    Args:
        properties: The properties.
    """
    return [f"{key}={display_value(key, value)}" for key, value in sorted(properties.given.items())]


def read_properties(path: str, storage_options: Mapping[str, str], name: str) -> dict[str, str]:
    """Read a file of properties, as Hudi reads one; see `parse_dfs_properties`.

    Args:
        path: The file: a path or a URL.
        storage_options: Options of its storage.
        name: The name of the file in messages, such as ``--props``.

    Raises:
        HoodieConfigException: There is no such file.
        HoodieIOException: Storage failed.
    """
    path = normalise_path(path if "://" in path or path.startswith("file:") else os.path.abspath(path))
    try:
        return parse_dfs_properties(open_storage(path.rpartition("/")[0], dict(storage_options) or None), path)
    except FileNotFoundError as error:
        raise HoodieConfigException(f"{name} {path}: there is no such file") from error


def _defaults() -> dict[str, str]:
    folder = os.environ.get("HUDI_CONF_DIR") or _DEFAULTS_FOLDER
    path = f"{folder.rstrip('/')}/{_DEFAULTS_FILE}"
    return read_properties(path, {}, "the defaults") if os.path.isfile(path) else {}

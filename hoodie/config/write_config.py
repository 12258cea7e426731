"""The configuration of a writer: Hudi's properties, read once into typed values."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs

from hoodie.common.config.property import (
    all_keys,
    changed_properties,
    display_value,
    is_sensitive,
    properties_of,
    read_group,
    to_property_value,
)
from hoodie.common.config.storage_config import HoodieStorageConfig
from hoodie.common.model.commit_metadata import RESERVED_METADATA_KEYS
from hoodie.config.archival_config import HoodieArchivalConfig
from hoodie.config.callback_config import HoodieWriteCommitCallbackConfig
from hoodie.config.clean_config import CleaningPolicy, HoodieCleanConfig
from hoodie.config.compaction_config import HoodieCompactionConfig
from hoodie.config.hudi_keys import KeyClass, find_hudi_key, load_hudi_keys, nearest_key
from hoodie.config.index_config import HoodieIndexConfig
from hoodie.config.lock_config import HoodieLockConfig
from hoodie.config.metrics_config import HoodieMetricsConfig
from hoodie.config.payload_config import HoodiePayloadConfig
from hoodie.config.pre_commit_validator_config import HoodiePreCommitValidatorConfig
from hoodie.config.storage_retry_config import StorageRetryConfig
from hoodie.config.table_options import HasProperties, HoodieTableOptions
from hoodie.config.timestamp_key_generator_config import HoodieTimestampKeyGeneratorConfig
from hoodie.config.write_options import HoodieWriteOptions, InsertDupPolicy
from hoodie.exception import HoodieConfigException
from hoodie.storage.storage_options import StorageOptions

__all__ = ["GROUPS", "HoodieWriteConfig"]

logger = logging.getLogger(__name__)

_FAILED_WRITES = {"hoodie.cleaner.policy.failed.writes", "hoodie.clean.failed.writes.policy"}

GROUPS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {
        "write": HoodieWriteOptions,
        "table": HoodieTableOptions,
        "storage": HoodieStorageConfig,
        "compaction": HoodieCompactionConfig,
        "index": HoodieIndexConfig,
        "payload": HoodiePayloadConfig,
        "timestamps": HoodieTimestampKeyGeneratorConfig,
        "retry": StorageRetryConfig,
        "clean": HoodieCleanConfig,
        "archival": HoodieArchivalConfig,
        "lock": HoodieLockConfig,
        "callback": HoodieWriteCommitCallbackConfig,
        "validator": HoodiePreCommitValidatorConfig,
        "metrics": HoodieMetricsConfig,
    }
)
_PREFIX = "hoodie."
_METADATA_PREFIX_KEY = "hoodie.datasource.write.commitmeta.key.prefix"
_DROP_DUPLICATES_KEY = "hoodie.datasource.write.insert.drop.duplicates"
_DUP_POLICY_KEY = "hoodie.datasource.insert.dup.policy"
_MODE_KEY = "hoodie.write.concurrency.mode"
_PROVIDER_KEY = "hoodie.write.lock.provider"
_UNIQUE_KEY = "hoodie.write.concurrency.unique.keys"
_VALIDATORS_KEY = "hoodie.precommit.validators"
_QUERIES_OF = {
    f"{_VALIDATORS_KEY}.equality.sql.queries": "SqlQueryEqualityPreCommitValidator",
    f"{_VALIDATORS_KEY}.inequality.sql.queries": "SqlQueryInequalityPreCommitValidator",
    f"{_VALIDATORS_KEY}.single.value.sql.queries": "SqlQuerySingleResultPreCommitValidator",
}
_SWITCH_OF = {
    "hoodie.write.commit.callback.http.url": "hoodie.write.commit.callback.on",
    "hoodie.write.commit.callback.class": "hoodie.write.commit.callback.on",
    "hoodie.metrics.reporter.type": "hoodie.metrics.on",
}
_POLICY_OF = {
    "commits_retained": CleaningPolicy.KEEP_LATEST_COMMITS,
    "hours_retained": CleaningPolicy.KEEP_LATEST_BY_HOURS,
    "file_versions_retained": CleaningPolicy.KEEP_LATEST_FILE_VERSIONS,
}
"""The number that names a policy by being given."""


@attrs.frozen(kw_only=True, repr=False)
class HoodieWriteConfig:
    """What a write client is told: the table's place, and all properties as typed values.

    Made by `from_properties`; picklable and never changed. Prints what differs from the defaults, without secrets. Code
    reads ``config.storage.parquet_max_file_size``, not a key::

        config = HoodieWriteConfig.from_properties("/data/trips", {"hoodie.parquet.max.file.size": 64 * 1024 * 1024})
        config.storage.parquet_max_file_size    # 67108864

    Attributes:
        base_path: The table's folder, as it was given.
        properties: The properties that were given, as Hudi writes them.
        storage_options: Options and credentials of the storage; never printed.
        write: What the writer does.
        table: The table as the properties describe it.
        storage: Size and encoding of base files.
        compaction: How records are packed into files.
        index: How records are found.
        payload: How records of one key merge.
        timestamps: How partition paths are made of times.
        retry: How often calls of an object store are made again.
        clean: Which versions of files are kept, and when the others are deleted.
        archival: How long the active timeline is, and how its archive is kept.
        lock: What keeps several writers apart.
        callback: Who is told of each commit.
        validator: What must hold of the table for a commit to be completed.
        metrics: What is reported of each call, and to whom.

    Hudi: org.apache.hudi.config.HoodieWriteConfig. Differs: values are parsed once; an unknown or wrong
    one is an error.
    """

    base_path: str
    properties: Mapping[str, str] = attrs.field(factory=dict)
    storage_options: StorageOptions | None = None
    write: HoodieWriteOptions = attrs.field(factory=HoodieWriteOptions)
    table: HoodieTableOptions = attrs.field(factory=HoodieTableOptions)
    storage: HoodieStorageConfig = attrs.field(factory=HoodieStorageConfig)
    compaction: HoodieCompactionConfig = attrs.field(factory=HoodieCompactionConfig)
    index: HoodieIndexConfig = attrs.field(factory=HoodieIndexConfig)
    payload: HoodiePayloadConfig = attrs.field(factory=HoodiePayloadConfig)
    timestamps: HoodieTimestampKeyGeneratorConfig = attrs.field(factory=HoodieTimestampKeyGeneratorConfig)
    retry: StorageRetryConfig = attrs.field(factory=StorageRetryConfig)
    clean: HoodieCleanConfig = attrs.field(factory=HoodieCleanConfig)
    archival: HoodieArchivalConfig = attrs.field(factory=HoodieArchivalConfig)
    lock: HoodieLockConfig = attrs.field(factory=HoodieLockConfig)
    callback: HoodieWriteCommitCallbackConfig = attrs.field(factory=HoodieWriteCommitCallbackConfig)
    validator: HoodiePreCommitValidatorConfig = attrs.field(factory=HoodiePreCommitValidatorConfig)
    metrics: HoodieMetricsConfig = attrs.field(factory=HoodieMetricsConfig)

    @classmethod
    def from_properties(
        cls,
        base_path: str | os.PathLike[str],
        properties: Mapping[str, Any] | None = None,
        storage_options: StorageOptions | None = None,
    ) -> HoodieWriteConfig:
        """Read Hudi's properties.

        Keys that do not start with ``hoodie.`` are not looked at (a pasted configuration holds Spark's ``path`` or
        a source's own options) but kept in `properties`, unless they look like a misspelt ``hoodie.`` key.

        Args:
            base_path: The table's folder: a path or URL.
            properties: Hudi's property names -> values: text, or booleans, numbers, enum members, lists of texts.
            storage_options: Options and credentials of the storage, or a function that returns them.

        Returns:
            The configuration.

        Raises:
            HoodieConfigException: Properties that Hudi does not have, that hoodie does not support, whose values do not
                parse, or that contradict each other: all of them in one message.
        """
        problems: list[str] = []
        path = os.fspath(base_path) if isinstance(base_path, str | os.PathLike) else ""
        if not isinstance(path, str) or not path.strip():
            problems.append(f"base_path = {base_path!r}: must be the path or URL of the table's folder")
        given = _as_text(properties or {}, problems)
        groups = {name: read_group(group, given, problems) for name, group in GROUPS.items()}
        groups["clean"] = _with_inferred_policy(groups["clean"], given)
        config = cls(base_path=path, properties=given, storage_options=storage_options, **groups)
        ignored = _check_keys(given, config.write.commit_metadata_key_prefix, problems)
        problems += _contradictions(config)
        if problems:
            count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
            lines = "".join(f"\n  - {problem}" for problem in problems)
            raise HoodieConfigException(f"Configuration of the table at {base_path!r}, {count}:{lines}")
        if config.write.failed_writes is not config.write.failed_writes_policy and _FAILED_WRITES & given.keys():
            logger.warning(
                "hoodie.cleaner.policy.failed.writes = %s is for one writer at a time; with "
                "hoodie.write.concurrency.mode = %s it is LAZY",
                config.write.failed_writes_policy,
                config.write.concurrency_mode,
            )
        for line in _without_effect(config):
            logger.warning("%s", line)
        if ignored:
            logger.info("These properties change nothing in hoodie and are ignored: %s", ", ".join(sorted(ignored)))
        return config

    def __repr__(self) -> str:
        changed: dict[str, str] = {}
        for name in GROUPS:
            changed |= changed_properties(getattr(self, name))
        known = all_keys(GROUPS.values())
        # Keys of others may hold secrets that do not look like any.
        others = {key: value for key, value in self.properties.items() if key.startswith(_PREFIX) and key not in known}
        changed |= {key: display_value(key, value) for key, value in others.items()}
        shown = ", ".join(f"{key!r}: {value}" for key, value in sorted(changed.items()))
        return f"{type(self).__name__}({display_value('hoodie.base.path', self.base_path)}, {{{shown}}})"

    @property
    def extra_metadata(self) -> dict[str, str]:
        """What the properties add to the extra metadata of every commit (see ``commit_metadata_key_prefix``)."""
        prefix = self.write.commit_metadata_key_prefix
        return {key: value for key, value in self.properties.items() if key.startswith(prefix)}

    def check_against_table(self, table_config: HasProperties) -> None:
        """Refuse properties that contradict what the table says about itself.

        Args:
            table_config: The table's configuration.

        Raises:
            HoodieConfigException: The writer names another table name, type, key, partitioning, ordering, key generator
                or payload than the table has: all differences in one message.
        """
        found = [
            *self.table.contradictions(table_config),
            *self.payload.contradictions(table_config),
            *self.timestamps.contradictions(table_config.properties),
        ]
        if found:
            lines = "".join(f"\n  - {problem}" for problem in found)
            raise HoodieConfigException(
                f"The properties of this writer contradict those of the table at {self.base_path!r}:{lines}"
            )


def _with_inferred_policy(clean: HoodieCleanConfig, given: Mapping[str, str]) -> HoodieCleanConfig:
    """The cleaning policy of the one number that is given, where no policy is."""
    declared = properties_of(HoodieCleanConfig)
    if given.keys() & set(declared["policy"].keys):
        return clean
    found = [policy for name, policy in _POLICY_OF.items() if given.keys() & set(declared[name].keys)]
    return attrs.evolve(clean, policy=found[0]) if len(found) == 1 else clean


def _as_text(properties: Mapping[str, Any], problems: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for key, value in properties.items():
        if not isinstance(key, str):
            problems.append(f"{key!r}: a property's name must be text")
            continue
        try:
            given[key] = to_property_value(value)
        except ValueError as error:
            problems.append(f"{key} = {display_value(key, value)}: must be {error}")
    return given


def _check_keys(given: Mapping[str, str], metadata_prefix: str, problems: list[str]) -> list[str]:
    """Find keys that are unknown or refused; return those that are ignored."""
    used = all_keys(GROUPS.values())
    # A prefix of all of Hudi's names does not make a misspelt one right.
    is_narrow = not _PREFIX.startswith(metadata_prefix)
    ignored = []
    for key, value in given.items():
        if key in used:
            if key == "hoodie.write.markers.type" and value.strip().upper() != "DIRECT":
                ignored.append(key)
            continue
        entry = find_hudi_key(key)
        if entry is None:
            is_metadata = is_narrow and key.startswith(metadata_prefix)
            if not is_metadata and (key.startswith(_PREFIX) or _is_misspelt_prefix(key)):
                nearest = nearest_key(key, [*used, *(name for name in load_hudi_keys() if not name.endswith("*"))])
                problems.append(f"{key} = {display_value(key, value)}: Hudi has no such property; nearest: {nearest}")
        elif entry.key_class is KeyClass.REFUSED and not entry.is_harmless_value(value):
            problems.append(f"{key} = {display_value(key, value)}: not supported yet; {entry.note}")
        elif not key.startswith(metadata_prefix):
            ignored.append(key)
    return ignored


def _is_misspelt_prefix(key: str) -> bool:
    first, _, rest = key.partition(".")
    if not rest or first == "hoodie":
        return False
    similar = difflib.SequenceMatcher(None, first.lower(), "hoodie").ratio() >= 0.6
    return similar and (
        f"{_PREFIX}{rest}" in all_keys(GROUPS.values()) or find_hudi_key(f"{_PREFIX}{rest}") is not None
    )


def _without_effect(config: HoodieWriteConfig) -> list[str]:
    """What was asked for, and nothing comes of it, as the property that switches it on is not given at all."""
    given = config.properties.keys()
    found = []
    if not config.write.has_several_writers and _MODE_KEY not in given:
        asked = {_PROVIDER_KEY: config.lock.provider, _UNIQUE_KEY: config.write.unique_keys}
        if names := [key for key, value in asked.items() if value]:
            found.append(
                f"{' and '.join(names)} without {_MODE_KEY} = OPTIMISTIC_CONCURRENCY_CONTROL: this writer does "
                "not take that lock, and rolls back what others have under way"
            )
    named = {name.rpartition(".")[2] for name in config.validator.validators}
    found += [
        f"{key} is not looked at: {_VALIDATORS_KEY} does not name {validator}"
        for key, validator in _QUERIES_OF.items()
        if key in given and validator not in named
    ]
    found += [
        f"{key} without {switch} = true: nothing comes of it"
        for key, switch in _SWITCH_OF.items()
        if key in given and switch not in given
    ]
    return found


def _contradictions(config: HoodieWriteConfig) -> list[str]:
    checks: tuple[Callable[[HoodieWriteConfig], str | None], ...] = (
        _small_file_limit_above_maximum,
        _filter_starts_above_its_end,
        _other_base_path,
        _drops_and_keeps_duplicates,
        _drops_without_combining,
        _sorts_without_partitioner,
        _keeps_and_nulls_missing_columns,
        _archives_to_more_than_it_may_have,
        _several_writers_without_lock,
        _retries_without_auto_commit,
    )
    found = [problem for check in checks if (problem := check(config)) is not None]
    return [*found, *_wrong_extra_metadata(config)]


def _wrong_extra_metadata(config: HoodieWriteConfig) -> list[str]:
    way_out = f"give {_METADATA_PREFIX_KEY} a prefix that it does not begin with, or leave it out"
    found = []
    for key, value in config.extra_metadata.items():
        begins = f"{key} = {display_value(key, value)} begins with {_METADATA_PREFIX_KEY} = "
        begins += f"{config.write.commit_metadata_key_prefix!r}, so it would be stored in each commit"
        if key in RESERVED_METADATA_KEYS:
            found.append(f"{begins}, where '{key}' is the table's own: {way_out}")
        elif is_sensitive(key):
            found.append(f"{begins} for all readers of the table to see, and by its name it is a secret: {way_out}")
    return found


def _drops_and_keeps_duplicates(config: HoodieWriteConfig) -> str | None:
    policy = config.write.insert_dup_policy
    if not config.write.insert_drop_duplicates or policy is InsertDupPolicy.DROP:
        return None
    if not config.properties.get(_DUP_POLICY_KEY, "").strip():
        return None
    return (
        f"{_DROP_DUPLICATES_KEY} = true passes over records whose key is in the table, and {_DUP_POLICY_KEY} = "
        f"{policy.value.lower()} does not: leave one of them out"
    )


def _drops_without_combining(config: HoodieWriteConfig) -> str | None:
    key = "hoodie.combine.before.insert"
    if config.write.duplicates_of_inserts is not InsertDupPolicy.DROP:
        return None
    if key not in config.properties or config.write.combine_before_insert:
        return None
    given = f"{_DROP_DUPLICATES_KEY} = true" if config.write.insert_drop_duplicates else f"{_DUP_POLICY_KEY} = drop"
    return (
        f"{given} keeps one record of each key of the input, and {key} = false keeps all: leave one of them out, or "
        f"give {key} = true"
    )


def _sorts_without_partitioner(config: HoodieWriteConfig) -> str | None:
    if not config.write.bulk_insert_sort_columns or config.write.bulk_insert_partitioner_class is not None:
        return None
    return (
        "hoodie.bulkinsert.user.defined.partitioner.sort.columns = "
        f"{','.join(config.write.bulk_insert_sort_columns)!r} is read by a partitioner, and none is given: give "
        "hoodie.bulkinsert.user.defined.partitioner.class = RDDCustomColumnsSortPartitioner too (or hand "
        "bulk_insert a CustomColumnsSortPartitioner with the columns), or leave it out"
    )


def _keeps_and_nulls_missing_columns(config: HoodieWriteConfig) -> str | None:
    if not config.payload.partial_update or not config.write.set_null_for_missing_columns:
        return None
    return (
        "hoodie.write.partial.update = true keeps the values of columns that the input lacks, and "
        "hoodie.write.set.null.for.missing.columns = true writes nulls there: leave one of them out"
    )


def _archives_to_more_than_it_may_have(config: HoodieWriteConfig) -> str | None:
    minimum, maximum = config.archival.min_commits, config.archival.max_commits
    if minimum < maximum:
        return None
    return (
        f"hoodie.keep.min.commits = {minimum} is not smaller than hoodie.keep.max.commits = {maximum}: archiving would "
        "keep more commits than it allows; lower the first or raise the second"
    )


def _several_writers_without_lock(config: HoodieWriteConfig) -> str | None:
    if not config.write.has_several_writers or config.lock.provider is not None:
        return None
    return (
        f"hoodie.write.concurrency.mode = {config.write.concurrency_mode} needs hoodie.write.lock.provider, the same "
        "for all writers of the table: give FileSystemBasedLockProvider for a table on a file system, "
        "StorageBasedLockProvider for one on an object store, or another one of docs/concurrency.md"
    )


def _retries_without_auto_commit(config: HoodieWriteConfig) -> str | None:
    if not config.lock.wait_retry or config.write.auto_commit:
        return None
    return (
        "hoodie.write.lock.wait.retry = true makes a write again that met a conflict when it was committed, and "
        "hoodie.auto.commit = false leaves the commit to the caller: leave one of them out"
    )


def _small_file_limit_above_maximum(config: HoodieWriteConfig) -> str | None:
    limit, maximum = config.compaction.parquet_small_file_limit, config.storage.parquet_max_file_size
    if limit <= maximum or "hoodie.parquet.small.file.limit" not in config.properties:
        return None
    return (
        f"hoodie.parquet.small.file.limit = {limit} is larger than hoodie.parquet.max.file.size = {maximum}: files of "
        "full size would count as small; lower the first or raise the second"
    )


def _filter_starts_above_its_end(config: HoodieWriteConfig) -> str | None:
    entries, maximum = config.index.bloom_num_entries, config.index.bloom_dynamic_max_entries
    given = {
        "hoodie.index.bloom.num_entries",
        "hoodie.bloom.index.filter.dynamic.max.entries",
    } & config.properties.keys()
    if not given or config.index.bloom_filter_type != "DYNAMIC_V0" or entries <= maximum:
        return None
    return (
        f"hoodie.index.bloom.num_entries = {entries} is larger than hoodie.bloom.index.filter.dynamic.max.entries = "
        f"{maximum}: a filter cannot start above its end; raise the second"
    )


def _other_base_path(config: HoodieWriteConfig) -> str | None:
    other = config.properties.get("hoodie.base.path")
    if other is None or other.rstrip("/") == config.base_path.rstrip("/"):
        return None
    return f"hoodie.base.path = {other!r} is not the base path that was given, {config.base_path!r}: leave it out"

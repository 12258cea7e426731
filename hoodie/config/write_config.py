"""The configuration of a writer: Hudi's properties, parsed once into typed values."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import attrs

from hoodie.common.config.property import (
    ConfigProperty,
    PropertyGroup,
    all_keys,
    changed_properties,
    check_properties,
    display_value,
    is_sensitive,
    properties_of,
    read_group,
    to_property_value,
)
from hoodie.common.config.storage_config import HoodieStorageConfig
from hoodie.common.model.commit_metadata import RESERVED_METADATA_KEYS
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.util.shown_value import shown_value
from hoodie.config.archival_config import HoodieArchivalConfig
from hoodie.config.aws_config import HoodieAWSConfig
from hoodie.config.callback_config import HoodieWriteCommitCallbackConfig
from hoodie.config.clean_config import CleaningPolicy, HoodieCleanConfig
from hoodie.config.clustering_config import HoodieClusteringConfig
from hoodie.config.compaction_config import HoodieCompactionConfig
from hoodie.config.glue_sync_config import GlueCatalogSyncClientConfig
from hoodie.config.hudi_keys import KeyClass, find_hudi_key, load_hudi_keys, nearest_key
from hoodie.config.ignored_options import find_ignored_option, find_replacing_option
from hoodie.config.index_config import HoodieIndexConfig, IndexType
from hoodie.config.layout_optimize_config import HoodieLayoutOptimizeConfig
from hoodie.config.lock_config import HoodieLockConfig
from hoodie.config.log_merge_config import HoodieLogMergeConfig
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.config.metrics_config import REPORTER_TYPES, HoodieMetricsConfig
from hoodie.config.payload_config import HoodiePayloadConfig
from hoodie.config.pre_commit_validator_config import HoodiePreCommitValidatorConfig
from hoodie.config.storage_retry_config import StorageRetryConfig
from hoodie.config.streaming_config import HoodieStreamingConfig
from hoodie.config.sync_config import HiveSyncConfig, HoodieSyncConfig
from hoodie.config.table_options import HasProperties, HoodieTableOptions, version_of
from hoodie.config.timestamp_key_generator_config import HoodieTimestampKeyGeneratorConfig
from hoodie.config.ttl_config import HoodieTTLConfig
from hoodie.config.write_options import HoodieWriteOptions, InsertDupPolicy
from hoodie.exception import HoodieConfigException
from hoodie.storage.storage_options import StorageOptions, check_options
from hoodie.storage.storage_path import is_same_path

logger = logging.getLogger(__name__)

_FAILED_WRITES = {"hoodie.cleaner.policy.failed.writes", "hoodie.clean.failed.writes.policy"}

_PREFIX = "hoodie."
METADATA_PREFIX_KEY = "hoodie.datasource.write.commitmeta.key.prefix"
_DROP_DUPLICATES_KEY = "hoodie.datasource.write.insert.drop.duplicates"
_DUP_POLICY_KEY = "hoodie.datasource.insert.dup.policy"
_RECONCILE_KEY = "hoodie.datasource.write.reconcile.schema"
_COMBINE_KEY = "hoodie.combine.before.insert"
_MODE_KEY = "hoodie.write.concurrency.mode"
_PROVIDER_KEY = "hoodie.write.lock.provider"
_BUCKET_STRATEGY = "BucketIndexConcurrentFileWritesConflictResolutionStrategy"
_RECORD_INDEXES = frozenset({IndexType.RECORD_INDEX, IndexType.GLOBAL_RECORD_LEVEL_INDEX})
_UNIQUE_KEY = "hoodie.write.concurrency.unique.keys"
_VALIDATORS_KEY = "hoodie.precommit.validators"
NON_BLOCKING_SINCE_VERSION = 8
"""The first table version with NON_BLOCKING_CONCURRENCY_CONTROL."""
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
"""For each number of versions to keep: the cleaning policy that it implies."""


@attrs.frozen(kw_only=True, repr=False)
class HoodieWriteConfig:
    """The configuration of a write client: the table's location, and all properties as typed values.

    Made by `from_properties`; picklable and never changed. Printing shows what differs from the defaults, without
    secrets. Code reads ``config.storage.parquet_max_file_size``, not a key::

        config = HoodieWriteConfig.from_properties("/data/trips", {"hoodie.parquet.max.file.size": 64 * 1024 * 1024})
        config.storage.parquet_max_file_size    # 67108864

    Attributes:
        base_path: The table's folder, as it was given.
        properties: The given properties, as Hudi spells them.
        storage_options: Options and credentials of the storage; never printed.
        write: The writer's operations.
        table: The table as the properties describe it.
        storage: Size and encoding of base files.
        compaction: The packing of records into files.
        clustering: The rewriting of file groups: when, which, and in which order.
        index: The index that finds records.
        payload: The merge of records of one key.
        timestamps: The making of partition paths from times.
        retry: The repetition of failed calls of an object store.
        clean: The file versions that are kept, and the time at which the others are deleted.
        archival: The length of the active timeline, and the upkeep of its archive.
        ttl: The partitions that expire.
        log_merge: The merge of log files when they are read, and limits of memory.
        layout: The order of rows by the sort columns of a clustering.
        metadata: The partitions of the metadata table.
        lock: The lock that keeps several writers apart.
        callback: The callback after each commit.
        validator: The checks that a commit must pass before it is completed.
        metrics: The metrics of each call that are reported, and the place where they go.
        streaming: The stream that writes the table.
        sync: The syncs with catalogs.
        hive_sync: The entries of catalogs.
        aws: The account that asks Amazon's services.
        glue_sync: The sync with AWS Glue.
        commit_metadata: Further extra metadata of each commit; not a property.

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
    clustering: HoodieClusteringConfig = attrs.field(factory=HoodieClusteringConfig)
    index: HoodieIndexConfig = attrs.field(factory=HoodieIndexConfig)
    payload: HoodiePayloadConfig = attrs.field(factory=HoodiePayloadConfig)
    timestamps: HoodieTimestampKeyGeneratorConfig = attrs.field(factory=HoodieTimestampKeyGeneratorConfig)
    retry: StorageRetryConfig = attrs.field(factory=StorageRetryConfig)
    clean: HoodieCleanConfig = attrs.field(factory=HoodieCleanConfig)
    archival: HoodieArchivalConfig = attrs.field(factory=HoodieArchivalConfig)
    ttl: HoodieTTLConfig = attrs.field(factory=HoodieTTLConfig)
    log_merge: HoodieLogMergeConfig = attrs.field(factory=HoodieLogMergeConfig)
    layout: HoodieLayoutOptimizeConfig = attrs.field(factory=HoodieLayoutOptimizeConfig)
    metadata: HoodieMetadataConfig = attrs.field(factory=HoodieMetadataConfig)
    lock: HoodieLockConfig = attrs.field(factory=HoodieLockConfig)
    callback: HoodieWriteCommitCallbackConfig = attrs.field(factory=HoodieWriteCommitCallbackConfig)
    validator: HoodiePreCommitValidatorConfig = attrs.field(factory=HoodiePreCommitValidatorConfig)
    metrics: HoodieMetricsConfig = attrs.field(factory=HoodieMetricsConfig)
    streaming: HoodieStreamingConfig = attrs.field(factory=HoodieStreamingConfig)
    sync: HoodieSyncConfig = attrs.field(factory=HoodieSyncConfig)
    hive_sync: HiveSyncConfig = attrs.field(factory=HiveSyncConfig)
    aws: HoodieAWSConfig = attrs.field(factory=HoodieAWSConfig)
    glue_sync: GlueCatalogSyncClientConfig = attrs.field(factory=GlueCatalogSyncClientConfig)
    commit_metadata: Mapping[str, str] = attrs.field(factory=dict)
    # The table's properties that agreed last. A write checks them several times, and they seldom change.
    _agreed: list[Mapping[str, str]] = attrs.field(init=False, factory=list, eq=False)

    @classmethod
    def from_properties(
        cls,
        base_path: str | os.PathLike[str],
        properties: Mapping[str, Any] | None = None,
        storage_options: StorageOptions | None = None,
    ) -> HoodieWriteConfig:
        """Parse Hudi's properties.

        Keys that do not start with ``hoodie.`` are kept in `properties` but otherwise ignored (a pasted configuration
        may hold Spark's ``path`` or a source's own options), unless they look like a misspelt ``hoodie.`` key.

        Args:
            base_path: The table's folder: a path or URL.
            properties: Hudi's property names -> values: text, or booleans, numbers, enum members, lists of strings.
            storage_options: Options and credentials of the storage, or a function that returns them.

        Returns:
            The configuration.

        Raises:
            HoodieConfigException: Properties are unknown to Hudi, not supported by hoodie, do not parse, or contradict
                each other: one message names all of them.
        """
        check_properties(properties)
        check_options(storage_options)
        problems: list[str] = []
        path = os.fspath(base_path) if isinstance(base_path, str | os.PathLike) else ""
        if not isinstance(path, str) or not path.strip():
            problems.append(f"base_path = {base_path!r}: must be the path or URL of the table's folder")
        given = _without_deleting_payload(_as_text(properties or {}, problems))
        groups = {name: read_group(group, given, problems) for name, group in GROUPS.items()}
        groups["clean"] = _with_inferred_policy(groups["clean"], given)
        groups["metadata"] = _with_index_of_writer(groups["metadata"], groups["index"])
        config = cls(base_path=path, properties=given, storage_options=storage_options, **groups)
        warnings: list[str] = []
        ignored = _check_keys(given, config.write.commit_metadata_key_prefix, problems, warnings)
        problems += _contradictions(config)
        if problems:
            count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
            lines = "".join(f"\n  - {problem}" for problem in problems)
            raise HoodieConfigException(f"Configuration of the table at {base_path!r}, {count}:{lines}")
        if config.write.failed_writes is not config.write.failed_writes_policy and _FAILED_WRITES & given.keys():
            logger.warning(
                "hoodie.cleaner.policy.failed.writes = %s is for a single writer; with "
                "hoodie.write.concurrency.mode = %s hoodie uses LAZY",
                config.write.failed_writes_policy,
                config.write.concurrency_mode,
            )
        warnings += _missing_receivers(config)
        if len(warnings) == 1:
            logger.warning("%s", warnings[0])
        elif warnings:
            lines = "".join(f"\n  - {line}" for line in warnings)
            logger.warning("hoodie does not do what %d options ask for, and writes without it:%s", len(warnings), lines)
        for line in _without_effect(config):
            logger.warning("%s", line)
        if ignored:
            logger.info("These properties change nothing in hoodie and are ignored: %s", ", ".join(sorted(ignored)))
        return config

    def __repr__(self) -> str:
        changed: dict[str, str] = {}
        for name in GROUPS:
            changed |= changed_properties(getattr(self, name))
        known = _own_keys()
        # Keys of other systems may hold secrets under names that we do not recognise.
        others = {key: value for key, value in self.properties.items() if key.startswith(_PREFIX) and key not in known}
        changed |= {key: display_value(key, value) for key, value in others.items()}
        shown = ", ".join(f"{key!r}: {value}" for key, value in sorted(changed.items()))
        return f"{type(self).__name__}({display_value('hoodie.base.path', self.base_path)}, {{{shown}}})"

    @property
    def extra_metadata(self) -> dict[str, str]:
        """The pairs of every commit: properties that ``commit_metadata_key_prefix`` selects, and `commit_metadata`."""
        prefix = self.write.commit_metadata_key_prefix
        selected = {key: value for key, value in self.properties.items() if key.startswith(prefix)}
        return {**selected, **self.commit_metadata}

    def check_against_table(self, table_config: HasProperties) -> None:
        """Refuse properties that contradict what the table says about itself.

        Args:
            table_config: The table's configuration.

        Raises:
            HoodieConfigException: The writer gives another table name, type, key, partitioning, ordering, key generator
                or payload than the table has, or a concurrency mode that its tables cannot have; one message names all
                differences.
        """
        if self._agreed == [table_config.properties]:
            return
        found = [
            *self.table.contradictions(table_config),
            *self.payload.contradictions(table_config),
            *self.timestamps.contradictions(table_config.properties),
        ]
        version = version_of(table_config.properties)
        if self.table.auto_upgrade and self.table.table_version is not None:
            version = max(version, self.table.table_version)
        if not table_config.properties.get("hoodie.table.recordkey.fields", "").strip():
            found += self.keyless_problems()
        found += self.concurrency_problems(table_config.properties.get("hoodie.table.type", "COPY_ON_WRITE"), version)
        if found:
            lines = "".join(f"\n  - {problem}" for problem in found)
            raise HoodieConfigException(
                f"The properties of this writer contradict those of the table at {self.base_path!r}:{lines}"
            )
        self._agreed[:] = [dict(table_config.properties)]

    def keyless_problems(self) -> list[str]:
        """Why a table whose keys are generated cannot be written with these properties; empty if it can.

        Hudi: org.apache.hudi.AutoRecordKeyGenerationUtils, which refuses some of them.
        """
        found, write = [], self.write
        why = "the keys of the table are generated, so no record has the key of another one"
        if write.duplicates_of_inserts is not InsertDupPolicy.NONE:
            key = _DROP_DUPLICATES_KEY if write.insert_drop_duplicates else _DUP_POLICY_KEY
            found.append(f"{key} = {display_value(key, self.properties.get(key, ''))}: {why}; leave it out")
        elif write.combine_before_insert and _COMBINE_KEY in self.properties:
            found.append(f"{_COMBINE_KEY} = true: {why}; leave it out, and drop equal rows yourself")
        if write.unique_keys:
            found.append(f"hoodie.write.concurrency.unique.keys = true: {why}; leave it out")
        if self.payload.partial_update:
            found.append(
                "hoodie.write.partial.update = true: rows are changed by the stored keys that they carry; leave it "
                "out, and use update() or merge() to set some columns"
            )
        if self.index.index_type is IndexType.BUCKET:
            found.append(
                "hoodie.index.type = BUCKET: buckets are made of record key fields, and the keys of the table are "
                "generated; leave it out, or take BLOOM, SIMPLE or RECORD_INDEX"
            )
        if self.table.populate_meta_fields is False:
            found.append(
                "hoodie.populate.meta.fields = false: generated keys are stored in these columns only; leave it out"
            )
        return found

    def concurrency_problems(self, table_type: str, table_version: int) -> list[str]:
        """Why a table cannot be written in the writer's concurrency mode; empty if it can.

        Args:
            table_type: Its type.
            table_version: Its version.

        Source: HoodieWriteConfig.Builder.validate, CommonClientUtils.validateTableVersion.
        """
        if not self.write.is_non_blocking:
            return []
        found = []
        mode = f"{_MODE_KEY} = {self.write.concurrency_mode}"
        if table_type != HoodieTableType.MERGE_ON_READ:
            found.append(
                f"{mode}: the table is of type {table_type}, whose writers rewrite base files; give "
                "OPTIMISTIC_CONCURRENCY_CONTROL, or write to a table made as MERGE_ON_READ"
            )
        if table_version < NON_BLOCKING_SINCE_VERSION:
            found.append(
                f"{mode}: the table is of version {table_version}, where names of log files do not tell their commits; "
                "give OPTIMISTIC_CONCURRENCY_CONTROL, or upgrade the table to version 8 or 9 with "
                "HoodieTableMetaClient.upgrade"
            )
        return found


_DEFAULTS = attrs.asdict(HoodieWriteConfig(base_path=""), recurse=False)
GROUPS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {name: type(value) for name, value in _DEFAULTS.items() if isinstance(value, PropertyGroup)}
)
"""The groups of properties: field of `HoodieWriteConfig` -> class."""


def check_config(config: object, client: str) -> None:
    """Refuse anything but a `HoodieWriteConfig`.

    Args:
        config: The caller's argument.
        client: The client's class, for the message.

    Raises:
        HoodieConfigException: The argument has another type.
    """
    if not isinstance(config, HoodieWriteConfig):
        raise HoodieConfigException(
            f"the config of {client} is {shown_value(config)}: give a HoodieWriteConfig, as "
            "HoodieWriteConfig.from_properties(base_path, {...}) makes it"
        )


def _with_index_of_writer(metadata: HoodieMetadataConfig, index: HoodieIndexConfig) -> HoodieMetadataConfig:
    """Ask for the record index that the writer's index looks keys up in, unless the user refuses one."""
    if metadata.enable is False or index.index_class is not None:
        return metadata
    if index.index_type in _RECORD_INDEXES and metadata.record_index_enable is None:
        return attrs.evolve(metadata, record_index_enable=True)
    if index.index_type is IndexType.RECORD_LEVEL_INDEX and metadata.partitioned_record_index_enable is None:
        return attrs.evolve(metadata, partitioned_record_index_enable=True)
    return metadata


def _with_inferred_policy(clean: HoodieCleanConfig, given: Mapping[str, str]) -> HoodieCleanConfig:
    """Set the cleaning policy by the one number that is given, if no policy is given."""
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


def _without_deleting_payload(given: dict[str, str]) -> dict[str, str]:
    """The properties of a delete without Hudi's payload class of deletes, which says the same once more."""
    if given.get("hoodie.datasource.write.operation", "").strip().lower() != "delete":
        return given
    return {
        key: value
        for key, value in given.items()
        if not (key.endswith(".payload.class") and value.strip().endswith("EmptyHoodieRecordPayload"))
    }


def _check_keys(given: Mapping[str, str], metadata_prefix: str, problems: list[str], warnings: list[str]) -> list[str]:
    """Find unknown and refused keys (problems), and keys without the wished effect (warnings); return harmless keys."""
    used = _own_keys()
    # A prefix that all of Hudi's names have does not make a misspelt name right.
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
                nearest = nearest_key(key, _known_names())
                problems.append(f"{key} = {display_value(key, value)}: Hudi has no such property; nearest: {nearest}")
            elif (instead := find_replacing_option(key, value)) is not None:
                problems.append(f"{key} = {display_value(key, value)}: not an option of hoodie; {instead}")
            elif not key.startswith((_PREFIX, metadata_prefix)) and (why := find_ignored_option(key, _known_names())):
                warnings.append(why)
        elif entry.key_class is KeyClass.IGNORED and not entry.is_harmless_value(value):
            warnings.append(f"{key} = {display_value(key, value)}: {entry.note}")
        elif entry.key_class is KeyClass.REFUSED and not entry.is_harmless_value(value):
            problems.append(f"{key} = {display_value(key, value)}: not supported yet; {entry.note}")
        elif not key.startswith(metadata_prefix):
            ignored.append(key)
    return ignored


@cache
def _own_keys() -> Mapping[str, ConfigProperty]:
    return MappingProxyType(all_keys(GROUPS.values()))


@cache
def _known_names() -> tuple[str, ...]:
    return (*_own_keys(), *(name for name in load_hudi_keys() if not name.endswith("*")))


def _is_misspelt_prefix(key: str) -> bool:
    first, _, rest = key.partition(".")
    if not rest or first == "hoodie":
        return False
    similar = difflib.SequenceMatcher(None, first.lower(), "hoodie").ratio() >= 0.6
    return similar and (f"{_PREFIX}{rest}" in _own_keys() or find_hudi_key(f"{_PREFIX}{rest}") is not None)


def _missing_receivers(config: HoodieWriteConfig) -> list[str]:
    """Reporters and callbacks of Hudi that hoodie does not have: nobody is told, and the rows are the same."""
    found = []
    if (reporter := config.metrics.missing_reporter) is not None:
        given = "" if config.metrics.reporter_type else ", the default of Hudi"
        known = ", ".join(REPORTER_TYPES)
        found.append(
            f"hoodie.metrics.on = 'true': no metrics are reported, because hoodie.metrics.reporter.type = {reporter}"
            f"{given} is not there: give one of {known}, or on_progress"
        )
    if (callback := config.callback.missing_callback) is not None:
        found.append(
            f"hoodie.write.commit.callback.class = {callback!r}: no message is sent after a commit: post to a URL "
            "(hoodie.write.commit.callback.http.url), or give a Python class"
        )
    return found


def _without_effect(config: HoodieWriteConfig) -> list[str]:
    """Settings without effect, because the property that switches them on is not given."""
    given = config.properties.keys()
    found = []
    if not config.write.has_several_writers and _MODE_KEY not in given:
        asked = {_PROVIDER_KEY: config.lock.provider, _UNIQUE_KEY: config.write.unique_keys}
        if names := [key for key, value in asked.items() if value]:
            found.append(
                f"{' and '.join(names)} without {_MODE_KEY} = OPTIMISTIC_CONCURRENCY_CONTROL: this writer does "
                "not take that lock, and rolls back pending writes of other writers"
            )
    named = {name.rpartition(".")[2] for name in config.validator.validators}
    found += [
        f"{key} has no effect: {_VALIDATORS_KEY} does not name {validator}"
        for key, validator in _QUERIES_OF.items()
        if key in given and validator not in named
    ]
    found += [
        f"{key} has no effect without {switch} = true"
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
        _non_blocking_without_buckets,
        _non_blocking_with_early_detection,
        _non_blocking_with_another_strategy,
        _retries_without_auto_commit,
        _two_record_indexes,
        _record_index_of_no_count,
    )
    found = [problem for check in checks if (problem := check(config)) is not None]
    return [*found, *_wrong_extra_metadata(config)]


def _wrong_extra_metadata(config: HoodieWriteConfig) -> list[str]:
    way_out = f"give {METADATA_PREFIX_KEY} a prefix that it does not begin with, or leave it out"
    found = []
    for key, value in config.extra_metadata.items():
        begins = f"{key} = {display_value(key, value)} begins with {METADATA_PREFIX_KEY} = "
        begins += f"{config.write.commit_metadata_key_prefix!r}, so it would be stored in each commit"
        if key in RESERVED_METADATA_KEYS:
            found.append(f"{begins}, where '{key}' is reserved for the table: {way_out}")
        elif is_sensitive(key):
            found.append(f"{begins}, where all readers can see it, and its name says it is a secret: {way_out}")
    return found


def _two_record_indexes(config: HoodieWriteConfig) -> str | None:
    metadata = config.metadata
    if not metadata.record_index_enable or not metadata.partitioned_record_index_enable:
        return None
    return (
        "a table has one record index, and an index of the whole table (hoodie.index.type = RECORD_INDEX or "
        "hoodie.metadata.global.record.level.index.enable = true) and one by partitions (RECORD_LEVEL_INDEX or "
        "hoodie.metadata.record.level.index.enable = true) are asked for: leave one of them out"
    )


def _record_index_of_no_count(config: HoodieWriteConfig) -> str | None:
    metadata = config.metadata
    for infix, minimum, maximum in (
        ("global.", metadata.record_index_min_file_groups, metadata.record_index_max_file_groups),
        ("", metadata.partitioned_record_index_min_file_groups, metadata.partitioned_record_index_max_file_groups),
    ):
        if minimum > maximum:
            key = f"hoodie.metadata.{infix}record.level.index"
            return (
                f"{key}.min.filegroup.count = {minimum} is more than {key}.max.filegroup.count = {maximum}: lower the "
                "first or raise the second"
            )
    return None


def _drops_and_keeps_duplicates(config: HoodieWriteConfig) -> str | None:
    policy = config.write.insert_dup_policy
    if not config.write.insert_drop_duplicates or policy is InsertDupPolicy.DROP:
        return None
    if not config.properties.get(_DUP_POLICY_KEY, "").strip():
        return None
    return (
        f"{_DROP_DUPLICATES_KEY} = true drops records whose key is in the table, and {_DUP_POLICY_KEY} = "
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
        "hoodie.bulkinsert.user.defined.partitioner.class = RDDCustomColumnsSortPartitioner too (or pass a "
        "CustomColumnsSortPartitioner with the columns to bulk_insert), or leave it out"
    )


def _keeps_and_nulls_missing_columns(config: HoodieWriteConfig) -> str | None:
    if not config.payload.partial_update or not config.write.nulls_missing_columns:
        return None
    by_old_name = not config.write.set_null_for_missing_columns
    nulls = _RECONCILE_KEY if by_old_name else "hoodie.write.set.null.for.missing.columns"
    return (
        "hoodie.write.partial.update = true keeps the values of columns that the input lacks, and "
        f"{nulls} = true writes nulls there: leave one of them out"
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
        "StorageBasedLockProvider for a table on an object store, or another provider from docs/concurrency.md"
    )


def _non_blocking_without_buckets(config: HoodieWriteConfig) -> str | None:
    index = config.index
    if not config.write.is_non_blocking or (index.index_class is None and index.index_type is IndexType.BUCKET):
        return None
    key = "hoodie.index.type" if index.index_class is None else "hoodie.index.class"
    return (
        f"{_MODE_KEY} = NON_BLOCKING_CONCURRENCY_CONTROL needs an index by which all writers put a key into the same "
        f"file group, and {key} is {index.index_name}: give hoodie.index.type = BUCKET, if the table has buckets, "
        "or OPTIMISTIC_CONCURRENCY_CONTROL"
    )


def _non_blocking_with_early_detection(config: HoodieWriteConfig) -> str | None:
    if not config.write.is_non_blocking or not config.write.early_conflict_detection:
        return None
    return (
        "hoodie.write.concurrency.early.conflict.detection.enable = true refuses a write to a file group that another "
        f"writer is writing, and {_MODE_KEY} = NON_BLOCKING_CONCURRENCY_CONTROL is for such writes: leave one of them "
        "out"
    )


def _non_blocking_with_another_strategy(config: HoodieWriteConfig) -> str | None:
    strategy = config.write.conflict_resolution_strategy
    if not config.write.is_non_blocking or strategy is None or strategy.rpartition(".")[2] == _BUCKET_STRATEGY:
        return None
    return (
        f"hoodie.write.lock.conflict.resolution.strategy = {strategy}: with {_MODE_KEY} = "
        "NON_BLOCKING_CONCURRENCY_CONTROL writes are compared by buckets, or two of them could give one bucket two "
        "file groups; leave it out"
    )


def _retries_without_auto_commit(config: HoodieWriteConfig) -> str | None:
    if not config.lock.wait_retry or config.write.auto_commit:
        return None
    return (
        "hoodie.write.lock.wait.retry = true repeats a write whose commit met a conflict, and "
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
        f"{maximum}: a filter cannot start larger than its maximum; raise the second"
    )


def _other_base_path(config: HoodieWriteConfig) -> str | None:
    other = config.properties.get("hoodie.base.path")
    if other is None or not config.base_path.strip() or is_same_path(other, config.base_path):
        return None
    return f"hoodie.base.path = {other!r} is not the base path that was given, {config.base_path!r}: leave it out"

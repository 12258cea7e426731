"""Choose the operation of a write without a client, by its options, and run it.

Hudi: deduceOperation and the operations of org.apache.hudi.HoodieSparkSqlWriter.
"""

from __future__ import annotations

import logging
from typing import Any

import attrs

from hoodie.client.base_write_client import BaseHoodieWriteClient
from hoodie.client.partitions_to_delete import MatchingPartitions, PartitionsOfRows
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.config.write_options import InsertDupPolicy, KeylessUpsert
from hoodie.exception import HoodieConfigException

logger = logging.getLogger(__name__)

OPERATIONS = (
    "upsert",
    "insert",
    "bulk_insert",
    "delete",
    "insert_overwrite",
    "insert_overwrite_table",
    "delete_partition",
)
"""Operations that can be called without a client."""
DELETES = ("delete", "delete_partition")
"""The operations among them that need a table."""
_OPERATION_KEY = "hoodie.datasource.write.operation"
_KEYLESS_UPSERT_KEY = "hoodie.write.keyless.upsert"
_PARTITIONS_KEY = "hoodie.datasource.write.partitions.to.delete"
_STATIC_PATHS_KEY = "hoodie.static.overwrite.partition.paths"
_INSERTS = ("insert", "bulk_insert")


def operation_to_do(operation: WriteOperationType | str | None, config: HoodieWriteConfig) -> str:
    """The name of the client's method: the argument if given, else what the properties say.

    Args:
        operation: The caller's argument; None leaves the choice to the properties.
        config: The write's configuration.

    Raises:
        HoodieConfigException: The argument and the properties contradict each other, the operation is not one of
            `OPERATIONS`, ``hoodie.auto.commit`` is false, or the partitions to delete are an empty list; one message
            names all of these.
    """
    given = config.write.operation
    name = str(operation or given).lower()
    policy_key = _duplicates_key(config)
    problems = []
    if not config.write.auto_commit:
        problems.append(
            "hoodie.auto.commit = false, and a write without a client always commits: leave it out, or write with a "
            "client and then call its commit"
        )
    if operation is not None and _OPERATION_KEY in config.properties and name.upper() != given.value.upper():
        problems.append(f"{_OPERATION_KEY} = {given.value.lower()!r}, and the argument says {name!r}: give one of them")
    if name not in OPERATIONS:
        problems.append(f"operation {(operation or name)!r} is not one of {', '.join(OPERATIONS)}")
    if name == "delete_partition" and _PARTITIONS_KEY in config.properties and not config.write.partitions_to_delete:
        problems.append(
            f"{_PARTITIONS_KEY} = {config.properties[_PARTITIONS_KEY]!r} names no partition: give partition paths, or "
            "leave it out to delete the partitions that the rows go to"
        )
    if name == "upsert" and operation is not None and policy_key is not None:
        problems.append(
            f"operation='upsert' updates records whose key is in the table, and {policy_key} = "
            f"{config.properties[policy_key]} says what inserts do with them: leave that out, or give "
            "operation='insert'"
        )
    if problems:
        raise HoodieConfigException("; ".join(problems))
    if name == "upsert" and policy_key is not None:
        logger.warning(
            "%s = %s concerns inserts: an insert is done instead of an upsert, as in Hudi; give operation='insert'",
            policy_key,
            config.properties[policy_key],
        )
        name = "insert"
    if name == "delete" and config.payload.partial_update:
        logger.warning("hoodie.write.partial.update = true concerns upserts only: the delete removes whole records")
    for key in _without_effect(name, config):
        logger.warning("%s = %s has no effect on operation %s", key, config.properties[key], name)
    return name


def with_default_operation(config: HoodieWriteConfig) -> HoodieWriteConfig:
    """The configuration for a write whose caller names no operation.

    Unless the properties name one, rows that carry no stored keys are inserted where the table generates its keys, as
    in Hudi.

    Args:
        config: The write's configuration.
    """
    if _OPERATION_KEY in config.properties or _KEYLESS_UPSERT_KEY in config.properties:
        return config
    return attrs.evolve(config, write=attrs.evolve(config.write, keyless_upsert=KeylessUpsert.INSERT))


def check_mode(operation: str, mode: str) -> None:
    """Refuse a delete with a mode of Spark that is not ``append``.

    Args:
        operation: One of `OPERATIONS`.
        mode: The mode, in lower case.

    Raises:
        HoodieConfigException: Operation and mode contradict each other.
    """
    if operation in DELETES and mode != "append":
        raise HoodieConfigException(f"mode {mode!r} with a {operation}: use mode 'append' for a {operation}")


def _duplicates_key(config: HoodieWriteConfig) -> str | None:
    """The option that says what inserts do with keys that are in the table, if they do not add them."""
    if config.write.duplicates_of_inserts is InsertDupPolicy.NONE:
        return None
    drops = config.write.insert_drop_duplicates
    return "hoodie.datasource.write.insert.drop.duplicates" if drops else "hoodie.datasource.insert.dup.policy"


def _without_effect(name: str, config: HoodieWriteConfig) -> list[str]:
    """Options that are given for another operation than the one that is done."""
    policy_key = _duplicates_key(config)
    concerned = {
        _PARTITIONS_KEY: ("delete_partition",),
        _STATIC_PATHS_KEY: ("insert_overwrite",),
        **({policy_key: _INSERTS} if policy_key is not None else {}),
    }
    return [key for key, names in concerned.items() if key in config.properties and name not in names]


def run_operation(
    client: BaseHoodieWriteClient,
    name: str,
    data: Any,
    config: HoodieWriteConfig,
    known: frozenset[str] | None = None,
) -> HoodieWriteResult:
    """Call the client's method of an operation.

    Args:
        client: The client.
        name: One of `OPERATIONS`.
        data: The rows, or the keys to delete; not read if options name the partitions to delete.
        config: The write's configuration.
        known: The completed writes that the rows may take into account; None for all. See `refuse_unknown_writes`.

    Returns:
        The outcome.

    Raises:
        HoodieException: Any error of the operation.
    """
    client.compact_by_default()
    client.refuse_writes_beyond(known)
    if name == "delete_partition":
        patterns = config.write.partitions_to_delete
        return client.delete_partitions(MatchingPartitions(patterns) if patterns else PartitionsOfRows(data))
    result: HoodieWriteResult = getattr(client, name)(data)
    return result

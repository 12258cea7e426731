"""Properties of locks: which service keeps writers apart, and how long one waits for another."""

from __future__ import annotations

from enum import StrEnum

import attrs

from hoodie.common.config.property import Parser, PropertyGroup, boolean, choice, integer, property_field, text

__all__ = ["DynamoDbBillingMode", "HoodieLockConfig"]

_PREFIX = "hoodie.write.lock."
_MILLISECONDS = integer(minimum=0)
_COUNT: Parser[int] = integer(minimum=0, maximum=2**31 - 1)


class DynamoDbBillingMode(StrEnum):
    """How Amazon charges for a table of DynamoDB."""

    PAY_PER_REQUEST = "PAY_PER_REQUEST"
    PROVISIONED = "PROVISIONED"


@attrs.frozen(kw_only=True, repr=False)
class HoodieLockConfig(PropertyGroup):
    """How writers of one table keep out of each other's way while they complete an instant.

    All writers of a table, those of other programs too, must be given the same lock.

    Hudi: org.apache.hudi.config.HoodieLockConfig, DynamoDbBasedLockConfig and StorageBasedLockConfig.
    """

    provider: str | None = property_field(
        _PREFIX + "provider",
        text("a lock provider"),
        None,
        "What keeps writers apart: `FileSystemBasedLockProvider`, `StorageBasedLockProvider`, "
        "`ZookeeperBasedLockProvider`, `DynamoDBBasedLockProvider` or `InProcessLockProvider`, by these names or by "
        "Hudi's full class names, or a `LockProvider` of your own as package.module.Class. Needed for "
        "OPTIMISTIC_CONCURRENCY_CONTROL.",
    )
    wait_time_ms: int = property_field(
        _PREFIX + "wait_time_ms",
        _MILLISECONDS,
        60_000,
        "How long one attempt to take the lock waits, in milliseconds. The lease of a DynamoDB lock is as long.",
    )
    client_num_retries: int = property_field(
        _PREFIX + "client.num_retries",
        _COUNT,
        50,
        "Attempts to take the lock after the first one.",
    )
    client_wait_time_ms_between_retry: int = property_field(
        _PREFIX + "client.wait_time_ms_between_retry",
        _MILLISECONDS,
        5000,
        "Pause between two attempts to take the lock, in milliseconds.",
    )
    num_retries: int = property_field(
        _PREFIX + "num_retries",
        _COUNT,
        15,
        "How often a call of ZooKeeper is made again whose connection failed.",
    )
    wait_time_ms_between_retry: int = property_field(
        _PREFIX + "wait_time_ms_between_retry",
        integer(minimum=1),
        100,
        "Longest pause before the lock is looked at again within an attempt, in milliseconds; it doubles each time. "
        "Hudi's default is 1000.",
    )
    max_wait_time_ms_between_retry: int = property_field(
        _PREFIX + "max_wait_time_ms_between_retry",
        integer(minimum=1),
        2000,
        "Longest of these pauses, in milliseconds. Hudi's default is 16000.",
    )
    filesystem_path: str | None = property_field(
        _PREFIX + "filesystem.path",
        text("a folder"),
        None,
        "Folder of the file `lock` of FileSystemBasedLockProvider; the table's `.hoodie` when it is not given.",
    )
    filesystem_expire_minutes: int = property_field(
        _PREFIX + "filesystem.expire",
        _COUNT,
        0,
        "Age in minutes at which a file system lock counts as left by a writer that died; 0 for never: then somebody "
        "must delete the file. A live writer of hoodie keeps its lock young, one of Hudi does not: give more than its "
        "longest commit takes.",
    )
    storage_validity_seconds: int = property_field(
        _PREFIX + "storage.validity.timeout.secs",
        integer(minimum=1),
        300,
        "How long a lock of StorageBasedLockProvider is valid without being renewed, in seconds.",
        since="1.1",
    )
    storage_renew_interval_seconds: int = property_field(
        _PREFIX + "storage.renew.interval.secs",
        integer(minimum=1),
        30,
        "Time between two renewals of a lock of StorageBasedLockProvider, in seconds; at most a tenth of its validity.",
        since="1.1",
        alternatives=(_PREFIX + "storage.heartbeat.poll.secs",),
    )
    zookeeper_url: str | None = property_field(
        _PREFIX + "zookeeper.url",
        text("a host, or several with ports"),
        None,
        "ZooKeeper's host, or `host:port,host:port`.",
    )
    zookeeper_port: int | None = property_field(
        _PREFIX + "zookeeper.port",
        integer(minimum=1, maximum=65535),
        None,
        "ZooKeeper's port, for hosts that are given without one.",
    )
    zookeeper_base_path: str | None = property_field(
        _PREFIX + "zookeeper.base_path",
        text("a path"),
        None,
        "Path in ZooKeeper below which the lock is; the same for all writers of a table.",
    )
    zookeeper_lock_key: str | None = property_field(
        _PREFIX + "zookeeper.lock_key",
        text("a name"),
        None,
        "Name of the lock below the base path; the table's name when it is not given.",
    )
    zookeeper_session_timeout_ms: int = property_field(
        _PREFIX + "zookeeper.session_timeout_ms",
        integer(minimum=1),
        60_000,
        "Time after which ZooKeeper takes the lock from a writer that it does not hear of, in milliseconds.",
    )
    zookeeper_connection_timeout_ms: int = property_field(
        _PREFIX + "zookeeper.connection_timeout_ms",
        integer(minimum=1),
        15_000,
        "How long to wait for a connection to ZooKeeper, in milliseconds.",
    )
    dynamodb_table: str = property_field(
        _PREFIX + "dynamodb.table",
        text("a table"),
        "hudi_locks",
        "DynamoDB's table of locks; made when it is missing.",
    )
    dynamodb_partition_key: str | None = property_field(
        _PREFIX + "dynamodb.partition_key",
        text("a key"),
        None,
        "Key of the table's lock in DynamoDB; the table's name when it is not given.",
    )
    dynamodb_region: str = property_field(
        _PREFIX + "dynamodb.region",
        text("a region"),
        "us-east-1",
        "DynamoDB's region.",
    )
    dynamodb_endpoint_url: str | None = property_field(
        _PREFIX + "dynamodb.endpoint_url",
        text("a URL"),
        None,
        "URL of another DynamoDB than Amazon's.",
    )
    dynamodb_billing_mode: DynamoDbBillingMode = property_field(
        _PREFIX + "dynamodb.billing_mode",
        choice(DynamoDbBillingMode),
        DynamoDbBillingMode.PAY_PER_REQUEST,
        "How a table of locks that hoodie makes is paid for.",
    )
    dynamodb_read_capacity: int = property_field(
        _PREFIX + "dynamodb.read_capacity", integer(minimum=1), 20, "Read capacity of such a table with PROVISIONED."
    )
    dynamodb_write_capacity: int = property_field(
        _PREFIX + "dynamodb.write_capacity", integer(minimum=1), 10, "Write capacity of such a table with PROVISIONED."
    )
    dynamodb_table_creation_timeout_ms: int = property_field(
        _PREFIX + "dynamodb.table_creation_timeout",
        _MILLISECONDS,
        120_000,
        "How long to wait until such a table can be used, in milliseconds.",
    )
    single_writer_enable: bool = property_field(
        _PREFIX + "single.writer.enable",
        boolean(),
        True,
        "With SINGLE_WRITER: wait for a writer of hoodie in another process, for `hoodie.write.lock.wait_time_ms` at "
        "most. On a file system a lock of the operating system keeps processes apart; elsewhere only what another one "
        "began in the last 10 seconds is waited for.",
        is_ours=True,
    )
    wait_retry: bool = property_field(
        _PREFIX + "wait.retry",
        boolean(),
        False,
        "A write with auto-commit that lost against another writer is made again, on the table as it is then, instead "
        "of failing. The input is held for that long.",
        is_ours=True,
    )
    wait_retry_max_attempts: int = property_field(
        _PREFIX + "wait.retry.max.attempts",
        integer(minimum=1, maximum=2**31 - 1),
        10,
        "How often such a write is made at most, the first time included.",
        is_ours=True,
    )
    wait_retry_max_time_ms: int = property_field(
        _PREFIX + "wait.retry.max.time.ms",
        _MILLISECONDS,
        600_000,
        "Time since the first one began after which such a write is not made again, in milliseconds.",
        is_ours=True,
    )
    num_retries_on_conflict_failures: int = property_field(
        "hoodie.write.num.retries.on.conflict.failures",
        _COUNT,
        0,
        "Hudi's name of the same: as many repetitions, where hoodie.write.lock.wait.retry is not given.",
    )

    @property
    def write_attempts(self) -> int:
        """How often a write is made at most whose commits meet conflicts."""
        return self.wait_retry_max_attempts if self.wait_retry else 1 + self.num_retries_on_conflict_failures

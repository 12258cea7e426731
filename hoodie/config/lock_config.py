"""Properties of locks: which lock provider is used, and how long a writer waits."""

from __future__ import annotations

from enum import StrEnum

import attrs

from hoodie.common.config.property import Parser, PropertyGroup, boolean, choice, integer, property_field, text

_PREFIX = "hoodie.write.lock."
_MILLISECONDS = integer(minimum=0)
_COUNT: Parser[int] = integer(minimum=0, maximum=2**31 - 1)


class DynamoDbBillingMode(StrEnum):
    """Amazon's way of charging for a DynamoDB table."""

    PAY_PER_REQUEST = "PAY_PER_REQUEST"
    PROVISIONED = "PROVISIONED"


@attrs.frozen(kw_only=True, repr=False)
class HoodieLockConfig(PropertyGroup):
    """The lock that the writers of a table take while they complete an instant.

    All writers of a table, in other programs too, must use the same lock.

    Hudi: org.apache.hudi.config.HoodieLockConfig, DynamoDbBasedLockConfig and StorageBasedLockConfig.
    """

    provider: str | None = property_field(_PREFIX + "provider", text("a lock provider"), None)
    """The lock provider: `FileSystemBasedLockProvider`, `StorageBasedLockProvider`, `ZookeeperBasedLockProvider`,
    `DynamoDBBasedLockProvider` or `InProcessLockProvider`, by these names or by Hudi's full class names, or your own
    `LockProvider` as package.module.Class. Required for OPTIMISTIC_CONCURRENCY_CONTROL."""
    wait_time_ms: int = property_field(_PREFIX + "wait_time_ms", _MILLISECONDS, 60_000)
    """How long one attempt to take the lock waits, in milliseconds. It is also the lease time of a DynamoDB lock."""
    client_num_retries: int = property_field(_PREFIX + "client.num_retries", _COUNT, 50)
    """The number of attempts to take the lock after the first one."""
    client_wait_time_ms_between_retry: int = property_field(
        _PREFIX + "client.wait_time_ms_between_retry", _MILLISECONDS, 5000
    )
    """Pause between two attempts to take the lock, in milliseconds."""
    num_retries: int = property_field(_PREFIX + "num_retries", _COUNT, 15)
    """How often a ZooKeeper call is repeated after a lost connection."""
    wait_time_ms_between_retry: int = property_field(_PREFIX + "wait_time_ms_between_retry", integer(minimum=1), 100)
    """The longest first pause before the lock is tried again within an attempt, in milliseconds; it doubles each time.
    Hudi's default is 1000."""
    max_wait_time_ms_between_retry: int = property_field(
        _PREFIX + "max_wait_time_ms_between_retry", integer(minimum=1), 2000
    )
    """The maximum of these pauses, in milliseconds. Hudi's default is 16000."""
    filesystem_path: str | None = property_field(_PREFIX + "filesystem.path", text("a folder"), None)
    """The folder of the file `lock` of FileSystemBasedLockProvider; default: the table's `.hoodie`."""
    filesystem_expire_minutes: int = property_field(_PREFIX + "filesystem.expire", _COUNT, 0)
    """The age in minutes at which a file system lock counts as left behind by a dead writer; 0 for never, then somebody
    must delete the file. A live writer of hoodie keeps its lock young, a writer of Hudi does not: give more than its
    longest commit takes."""
    storage_validity_seconds: int = property_field(
        _PREFIX + "storage.validity.timeout.secs", integer(minimum=1), 300, since="1.1"
    )
    """How long a lock of StorageBasedLockProvider stays valid without renewal, in seconds."""
    storage_renew_interval_seconds: int = property_field(
        _PREFIX + "storage.renew.interval.secs",
        integer(minimum=1),
        30,
        since="1.1",
        alternatives=(_PREFIX + "storage.heartbeat.poll.secs",),
    )
    """The time between two renewals of a lock of StorageBasedLockProvider, in seconds; at most a tenth of its
    validity."""
    zookeeper_url: str | None = property_field(_PREFIX + "zookeeper.url", text("a host, or several with ports"), None)
    """The host of ZooKeeper, or `host:port,host:port`."""
    zookeeper_port: int | None = property_field(_PREFIX + "zookeeper.port", integer(minimum=1, maximum=65535), None)
    """The port of ZooKeeper, for hosts without one."""
    zookeeper_base_path: str | None = property_field(_PREFIX + "zookeeper.base_path", text("a path"), None)
    """The path in ZooKeeper below which the lock is; the same for all writers of a table."""
    zookeeper_lock_key: str | None = property_field(_PREFIX + "zookeeper.lock_key", text("a name"), None)
    """The name of the lock below the base path; default: the table's name."""
    zookeeper_session_timeout_ms: int = property_field(
        _PREFIX + "zookeeper.session_timeout_ms", integer(minimum=1), 60_000
    )
    """The time after which ZooKeeper releases the lock of a writer that it no longer hears from, in milliseconds."""
    zookeeper_connection_timeout_ms: int = property_field(
        _PREFIX + "zookeeper.connection_timeout_ms", integer(minimum=1), 15_000
    )
    """How long to wait for a connection to ZooKeeper, in milliseconds."""
    dynamodb_table: str = property_field(_PREFIX + "dynamodb.table", text("a table"), "hudi_locks")
    """The DynamoDB table of locks; created if it is missing."""
    dynamodb_partition_key: str | None = property_field(_PREFIX + "dynamodb.partition_key", text("a key"), None)
    """The key of the table's lock in DynamoDB; default: the table's name."""
    dynamodb_region: str = property_field(_PREFIX + "dynamodb.region", text("a region"), "us-east-1")
    """DynamoDB's region."""
    dynamodb_endpoint_url: str | None = property_field(_PREFIX + "dynamodb.endpoint_url", text("a URL"), None)
    """The URL of a DynamoDB service other than Amazon's."""
    dynamodb_billing_mode: DynamoDbBillingMode = property_field(
        _PREFIX + "dynamodb.billing_mode", choice(DynamoDbBillingMode), DynamoDbBillingMode.PAY_PER_REQUEST
    )
    """The billing mode of a lock table that hoodie creates."""
    dynamodb_read_capacity: int = property_field(_PREFIX + "dynamodb.read_capacity", integer(minimum=1), 20)
    """Read capacity of such a table with PROVISIONED."""
    dynamodb_write_capacity: int = property_field(_PREFIX + "dynamodb.write_capacity", integer(minimum=1), 10)
    """Write capacity of such a table with PROVISIONED."""
    dynamodb_table_creation_timeout_ms: int = property_field(
        _PREFIX + "dynamodb.table_creation_timeout", _MILLISECONDS, 120_000
    )
    """How long to wait until a new lock table is ready, in milliseconds."""
    single_writer_enable: bool = property_field(_PREFIX + "single.writer.enable", boolean(), True, is_ours=True)
    """With SINGLE_WRITER: wait for a hoodie writer in another process, at most `hoodie.write.lock.wait_time_ms`. On a
    file system, a lock of the operating system keeps processes apart. Elsewhere a writer waits for instants that
    another one began in the last 10 seconds, and takes the lock of `hoodie.write.lock.provider`, by default
    StorageBasedLockProvider, while it changes a table with a metadata table."""
    max_expected_clock_skew_ms: int | None = property_field(
        "hoodie.time.generator.max_expected_clock_skew_ms", _MILLISECONDS, None, since="1.0"
    )
    """How much the clocks of the machines that write to the table may differ, in milliseconds. To take an instant time
    or a completion time in a table of version 8 or 9 lasts that long, under the lock. Default: 200 with a lock that
    writers on other machines can take, else 1."""
    wait_retry: bool = property_field(_PREFIX + "wait.retry", boolean(), False, is_ours=True)
    """Repeat a write with auto-commit that lost a conflict with another writer, on the table as it is then, instead of
    failing. The input is held in the meantime."""
    wait_retry_max_attempts: int = property_field(
        _PREFIX + "wait.retry.max.attempts", integer(minimum=1, maximum=2**31 - 1), 10, is_ours=True
    )
    """The maximum number of attempts of such a write, including the first one."""
    wait_retry_max_time_ms: int = property_field(
        _PREFIX + "wait.retry.max.time.ms", _MILLISECONDS, 600_000, is_ours=True
    )
    """The time since the start of the first attempt after which such a write is not repeated, in milliseconds."""
    num_retries_on_conflict_failures: int = property_field("hoodie.write.num.retries.on.conflict.failures", _COUNT, 0)
    """Hudi's name for the same: the number of repetitions, used if hoodie.write.lock.wait.retry is not given."""

    @property
    def write_attempts(self) -> int:
        """The maximum number of attempts of a write whose commits meet conflicts."""
        return self.wait_retry_max_attempts if self.wait_retry else 1 + self.num_retries_on_conflict_failures

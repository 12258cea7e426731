"""Takes the lock of a table, with retries, and releases it.

Hudi: org.apache.hudi.client.transaction.lock.LockManager.
"""

from __future__ import annotations

import logging

from hoodie.common.util.class_loading import load_class
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieException, HoodieLockException
from hoodie.transaction.lock.lock_provider import LockConfiguration, LockProvider

logger = logging.getLogger(__name__)

_KEY = "hoodie.write.lock.provider"
# The module of each provider, imported on first use: boto3 alone takes a quarter of a second.
_PROVIDERS = {
    "FileSystemBasedLockProvider": "file_system_based_lock_provider",
    "StorageBasedLockProvider": "storage_based_lock_provider",
    "ZookeeperBasedLockProvider": "zookeeper_based_lock_provider",
    "DynamoDBBasedLockProvider": "dynamo_db_based_lock_provider",
    "InProcessLockProvider": "in_process_lock_provider",
}
_UNSUPPORTED = (
    "HiveMetastoreBasedLockProvider",
    "NoopLockProvider",
    "DynamoDBBasedImplicitPartitionKeyLockProvider",
    "ZookeeperBasedImplicitBasePathLockProvider",
)
_OF_HUDI = "org.apache.hudi."
_SKEW_OF_HOSTS_MS = 200
_SKEW_OF_PROCESSES_MS = 1


def lock_provider_class(name: str | None) -> type[LockProvider]:
    """Find the class of a lock provider.

    Args:
        name: hoodie's name, Hudi's full class name, or ``package.module.Class`` of a user; None is refused.

    Raises:
        HoodieConfigException: There is no such class, or it is not a `LockProvider`.
    """
    choices = ", ".join(_PROVIDERS)
    if name is None:
        raise HoodieConfigException(
            f"hoodie.write.concurrency.mode = OPTIMISTIC_CONCURRENCY_CONTROL needs a lock: give {_KEY}, the same for "
            f"all writers of the table. Choose one of {choices}; or name your own LockProvider as package.module.Class"
        )
    simple_name = name.rpartition(".")[2]
    if simple_name == name or name.startswith(_OF_HUDI):
        module = _PROVIDERS.get(simple_name)
        if module is not None:
            return load_class(f"hoodie.transaction.lock.{module}.{simple_name}", _KEY, LockProvider)
        what = "is not supported" if simple_name in _UNSUPPORTED else "is not known"
        raise HoodieConfigException(f"{_KEY} = {name} {what}: give one of {choices}")
    return load_class(name, _KEY, LockProvider)


def clock_skew_ms(config: HoodieWriteConfig) -> int:
    """The largest expected difference between the clocks of a table's writers, in milliseconds.

    `HoodieActiveTimeline` uses it.

    Args:
        config: The writer's configuration.

    Raises:
        HoodieConfigException: The lock provider is not known.
    """
    given = config.lock.max_expected_clock_skew_ms
    if given is not None:
        return given
    is_shared = config.write.has_several_writers and lock_provider_class(config.lock.provider).reaches_other_hosts
    return _SKEW_OF_HOSTS_MS if is_shared else _SKEW_OF_PROCESSES_MS


class LockManager:
    """The lock of one table for one client. The provider is created when the lock is first taken.

    Args:
        configuration: The table and the properties.

    Hudi: org.apache.hudi.client.transaction.lock.LockManager. Differs: releasing a lock does not close the provider.
    """

    def __init__(self, configuration: LockConfiguration) -> None:
        self._configuration = configuration
        self._provider: LockProvider | None = None

    @property
    def provider(self) -> LockProvider:
        """The provider."""
        if self._provider is None:
            self._provider = lock_provider_class(self._configuration.options.provider)(self._configuration)
        return self._provider

    def lock(self, is_patient: bool = True) -> None:
        """Take the lock; waits as ``hoodie.write.lock.wait_time_ms`` and ``hoodie.write.lock.client.*`` say.

        Args:
            is_patient: Whether to wait at all; otherwise the lock is tried once.

        Raises:
            HoodieLockException: Others held it all the time, or its service failed each time.
        """
        clock = self._configuration.clock
        began_ms = clock.monotonic_ms()
        with self._configuration.waiting.wait(self.provider.name):
            is_locked, failure = self._try(is_patient)
        if is_locked:
            return
        waited = (clock.monotonic_ms() - began_ms) / 1000
        message = f"{self.provider.name} could not be taken in {waited:.0f} s: "
        if failure is not None:
            raise HoodieLockException(f"{message}{failure}. Nothing was committed") from failure
        raise HoodieLockException(
            f"{message}held by {self.provider.owner_information()}. {self.provider.way_out()} Nothing was committed"
        )

    def _try(self, is_patient: bool) -> tuple[bool, HoodieException | None]:
        """Whether the lock is held now, and the last failure of its service."""
        options, clock = self._configuration.options, self._configuration.clock
        failure: HoodieException | None = None
        for attempt in range(options.client_num_retries + 1 if is_patient else 1):
            if attempt:
                # A user's own provider may not report that it waits.
                self._configuration.waiting.tell(self.provider.owner_information, self.provider.way_out)
                clock.sleep_ms(options.client_wait_time_ms_between_retry)
            try:
                if self.provider.try_lock(options.wait_time_ms if is_patient else 0):
                    return True, None
                failure = None
            except HoodieConfigException:
                raise
            except HoodieException as error:
                failure = error
                logger.warning("taking %s failed, attempt %d: %s", self.provider.name, attempt + 1, error)
        return False, failure

    def check_held(self) -> None:
        """Check that the lock was not lost.

        Raises:
            HoodieLockException: The lock was lost: its lease ended, or somebody removed it.
        """
        if not self.provider.is_held():
            raise HoodieLockException(
                f"{self.provider.name} was lost while it was held (now by {self.provider.owner_information()}): this "
                "process may have been suspended, or somebody removed the lock. Nothing was committed; write again",
                was_lost=True,
            )

    def is_held(self) -> bool:
        """Whether the lock is still held; False also if its service does not answer."""
        try:
            return self.provider.is_held()
        except Exception as error:  # The commit is completed; no error of a provider may make it look failed.
            logger.warning("could not check whether %s is held: %s", self.provider.name, error)
            return False

    def unlock(self) -> bool:
        """Release the lock. A failure is only logged: the lock expires, and what was done under it stands.

        Returns:
            Whether the provider says that the lock was held until then.
        """
        try:
            return self.provider.unlock() is True
        except Exception as error:  # As in is_held.
            logger.warning("releasing %s failed, it expires by itself: %s", self.provider.name, error)
            return False

    def close(self) -> None:
        """Release the lock and close connections; a failure is only logged, as in `unlock`."""
        provider, self._provider = self._provider, None
        if provider is not None:
            try:
                provider.close()
            except Exception as error:  # As in is_held.
                logger.warning("closing %s failed, it expires by itself: %s", provider.name, error)

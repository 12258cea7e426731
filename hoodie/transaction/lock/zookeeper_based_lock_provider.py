"""A lock in ZooKeeper: the writer whose node is the oldest holds it.

Hudi: org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from typing import Any

from hoodie.exception import HoodieConfigException, HoodieLockException
from hoodie.transaction.lock.lock_provider import LockConfiguration, LockProvider

try:
    import kazoo.client
    import kazoo.exceptions
    import kazoo.handlers.threading
    import kazoo.protocol.states
    import kazoo.retry
except ImportError:  # an extra: hoodie[zookeeper]
    kazoo = None

logger = logging.getLogger(__name__)

_NAME = "lock-"
_PREFIX = "_c_"


class ZookeeperBasedLockProvider(LockProvider):
    """A queue of nodes below ``<base path>/<lock key>``, in the format of Curator's InterProcessMutex, which Hudi uses.

    Each writer adds a node that ends with its session, and waits until its node is the first. A writer loses its node
    if it dies, or if ZooKeeper does not hear from it for ``hoodie.write.lock.zookeeper.session_timeout_ms``.

    Hudi: org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider.
    """

    def __init__(self, configuration: LockConfiguration) -> None:
        super().__init__(configuration)
        self._needs(kazoo, "kazoo", extra="zookeeper")
        options = configuration.options
        lock_key = options.zookeeper_lock_key or configuration.table_name
        if not options.zookeeper_url or not options.zookeeper_base_path or not lock_key:
            raise HoodieConfigException(
                "hoodie.write.lock.provider = ZookeeperBasedLockProvider needs hoodie.write.lock.zookeeper.url and "
                "hoodie.write.lock.zookeeper.base_path, the same for all writers of the table"
            )
        self._hosts = ",".join(
            host if ":" in host or options.zookeeper_port is None else f"{host}:{options.zookeeper_port}"
            for host in options.zookeeper_url.split(",")
        )
        self._path = f"{options.zookeeper_base_path.rstrip('/')}/{lock_key}"
        self._client: Any = None
        self._node: str | None = None

    @property
    def name(self) -> str:
        """See `LockProvider.name`."""
        return f"the lock {self._path} of ZooKeeper at {self._hosts}"

    def try_lock(self, timeout_ms: int) -> bool:
        """See `LockProvider.try_lock`."""
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            client = self._connected()
            client.ensure_path(self._path)
            prefix = f"{_PREFIX}{uuid.uuid4()}-"
            self._node = self._add_node(client, prefix)
            held = False
            try:
                held = self._wait(client, deadline)
            finally:
                if not held:
                    self._leave(client)
            return held
        except self._errors() as error:
            raise self._failure("Taking", error) from error

    def unlock(self) -> None:
        """See `LockProvider.unlock`."""
        if self._client is None or self._node is None:
            return
        try:
            self._leave(self._client)
        except self._errors() as error:
            raise self._failure("Giving back", error) from error

    def is_held(self) -> bool:
        """See `LockProvider.is_held`."""
        if self._client is None or self._node is None:
            return False
        if self._client.state != kazoo.protocol.states.KazooState.CONNECTED:
            return False
        try:
            self._client.sync(self._path)
            queue = self._queue(self._client)
        except self._errors() as error:
            raise self._failure("Asking for", error) from error
        return bool(queue) and queue[0] == self._node

    def owner_information(self) -> str:
        """See `LockProvider.owner_information`."""
        try:
            client = self._connected()
            queue = self._queue(client) if client.exists(self._path) else []
            if not queue:
                return "nobody"
            content, _ = client.get(f"{self._path}/{queue[0]}")
        except HoodieLockException as error:
            return f"unknown ({error})"
        except self._errors() as error:
            return f"unknown ({error})"
        return content.decode("utf-8", "replace") or queue[0]

    def way_out(self) -> str:
        """See `LockProvider.way_out`."""
        return "ZooKeeper releases the lock of a dead writer when its session ends."

    def close(self) -> None:
        """See `LockProvider.close`."""
        super().close()
        client, self._client = self._client, None
        if client is not None:
            client.stop()
            client.close()

    def _connected(self) -> Any:
        if self._client is None:
            options = self.configuration.options
            retry = kazoo.retry.KazooRetry(
                max_tries=options.num_retries + 1,
                delay=options.wait_time_ms_between_retry / 1000,
                max_delay=options.max_wait_time_ms_between_retry / 1000,
            )
            client = kazoo.client.KazooClient(
                self._hosts, timeout=options.zookeeper_session_timeout_ms / 1000, command_retry=retry
            )
            try:
                client.start(options.zookeeper_connection_timeout_ms / 1000)
            except self._errors() as error:
                client.stop()
                client.close()
                raise self._failure("Connecting to", error) from error
            self._client = client
        return self._client

    def _add_node(self, client: Any, prefix: str) -> str:
        who = f"process {os.getpid()} on {socket.gethostname()}, thread {threading.current_thread().name}".encode()

        def add() -> str:
            # If the creation of the node had no response, the node may exist nevertheless; it is found by its name.
            for child in client.get_children(self._path):
                if child.startswith(prefix):
                    return str(child)
            made = client.create(f"{self._path}/{prefix}{_NAME}", who, ephemeral=True, sequence=True)
            return str(made.rsplit("/", 1)[-1])

        return str(client.retry(add))

    def _wait(self, client: Any, deadline: float) -> bool:
        while True:
            queue = self._queue(client)
            if self._node not in queue:
                raise HoodieLockException(f"Taking {self.name} failed: ZooKeeper ended the session; try again")
            place = queue.index(self._node)
            if place == 0:
                return True
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                return False
            changed = threading.Event()
            before = f"{self._path}/{queue[place - 1]}"
            if client.exists(before, watch=lambda event, changed=changed: changed.set()) is not None:
                changed.wait(min(remaining_s, 5))
            self.tell_of_waiting()

    def _queue(self, client: Any) -> list[str]:
        """The nodes of the waiting writers, the holder first; as in Curator, what follows ``lock-`` sorts them."""
        nodes = [str(child) for child in client.get_children(self._path) if _NAME in child]
        return sorted(nodes, key=lambda node: node.rsplit(_NAME, 1)[-1])

    def _leave(self, client: Any) -> None:
        node, self._node = self._node, None
        if node is not None:
            try:
                client.retry(client.delete, f"{self._path}/{node}")
            except kazoo.exceptions.NoNodeError:
                logger.debug("%s was lost before it was released", self.name)

    @staticmethod
    def _errors() -> tuple[type[Exception], ...]:
        return (
            kazoo.exceptions.KazooException,
            kazoo.handlers.threading.KazooTimeoutError,
            kazoo.retry.RetryFailedError,
        )

    def _failure(self, action: str, error: Exception) -> HoodieLockException:
        reason = str(error) or type(error).__name__
        return HoodieLockException(f"{action} {self.name} failed: {reason}. Check hoodie.write.lock.zookeeper.url")

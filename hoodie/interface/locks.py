"""The locks of a table: who holds them, and how to break one whose holder is dead."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieException, HoodieLockException
from hoodie.storage.storage_path import join, scheme
from hoodie.transaction.lock.lock_holding import LockHolding
from hoodie.transaction.lock.lock_manager import lock_provider_class
from hoodie.transaction.lock.lock_provider import LockConfiguration, LockProvider
from hoodie.transaction.lock.lock_waiting import LockClock, LockWaiting
from hoodie.transaction.lock.single_writer_lock import SingleWriterLock

SINGLE_WRITER = "single writer"
_IN_THE_TABLE = {
    "FileSystemBasedLockProvider": (".hoodie", "lock"),
    "StorageBasedLockProvider": (".hoodie", ".locks", "table_lock.json"),
}
"""Providers whose lock is a file of the table -> that file; they are looked at whatever provider is configured."""


@attrs.frozen
class TableLock:
    """One lock of a table.

    Attributes:
        kind: ``single writer``, or the name of a lock provider.
        name: The lock, in words.
        holder: Its holder, in words; None if nobody holds it.
        age_seconds: The seconds since it was taken or renewed; None where nothing tells it.
        state: ``free``, ``held``, ``abandoned`` (the holder is known to be dead), or ``unknown``.
        way_out: Advice for a lock that is not released.
        version: The identity of this holding, so that `Table.break_lock` breaks no later one.
    """

    kind: str
    name: str
    holder: str | None
    age_seconds: int | None
    state: str
    way_out: str
    version: str = ""


def find_locks(config: HoodieWriteConfig, table: TableSnapshot) -> SummaryTable[TableLock]:
    """Look at the locks of a table, without taking any.

    Args:
        config: The configuration of its writers, which names their lock provider.
        table: The table.

    Raises:
        HoodieConfigException: The lock provider is not known, or lacks a property or a package.
    """
    single = SingleWriterLock(config, LockWaiting(None, LockClock()), LockClock())
    found = []
    if single.path:
        found.append(_shown(SINGLE_WRITER, f"the lock {single.path}", single.holding(), single.way_out()))
    for kind, provider in _providers(config, table):
        try:
            found.append(_shown(kind, provider.name, provider.holding(), provider.way_out()))
        except HoodieException as error:
            found.append(TableLock(kind, provider.name, str(error), None, "unknown", provider.way_out()))
        finally:
            provider.close()
    return SummaryTable(TableLock, found)


def break_lock(config: HoodieWriteConfig, table: TableSnapshot, lock: TableLock) -> bool:
    """Take a lock from its holder, if it is still the same.

    Args:
        config: See `find_locks`.
        table: The table.
        lock: One of `find_locks`.

    Returns:
        False if it was released, renewed or taken by another writer meanwhile.

    Raises:
        HoodieLockException: The lock cannot be broken; the message says what releases it.
    """
    if lock.kind == SINGLE_WRITER:
        raise HoodieLockException(f"{lock.name} cannot be broken by hand. {lock.way_out}")
    is_configured = lock.kind == _simple_name(config.lock.provider)
    provider = _provider(config, table, config.lock.provider if is_configured else lock.kind)
    try:
        return provider.break_lock(lock.version)
    finally:
        provider.close()


def _providers(config: HoodieWriteConfig, table: TableSnapshot) -> Iterator[tuple[str, LockProvider]]:
    """The provider that is configured, and those whose file is in the table."""
    names = {} if config.lock.provider is None else {_simple_name(config.lock.provider): config.lock.provider}
    for name, parts in _IN_THE_TABLE.items():
        is_usable = name != "FileSystemBasedLockProvider" or scheme(table.base_path) in ("file", "memory")
        if name not in names and is_usable and table.storage.is_file(join(table.base_path, *parts)):
            names[name] = name
    for kind, name in names.items():
        yield kind, _provider(config, table, name)


def _simple_name(provider: str | None) -> str:
    return (provider or "").rpartition(".")[2]


def _provider(config: HoodieWriteConfig, table: TableSnapshot, name: str | None) -> LockProvider:
    return lock_provider_class(name)(
        LockConfiguration(
            base_path=table.base_path,
            table_name=table.table_config.table_name,
            storage=table.storage,
            options=attrs.evolve(config.lock, provider=name),
            properties=config.properties,
        )
    )


def _shown(kind: str, name: str, holding: LockHolding | None, way_out: str) -> TableLock:
    if holding is None:
        return TableLock(kind, name, None, None, "free", way_out)
    age = None if holding.age_ms is None else round(holding.age_ms / 1000)
    state = "abandoned" if holding.is_abandoned else "held"
    return TableLock(kind, name, holding.holder, age, state, way_out, holding.version)

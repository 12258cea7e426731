"""Pick a storage by the scheme of a base path.

A store becomes a home for tables when it can put a file conditionally.

Hudi: org.apache.hudi.storage.HoodieStorageUtils.
"""

from __future__ import annotations

from collections.abc import Callable

from hoodie.exception import HoodieNotSupportedException
from hoodie.storage import storage_path
from hoodie.storage.local_storage import LocalStorage
from hoodie.storage.object_store_settings import OBJECT_STORE_SCHEMES
from hoodie.storage.retry import RetryPolicy
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_options import StorageOptions, check_options


def open_storage(
    base_path: str, storage_options: StorageOptions | None = None, retry: RetryPolicy | None = None
) -> HoodieStorage:
    """The storage of a table, by the scheme of its base path. Nothing is connected to.

    Args:
        base_path: The table's folder, as users write it (see `hoodie.storage.storage_path.normalise_path`).
        storage_options: Options and credentials of an object store, or a function that returns them.
        retry: The repetition of failed calls of an object store.

    Returns:
        A picklable storage; its ``base_path`` is the normalised path.

    Raises:
        HoodieNotSupportedException: hoodie has no conditional put for that store: two writers could both complete an
            instant.
        HoodieConfigException: The path is not one, or the options are neither a dict nor a function.
    """
    path = storage_path.normalise_path(base_path)
    check_options(storage_options)
    options = storage_options if callable(storage_options) or storage_options is None else dict(storage_options)
    scheme = storage_path.scheme(path)
    if scheme in OBJECT_STORE_SCHEMES:
        return _object_storage(path, options, retry)
    if scheme not in _STORAGES:
        supported = ", ".join(f"{name}://" for name in sorted([*_STORAGES, *OBJECT_STORE_SCHEMES]))
        raise HoodieNotSupportedException(
            f"Opening the storage of {path}: tables on {scheme}:// are not supported, because hoodie has no "
            f"conditional put for that store and two writers could both complete an instant. Supported are "
            f"{supported} and plain local paths; mount the store as a folder, or copy the table"
        )
    return _STORAGES[scheme](path, options or {})


# Imported only for tables that need them: for a local table they would double the time of a start.


def _object_storage(path: str, options: StorageOptions | None, retry: RetryPolicy | None) -> HoodieStorage:
    from hoodie.storage.object_storage import ObjectStorage

    return ObjectStorage(path, options, retry or RetryPolicy())


def _memory_storage(path: str, options: StorageOptions) -> HoodieStorage:
    from hoodie.storage.memory_storage import MemoryStorage

    return MemoryStorage(path, options)


_STORAGES: dict[str, Callable[[str, StorageOptions], HoodieStorage]] = {
    "file": LocalStorage,
    "memory": _memory_storage,
}

"""Small files that describe rows: Avro schemas, descriptor sets of Protobuf."""

from __future__ import annotations

from hoodie.exception import HoodieConfigException, HoodieException, HoodieSchemaProviderException
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_options import StorageOptions
from hoodie.storage.storage_path import normalise_path, parent

_MAX_BYTES = 16 << 20


def read_text(path: str, storage_options: StorageOptions | None) -> str:
    """The text of a schema file.

    Args:
        path: As for `read_bytes`.
        storage_options: As for `read_bytes`.

    Raises:
        HoodieSchemaProviderException: It is missing, too large, no text, or cannot be read.
        HoodieConfigException: The path, or the options of the storage, are wrong.
    """
    try:
        return read_bytes(path, storage_options, "schema file").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HoodieSchemaProviderException(f"The schema file {path} is not UTF-8 ({error})") from error


def read_bytes(path: str, storage_options: StorageOptions | None, what: str) -> bytes:
    """The bytes of a file.

    Args:
        path: A local path, a URL ``file:...``, or one of an object store.
        storage_options: Options of its storage.
        what: The kind of file, for messages.

    Raises:
        HoodieSchemaProviderException: It is missing, too large, or cannot be read.
        HoodieConfigException: The path, or the options of the storage, are wrong.
    """
    try:
        full = normalise_path(path)
        storage = open_storage(parent(full), storage_options)
        status = storage.file_status(full)
        if status is None or status.is_directory:
            raise FileNotFoundError(path)
        if status.size_bytes > _MAX_BYTES:
            raise HoodieSchemaProviderException(
                f"The {what} {path} has {status.size_bytes} bytes, which is too much for one: correct the path"
            )
        return storage.read(full)
    except FileNotFoundError as error:
        raise HoodieSchemaProviderException(f"There is no {what} {path}: correct the path, or create it") from error
    except (HoodieConfigException, HoodieSchemaProviderException):
        raise
    except (HoodieException, OSError) as error:
        raise HoodieSchemaProviderException(f"The {what} {path} cannot be read: {error}") from error

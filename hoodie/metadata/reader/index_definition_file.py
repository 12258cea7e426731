"""The definitions of indexes, ``.hoodie/.index_defs/index.json``, as another version of the table has them.

Version 9 wants a version in each definition; version 8 knows V1 only. The indexes themselves are in the metadata table.
"""

from __future__ import annotations

import json
from typing import Any

from hoodie.exception import HoodieCorruptedDataException
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join

DEFINITIONS_FOLDER = ".index_defs"
_PATH = (DEFINITIONS_FOLDER, "index.json")
DEFINITIONS = "indexDefinitions"
_FIRST = "V1"


def index_definition_path(meta_path: str) -> str:
    """The path of the file with the definitions.

    Args:
        meta_path: The table's ``.hoodie`` folder.
    """
    return join(meta_path, *_PATH)


def read_index_definitions(storage: HoodieStorage, meta_path: str) -> dict[str, Any] | None:
    """The content of the file; None for a table without it.

    Args:
        storage: The storage of the table.
        meta_path: The table's ``.hoodie`` folder.

    Raises:
        HoodieCorruptedDataException: The file does not hold definitions by the names of their indexes.
        HoodieIOException: Storage failed.
    """
    path = join(meta_path, *_PATH)
    try:
        stored = storage.read(path)
    except FileNotFoundError:
        return None
    try:
        value = json.loads(stored)
        definitions = {name: {**one} for name, one in (value[DEFINITIONS] or {}).items()}
        return {**value, DEFINITIONS: definitions}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise damaged_definitions(meta_path, error) from error


def damaged_definitions(meta_path: str, error: Exception) -> HoodieCorruptedDataException:
    """The error for a file that does not hold definitions."""
    return HoodieCorruptedDataException(
        f"Cannot read the definitions of indexes in {join(meta_path, *_PATH)}: {error!r}"
    )


def adapt_index_definitions(storage: HoodieStorage, meta_path: str, version: int) -> None:
    """Change the definitions so that both the table's present version and another one accept them.

    Args:
        storage: The storage of the table.
        meta_path: The table's ``.hoodie`` folder.
        version: The table version to come.

    Raises:
        HoodieCorruptedDataException: The definitions are damaged.
        HoodieIOException: Storage failed.
    """
    value = read_index_definitions(storage, meta_path)
    if value is None:
        return
    definitions = value[DEFINITIONS]
    adapted = {name: {**one, "version": one.get("version") or _FIRST} for name, one in definitions.items()}
    if version < 9:
        adapted = {name: one for name, one in adapted.items() if one["version"] == _FIRST}
    if adapted != definitions:
        storage.replace(join(meta_path, *_PATH), json.dumps({**value, DEFINITIONS: adapted}).encode())

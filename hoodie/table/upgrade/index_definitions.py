"""The definitions of indexes, ``.hoodie/.index_defs/index.json``, as another version of the table has them.

Version 9 wants a version in each of them; version 8 knows V1 only. The indexes themselves are in the metadata table,
which is switched off.
"""

from __future__ import annotations

import json

from hoodie.exception import HoodieCorruptedDataException
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join

_PATH = (".index_defs", "index.json")
_DEFINITIONS = "indexDefinitions"
_FIRST = "V1"


def adapt_index_definitions(storage: HoodieStorage, meta_path: str, version: int) -> None:
    """Change the definitions so that they are valid in a version of the table, and still in its present one.

    Args:
        storage: Where the table is.
        meta_path: The table's ``.hoodie`` folder.
        version: The version that the table will have.

    Raises:
        HoodieCorruptedDataException: The definitions are damaged.
        HoodieIOException: Storage failed.
    """
    path = join(meta_path, *_PATH)
    try:
        stored = storage.read(path)
    except FileNotFoundError:
        return
    try:
        value = json.loads(stored)
        definitions = value[_DEFINITIONS] or {}
        adapted = {name: {**one, "version": one.get("version") or _FIRST} for name, one in definitions.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise HoodieCorruptedDataException(f"Cannot read the definitions of indexes in {path}: {error!r}") from error
    if version < 9:
        adapted = {name: one for name, one in adapted.items() if one["version"] == _FIRST}
    if adapted != definitions:
        storage.replace(path, json.dumps({**value, _DEFINITIONS: adapted}).encode())

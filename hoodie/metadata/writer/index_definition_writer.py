"""Store and delete index definitions in ``.hoodie/.index_defs/index.json``."""

from __future__ import annotations

import json

from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.metadata.reader.index_definition_file import DEFINITIONS, index_definition_path, read_index_definitions
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition

_PATH_KEY = "hoodie.table.index.defs.path"
_STORED_PATH = ".hoodie/.index_defs/index.json"


def save_index_definition(table: TableSnapshot, definition: HoodieIndexDefinition) -> None:
    """Add or replace a definition, and note in the table's properties where the definitions are.

    Args:
        table: The table, under its lock.
        definition: The definition.

    Raises:
        HoodieCorruptedDataException: The file is damaged.
        HoodieIOException: Storage failed; call again.
    """
    stored = read_index_definitions(table.storage, table.meta_path) or {DEFINITIONS: {}}
    definitions = {**stored[DEFINITIONS], definition.name: definition.to_json(table.table_config.table_version)}
    if definitions != stored[DEFINITIONS]:
        content = json.dumps({**stored, DEFINITIONS: definitions}, indent=2).encode()
        table.storage.replace(index_definition_path(table.meta_path), content)
    HoodieTableConfig.update(table.storage, table.base_path, {_PATH_KEY: _STORED_PATH})


def delete_index_definition(table: TableSnapshot, name: str) -> bool:
    """Delete a definition.

    Args:
        table: The table, under its lock.
        name: The partition of the metadata table.

    Returns:
        False if there was none.

    Raises:
        HoodieCorruptedDataException: The file is damaged.
        HoodieIOException: Storage failed; call again.
    """
    stored = read_index_definitions(table.storage, table.meta_path)
    if stored is None or name not in stored[DEFINITIONS]:
        return False
    remaining = {key: one for key, one in stored[DEFINITIONS].items() if key != name}
    content = json.dumps({**stored, DEFINITIONS: remaining}, indent=2).encode()
    table.storage.replace(index_definition_path(table.meta_path), content)
    return True

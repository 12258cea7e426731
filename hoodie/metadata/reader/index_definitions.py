"""The definitions of a table's indexes in ``.hoodie/.index_defs/index.json``, which versions 8 and 9 write.

Entries of dropped indexes may stay there: ``hoodie.table.metadata.partitions`` lists the indexes that are ready.

Hudi: org.apache.hudi.common.model.{HoodieIndexDefinition, HoodieIndexMetadata}.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from hoodie.metadata.reader.index_definition_file import DEFINITIONS, damaged_definitions, read_index_definitions
from hoodie.metadata.records.metadata_partition_type import is_expression_index
from hoodie.storage.storage import HoodieStorage

_SECOND_VERSION = "V2"
_VERSION_OF_SECOND = 9


@attrs.frozen
class HoodieIndexDefinition:
    """The definition of one index.

    Attributes:
        name: Its partition of the metadata table, such as ``secondary_index_idx_name``.
        index_type: ``column_stats``, ``bloom_filters``, ``record_index`` or ``secondary_index``; of an expression
            index, one of the first two.
        source_fields: The columns that it indexes; () for the record index.
        is_partitioned: Whether each partition of the table has file groups of its own in it, as a partitioned record
            index has.
        is_hashed_by_value: Whether its version is V2, so that all entries of a value of a secondary index are in one
            file group.
        function: The function of an expression index, such as ``lower``; "" for all others.
        options: The options of an expression index; () for all others.
    """

    name: str
    index_type: str
    source_fields: tuple[str, ...] = ()
    is_partitioned: bool = False
    is_hashed_by_value: bool = False
    function: str = ""
    options: tuple[tuple[str, str], ...] = ()

    def to_json(self, table_version: int) -> dict[str, object]:
        """The definition as an entry of the file.

        Args:
            table_version: The version of the table.
        """
        is_record_index = self.index_type == "record_index"
        function = self.function or {"record_index": "", "secondary_index": "identity"}.get(
            self.index_type, self.index_type
        )
        options = {"isPartitioned": str(self.is_partitioned).lower()} if is_record_index else dict(self.options)
        # Statistics keep their form when a table is upgraded.
        is_second = not is_record_index and table_version >= _VERSION_OF_SECOND
        if self.index_type == "column_stats":
            is_second = self.is_hashed_by_value
        return {
            "indexName": self.name,
            "indexType": self.index_type,
            "indexFunction": function,
            "sourceFields": list(self.source_fields),
            "indexOptions": options,
            "version": _SECOND_VERSION if is_second else "V1",
        }


def load_index_definitions(storage: HoodieStorage, meta_path: str) -> Mapping[str, HoodieIndexDefinition]:
    """The definitions by the names of their indexes; empty for a table without that file.

    Args:
        storage: The storage of the table.
        meta_path: The table's ``.hoodie`` folder.

    Raises:
        HoodieCorruptedDataException: The file is damaged.
        HoodieIOException: Storage failed.
    """
    try:
        definitions = (read_index_definitions(storage, meta_path) or {DEFINITIONS: {}})[DEFINITIONS]
        return {name: _definition(name, one) for name, one in definitions.items()}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise damaged_definitions(meta_path, error) from error


def _definition(name: str, stored: Mapping[str, object]) -> HoodieIndexDefinition:
    fields, options = stored.get("sourceFields") or [], stored.get("indexOptions") or {}
    if not isinstance(fields, list) or not isinstance(options, Mapping):
        raise ValueError(f"the entry {name!r} has source fields or options of another form")
    is_expression = is_expression_index(name)
    return HoodieIndexDefinition(
        name,
        str(stored["indexType"]),
        tuple(map(str, fields)),
        is_partitioned=str(options.get("isPartitioned", "false")).lower() == "true",
        is_hashed_by_value=stored.get("version") == _SECOND_VERSION,
        function=str(stored.get("indexFunction") or "") if is_expression else "",
        options=tuple((str(key), str(value)) for key, value in options.items()) if is_expression else (),
    )

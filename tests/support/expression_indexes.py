"""Expression indexes as real Hudi makes them, and what they say beside what the rows say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa

import hoodie
from hoodie.common.bloom.bloom_filter import BloomFilter, decode_bloom_filter
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.index_config import HoodieIndexConfig
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition, load_index_definitions
from hoodie.metadata.records.metadata_keys import partition_id
from hoodie.metadata.records.metadata_record_schema import with_meta_columns
from hoodie.metadata.records.metadata_records import MetadataPayload, encode_values
from hoodie.metadata.writer.expression_index_indexer import ExpressionIndexIndexer
from hoodie.metadata.writer.index_definition_writer import save_index_definition
from hoodie.metadata.writer.latest_files import committed_files
from hoodie.metadata.writer.new_metadata_table import newest_record_schema
from hoodie.metadata.writer.partition_indexer import EntriesOnDriver, IndexingContext
from hoodie.metadata.writer.table_metadata_writer import HoodieBackedTableMetadataWriter

__all__ = ["add_index", "check_index", "definition_of", "indexes_of", "is_whole", "stored_values", "computed_values"]


def definition_of(name: str, index_type: str, function: str, column: str, **options: str) -> HoodieIndexDefinition:
    """The definition that ``CREATE INDEX name ... USING index_type(column) OPTIONS(expr = function)`` stores."""
    given = tuple({"expr": function, **options}.items())
    return HoodieIndexDefinition(
        f"expr_index_{name}", index_type, (column,), is_hashed_by_value=True, function=function, options=given
    )


def add_index(base_path: Path | str, definition: HoodieIndexDefinition, *, built_as: str = "") -> str:
    """Build an index, and store its definition; its partition.

    Args:
        base_path: The table.
        definition: See `definition_of`.
        built_as: A function that hoodie computes; its values stand for those of the one that it does not.
    """
    table = TableSnapshot.load(str(base_path))
    as_built = {"function": built_as, "options": (("expr", built_as),)} if built_as else {}
    built = attrs.evolve(definition, **as_built)
    HoodieBackedTableMetadataWriter(table).initialise([definition.name], {definition.name: built})
    if built_as:
        save_index_definition(TableSnapshot.load(str(base_path)), definition)
    return definition.name


def indexes_of(base_path: Path | str) -> tuple[set[str], set[str], set[str]]:
    """The expression indexes that are listed, those that are defined, and those that have a folder."""
    table = TableSnapshot.load(str(base_path))
    prefix = "expr_index_"
    folders = {path.name for path in (Path(base_path) / ".hoodie/metadata").glob(f"{prefix}*")}
    return (
        {path for path in table.table_config.listed_metadata_partitions if path.startswith(prefix)},
        {path for path in load_index_definitions(table.storage, table.meta_path) if path.startswith(prefix)},
        folders,
    )


def is_whole(base_path: Path | str, path: str) -> bool:
    """Whether an index is there, as opposed to gone without a trace that a reader or a writer follows."""
    listed, defined, folders = indexes_of(base_path)
    if path in listed:
        assert path in defined
        assert path in folders
        return True
    assert path not in defined
    return False


def stored_values(base_path: Path | str, path: str) -> dict[str, bytes]:
    """The stored records of an index as bytes, by key."""
    metadata = HoodieBackedTableMetadata.open(TableSnapshot.load(str(base_path)))
    found = metadata.read_records(path)
    return _encoded(metadata, found.keys, found.rows, metadata.payload_of(path))


def computed_values(base_path: Path | str, path: str, config: HoodieIndexConfig | None = None) -> dict[str, bytes]:
    """The records that the index has of the latest files, computed anew; those of partitions included."""
    table = TableSnapshot.load(str(base_path))
    metadata = HoodieBackedTableMetadata.open(table)
    context = IndexingContext(
        table, LocalEngineContext(), HoodieMetadataConfig(), metadata.definitions, metadata,
        index_config=config or HoodieIndexConfig(),
    )  # fmt: skip
    last = table.active_timeline.filter_completed_instants().last_instant
    assert last is not None
    records = ExpressionIndexIndexer(path).initial(context, committed_files(table), last.requested_time).records
    assert isinstance(records, EntriesOnDriver)
    entries = records.entries
    return _encoded(metadata, entries.keys, entries.rows, entries.payload)


def check_index(base_path: Path | str, path: str) -> None:
    """An index of ranges has what hoodie computes anew of the latest files, and holds the values of all rows."""
    stored, computed = stored_values(base_path, path), computed_values(base_path, path)
    metadata = HoodieBackedTableMetadata.open(TableSnapshot.load(str(base_path)))
    if metadata.payload_of(path) is MetadataPayload.BLOOM_FILTER:
        assert computed.keys() <= stored.keys()
        _check_filters(base_path, path, metadata)
        return
    assert {key: stored.get(key) for key in computed} == computed
    _check_ranges(base_path, path, metadata)


def _check_ranges(base_path: Path | str, path: str, metadata: HoodieBackedTableMetadata) -> None:
    definition = metadata.definitions[path]
    found = metadata.read_records(path).rows.to_pylist()
    ranges = {row["file_name"]: row for row in found if row["type"] == 6}
    values = _values_of(base_path, definition)
    filled = {partition for partition, _ in values}
    assert filled <= ranges.keys()
    for partition, value in values:
        row = ranges[partition]
        if value is not None:
            kind = "integer" if isinstance(value, int) else "binary"
            ends = [row[end][kind] for end in ("min_value", "max_value")]
            wanted = value.encode() if isinstance(value, str) else value
            assert ends[0] <= wanted <= ends[1], (partition, value, row)
        else:
            assert row["null_count"] > 0


def _check_filters(base_path: Path | str, path: str, metadata: HoodieBackedTableMetadata) -> None:
    found = metadata.read_records(path)
    filters: dict[str, list[BloomFilter]] = {}
    for key, row in zip(found.keys.to_pylist(), found.rows.to_pylist(), strict=True):
        filters.setdefault(key[:12], []).append(decode_bloom_filter(row["bloom_type"], row["bloom_filter"]))
    for partition, value in _values_of(base_path, metadata.definitions[path]):
        own = filters[partition_id(partition)]
        if value not in (None, ""):
            assert any(one.might_contain(pa.array([str(value)]))[0] for one in own), value
        assert not any(one.might_contain(pa.array(["a value that is nowhere"]))[0] for one in own)


def _values_of(base_path: Path | str, definition: HoodieIndexDefinition) -> list[tuple[str, Any]]:
    """Partition and value of the expression of each row, by Python's own functions."""
    (column,) = definition.source_fields
    compute = {"length": len, "lower": str.lower, "upper": str.upper, "identity": lambda value: value}[
        definition.function
    ]
    return [
        (row["_hoodie_partition_path"], None if row[column] is None else compute(row[column]))
        for row in hoodie.read_table(str(base_path)).to_pylist()
    ]


def _encoded(
    metadata: HoodieBackedTableMetadata, keys: pa.Array, rows: pa.RecordBatch, payload: MetadataPayload
) -> dict[str, bytes]:
    schema = with_meta_columns(newest_record_schema(metadata.files.snapshot))
    return dict(zip(keys.to_pylist(), encode_values(rows, schema, payload).to_pylist(), strict=True))

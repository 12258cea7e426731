"""Keys of records in a metadata table, and the file groups that they belong to.

Names become hashes of fixed length, in Base64 (B):

=====================  ==================================================
record                 key
=====================  ==================================================
list of partitions     ``__all_partitions__``
files of a partition   partition path, ``.`` in a table without partitions
column statistics      B(xxh64(column)) + B(xxh64(partition)) + B(md5(file name))
bloom filter           B(xxh64(partition)) + B(md5(file name))
partition statistics   B(xxh64(column)) + B(xxh64(partition))
record index           record key
secondary index        escaped value + ``$`` + escaped record key
=====================  ==================================================

Hudi: org.apache.hudi.metadata.{HoodieTableMetadataUtil, SecondaryIndexKeyUtils},
org.apache.hudi.common.util.hash.{ColumnIndexID, PartitionIndexID, FileIndexID}.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.util.arrow_buffers import rows_of
from hoodie.common.util.java_hash import hash_strings
from hoodie.common.util.shown_value import short_repr
from hoodie.common.util.xx_hash import xxh64
from hoodie.exception import HoodieCorruptedDataException

ALL_PARTITIONS_KEY = "__all_partitions__"
"""The key of the record that lists the table's partitions."""
NON_PARTITIONED = "."
"""The partition of a table without partitions, in all keys and names but those of the record index."""
_SEED = 0xFFFFFFFFDABADABA
_EXPRESSION_INDEX_PARTITION_STATS = "__partition_stat__"
_NULL_VALUE = "\0"
_TO_ESCAPE = r"([\\$\x00])"
_ESCAPED = r"(?s)\\(.)"
_SECONDARY_KEY = r"(?s)\A(?P<prefix>(?:[^\\$]|\\.)*\$)(?P<record_key>.*)\z"
_DIGEST_BYTES = 16
_PADDED_DIGEST_BYTES = 18
_KEY_OF_DIGEST_BYTES = 24
_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)


# --- names as keys ----------------------------------------------------------------------------------------------------


def partition_identifier(partition_path: str) -> str:
    """The name of a partition of the table in the metadata table."""
    return partition_path or NON_PARTITIONED


@lru_cache(maxsize=1 << 16)
def name_id(name: str) -> str:
    """The part of a key for a column (nested ones as a path with dots) or a partition: 12 characters."""
    return base64.b64encode(xxh64(name.encode("utf-8"), _SEED).to_bytes(8, "big")).decode()


def partition_id(partition_path: str) -> str:
    """The part of a key for a partition of the table, which is ``""`` in a table without partitions."""
    return name_id(partition_identifier(partition_path))


def file_name_ids(file_names: pa.Array) -> pa.Array:
    """The parts of keys for files: 24 characters each.

    Args:
        file_names: Names without folders (string, no nulls).
    """
    count = len(file_names)
    if not count:
        return pa.array([], pa.string())
    md5 = hashlib.md5
    digests = b"".join([md5(name, usedforsecurity=False).digest() for name in file_names.cast(pa.binary()).to_pylist()])
    padded = np.zeros((count, _PADDED_DIGEST_BYTES), np.uint8)
    padded[:, :_DIGEST_BYTES] = np.frombuffer(digests, np.uint8).reshape(count, _DIGEST_BYTES)
    first, second, third = (padded[:, place::3] for place in range(3))
    sextets = (first >> 2, (first & 3) << 4 | second >> 4, (second & 15) << 2 | third >> 6, third & 63)
    text = np.stack([_ALPHABET[part] for part in sextets], axis=2).reshape(count, _KEY_OF_DIGEST_BYTES)
    text[:, -2:] = ord("=")
    return rows_of(text, pa.string())


def column_stats_keys(columns: pa.Array, partition_paths: pa.Array, file_names: pa.Array) -> pa.Array:
    """The keys of records with statistics of columns, one for each row.

    Args:
        columns: Columns (string).
        partition_paths: Partitions of the table (string); ``""`` in a table without partitions.
        file_names: Names without folders (string).
    """
    return _joined(_ids(columns, name_id), _ids(partition_paths, partition_id), _file_ids(file_names))


def bloom_filter_keys(partition_paths: pa.Array, file_names: pa.Array) -> pa.Array:
    """The keys of bloom filters, one for each row; see `column_stats_keys`."""
    return _joined(_ids(partition_paths, partition_id), _file_ids(file_names))


def partition_stats_keys(columns: pa.Array, partition_paths: pa.Array, *, of_expression: bool = False) -> pa.Array:
    """The keys of records with statistics of partitions, one for each row; see `column_stats_keys`.

    Args:
        columns: Columns (string).
        partition_paths: Partitions of the table (string).
        of_expression: Whether the keys are for the partition of an expression index.
    """
    parts = [_ids(columns, name_id), _ids(partition_paths, partition_id)]
    if of_expression:
        parts.insert(1, pa.repeat(name_id(_EXPRESSION_INDEX_PARTITION_STATS), len(columns)))
    return _joined(*parts)


def column_stats_prefix(column: str, partition_path: str | None = None) -> str:
    """The beginning of the keys of a column's statistics, in one partition of the table or in all."""
    return name_id(column) + ("" if partition_path is None else partition_id(partition_path))


def _ids(names: pa.Array, of_name: object) -> pa.Array:
    assert callable(of_name)
    coded = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
    return pa.array([of_name(name) for name in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)


def _file_ids(names: pa.Array) -> pa.Array:
    coded = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
    return file_name_ids(coded.dictionary).take(coded.indices)


def _joined(*parts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


# --- secondary indexes ------------------------------------------------------------------------------------------------


def secondary_index_keys(values: pa.Array, record_keys: pa.Array) -> pa.Array:
    r"""The keys of entries of a secondary index.

        a$b   k1     a\$b$k1
        null  k1     \0$k1     (a character 0)

    Args:
        values: The values of the indexed column as Java prints them (string); null where a row has none.
        record_keys: Record keys (string).
    """
    return pc.binary_join_element_wise(_escaped(values), _escaped(record_keys), "$")


def secondary_key_prefixes(values: pa.Array) -> pa.Array:
    """The beginnings of the keys of all entries with the given values, for look-ups; see `secondary_index_keys`."""
    return pc.binary_join_element_wise(_escaped(values), "", "$")


def split_secondary_index_keys(keys: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The values (null where a row has none) and the record keys of entries of a secondary index.

    Args:
        keys: Keys of the entries (string).

    Raises:
        HoodieCorruptedDataException: A key has no separator.
    """
    parts = _split(keys)
    prefixes = parts.field("prefix")
    values = pc.utf8_slice_codeunits(prefixes, 0, -1) if len(keys) else prefixes
    return _unescaped(values), _unescaped(parts.field("record_key"))


def _escaped(values: pa.Array) -> pa.Array:
    return pc.fill_null(pc.replace_substring_regex(values, _TO_ESCAPE, r"\\\1"), _NULL_VALUE)


def _unescaped(values: pa.Array) -> pa.Array:
    plain = pc.replace_substring_regex(values, _ESCAPED, r"\1")
    return pc.if_else(pc.equal(values, _NULL_VALUE), None, plain)


def _split(keys: pa.Array) -> pa.StructArray:
    parts = pc.extract_regex(keys, _SECONDARY_KEY)
    if parts.null_count > keys.null_count:
        place = pc.index(parts.is_null(), True).as_py()
        raise HoodieCorruptedDataException(
            f"the key {short_repr(keys[place].as_py())} of a secondary index has no separator"
        )
    return parts


# --- file groups ------------------------------------------------------------------------------------------------------


def file_groups_of_keys(keys: pa.Array, group_count: int, *, by_secondary_key: bool = False) -> npt.NDArray[np.int64]:
    """The number of the file group of each key.

    It is the hash that Java gives a string, modulo the number of groups.

    Args:
        keys: Keys (string, or binary with UTF-8), without nulls.
        group_count: The number of file groups of the partition; in a partitioned record index, of one of its parts.
        by_secondary_key: Whether the keys are of a secondary index whose definition has version V2, as tables of
            version 9 have. Then only the value is hashed, with its separator, so that one group has all its entries.

    Raises:
        HoodieCorruptedDataException: A key of a secondary index has no separator.
        ValueError: There are no file groups.

    Hudi: HoodieTableMetadataUtil.{mapRecordKeyToFileGroupIndex, getSecondaryKeyToFileGroupMappingFunction}.
    """
    if group_count < 1:
        raise ValueError(f"{group_count} file groups")
    keys = keys if pa.types.is_string(keys.type) else keys.cast(pa.string())
    if by_secondary_key:
        keys = _split(keys).field("prefix")
    if group_count == 1:
        return np.zeros(len(keys), np.int64)
    groups: npt.NDArray[np.int64] = np.abs(hash_strings(keys).view(np.int32).astype(np.int64)) % group_count
    return groups

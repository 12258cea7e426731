"""Records for one partition of a metadata table, before they are written to its file groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.util.text_order import sorted_places
from hoodie.metadata.records.metadata_keys import file_groups_of_keys
from hoodie.metadata.records.metadata_records import MetadataPayload, encode_values

_NO_KEYS = pa.nulls(0, pa.string())
_FEW_ROWS = 1000
"""File groups with more rows are encoded by themselves: their rows cost far more than the call."""


@attrs.frozen(eq=False)
class MetadataEntries:
    """Records that one action adds to a partition of a metadata table, each key once.

    Attributes:
        partition_path: The partition of the metadata table.
        payload: The payload of its records.
        keys: The key of each record (string).
        rows: One for each key, unless ``row_numbers`` tells otherwise; of the payload's schema.
        deleted_keys: Keys that a delete block removes (string); none of them is among the keys.
        values: The rows as log files store them (binary), if they are encoded already; see `encoded_together`.
        row_numbers: The number of each key's row, if many keys have equal ones; None if each key has its own.
    """

    partition_path: str
    payload: MetadataPayload
    keys: pa.Array
    rows: pa.RecordBatch
    deleted_keys: pa.Array = _NO_KEYS
    values: pa.Array | None = None
    row_numbers: pa.Array | None = None

    @classmethod
    def none(cls, partition_path: str, payload: MetadataPayload) -> Self:
        """No records."""
        return cls(partition_path, payload, _NO_KEYS, pa.RecordBatch.from_pylist([], schema=payload.schema))

    @classmethod
    def deletes(cls, partition_path: str, payload: MetadataPayload, deleted_keys: pa.Array) -> Self:
        """Deletes of keys (string)."""
        return attrs.evolve(cls.none(partition_path, payload), deleted_keys=deleted_keys)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The records of one or more parts of a partition. No key is in two parts."""
        deleted_keys = pa.concat_arrays([part.deleted_keys for part in parts])
        holders = [part for part in parts if len(part.keys)]
        if len(holders) <= 1:
            return attrs.evolve(holders[0] if holders else parts[0], deleted_keys=deleted_keys)
        first = holders[0]
        rows = pa.Table.from_batches([part._row_of_each for part in holders], first.payload.schema).combine_chunks()
        return attrs.evolve(
            first,
            keys=pa.concat_arrays([part.keys for part in holders]),
            rows=rows.to_batches()[0],
            deleted_keys=deleted_keys,
            values=None,
            row_numbers=None,
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not len(self.keys) and not len(self.deleted_keys)

    def by_file_group(self, group_count: int) -> dict[int, Self]:
        """The records and deletes of each file group, by its number; file groups without any are left out.

        Args:
            group_count: See `hoodie.metadata.records.metadata_keys.file_groups_of_keys`.
        """
        if self.is_empty:
            return {}
        if group_count == 1:
            return {0: self}
        groups = file_groups_of_keys(self.keys, group_count)
        deleted = file_groups_of_keys(self.deleted_keys, group_count)
        entries_by_group = {}
        for group in np.union1d(groups, deleted).tolist():
            group_places = pa.array(np.flatnonzero(groups == group))
            deleted_places = pa.array(np.flatnonzero(deleted == group))
            entries_by_group[group] = attrs.evolve(
                self,
                keys=self.keys.take(group_places),
                rows=self.rows.take(group_places) if self.row_numbers is None else self.rows,
                deleted_keys=self.deleted_keys.take(deleted_places),
                values=None,
                row_numbers=None if self.row_numbers is None else self.row_numbers.take(group_places),
            )
        return entries_by_group

    @property
    def _row_of_each(self) -> pa.RecordBatch:
        """One row for each key."""
        return self.rows if self.row_numbers is None else self.rows.take(self.row_numbers)

    def encoded(self, writer_schema: str, base_file_name: str | None = None) -> tuple[pa.Array, pa.Array]:
        """Keys (string) and values (binary) as an HFile stores them: in the order of the keys' bytes.

        Args:
            writer_schema: See `hoodie.metadata.records.metadata_records.encode_values`.
            base_file_name: See there.

        Raises:
            HoodieException: See there.
        """
        values = self.values
        if values is None or base_file_name is not None:
            values = encode_values(self.rows, writer_schema, self.payload, base_file_name)
            values = values if self.row_numbers is None else values.take(self.row_numbers)
        order = sorted_places(self.keys)
        return (self.keys, values) if order is None else (self.keys.take(order), values.take(order))


def encoded_together(parts: Sequence[MetadataEntries], writer_schema: str) -> list[MetadataEntries]:
    """Encode the records of several small file groups by one call for each payload, which saves time.

    Args:
        parts: The records of each file group, to be written to log files.
        writer_schema: See `MetadataEntries.encoded`; the same for all.

    Returns:
        The same records; the small ones with `values`.

    Raises:
        HoodieException: See `MetadataEntries.encoded`.
    """
    encoded, small_parts = list(parts), dict[MetadataPayload, list[int]]()
    for place, part in enumerate(parts):
        has_own_rows = part.row_numbers is None and part.rows.schema == part.payload.schema
        if has_own_rows and 0 < len(part.keys) <= _FEW_ROWS:
            small_parts.setdefault(part.payload, []).append(place)
    for payload, places in small_parts.items():
        if len(places) == 1:
            continue
        rows = pa.Table.from_batches([parts[place].rows for place in places]).combine_chunks().to_batches()[0]
        values, start = encode_values(rows, writer_schema, payload), 0
        for place in places:
            count = len(parts[place].keys)
            encoded[place] = attrs.evolve(parts[place], values=values.slice(start, count))
            start += count
    return encoded

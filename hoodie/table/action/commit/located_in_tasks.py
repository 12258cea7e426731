"""Writes whose keys tasks look up, because they are too many for the driver.

Hudi has no counterpart: it joins rows with stored keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import OPERATION, PARTITION_PATH, RECORD_KEY
from hoodie.engine.data import HoodieData
from hoodie.index.index import IndexedTable
from hoodie.index.merged_keys import MergedKeys
from hoodie.index.places_by_hash import (
    HASHES,
    HashedPlaces,
    HashIncoming,
    HashStored,
    LocatedKeys,
    counts_by_partition,
    fits_driver,
    keys_in_tasks,
    locate,
    may_keep_hashes,
    notes_of,
    rows_read,
)
from hoodie.table.action.commit.base_commit_action_executor import BaseCommitActionExecutor
from hoodie.table.action.commit.two_readings import InputReadOtherwise


@attrs.frozen(eq=False)
class HashedInput:
    """The rows of an input, looked up by hashes of their keys.

    Attributes:
        keys: The outcome.
        places: Their places.
        slices: The slices that were searched.
        indexed: The files that the index looked into.
    """

    keys: LocatedKeys
    places: HashedPlaces
    slices: Sequence[FileSlice]
    indexed: IndexedTable


class LocatesInTasks(BaseCommitActionExecutor):
    """Looks the keys of an input up in tasks; see `hoodie.index.places_by_hash`."""

    def _locate_by_hashes(self, records: HoodieData, exact: bool, stays: bool = False) -> HashedInput | None:
        """Read the keys of an input, and look their hashes up; rows without a key are refused.

        Args:
            records: The rows.
            exact: Whether keys that log files have deleted are not stored.
            stays: See `TagRequest`.

        Returns:
            None if the index finds keys in another way, or if no single place takes all rows of some key.

        Raises:
            HoodieKeyException: Rows have no usable key.
            InputReadOtherwise: Hashes of rows were lost, and the rows were others when they were read again.
        """
        index, is_global = self._table.index, self._table.index.is_global
        if not index.searches_slices or self._write_context.placement.verifies_positions:
            # An index of the user's has its own way.
            return None
        incoming = records.select([RECORD_KEY, PARTITION_PATH, OPERATION])
        hashes = incoming.map_partitions_with_index(HashIncoming(is_global), HASHES).persist()
        try:
            with self._metrics.step("read the input and its keys") as step:
                notes = notes_of(hashes)
                counts = counts_by_partition(notes)
                step.count(records=sum(counts["count"].to_pylist()))
                self._refuse_rows_without_key(records, counts)
            indexed = self._indexed(counts, exact=exact)
            # The keys of slices are read: only those of log files may be ones that are deleted.
            exact = exact and not all(part.is_base_file_alone for part in indexed.slices)
            indexed = attrs.evolve(indexed, request=attrs.evolve(indexed.request, exact=exact, stays=stays))
            with self._metrics.step("tag location", self._config.index.index_name) as step:
                slices = index.slices_to_search(keys_in_tasks(notes), self._context, indexed)
                if slices is None or not fits_driver(notes, len(slices), self._context.max_shared_bytes):
                    return None
                step.count(files=len(slices))
                merged = MergedKeys.of(indexed) if any(reads_logs for _, reads_logs in slices) else None
                keeps_hashes = may_keep_hashes(notes, self._context)
                stored = HashStored(indexed.storage, is_global, merged, keeps_positions=keeps_hashes)
                located = locate(hashes, slices, stored, self._context, keeps_hashes)
        finally:
            hashes.unpersist()
        if located.looked_up != rows_read(notes):
            # An executor was lost that kept hashes: files and partitions were chosen for other rows.
            raise InputReadOtherwise(f"the input had {rows_read(notes).count} rows, and then other ones")
        if located.places is None:
            return None
        return HashedInput(located, located.places, [part for part, _ in slices], indexed)

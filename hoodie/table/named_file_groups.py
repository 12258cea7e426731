"""The file groups that may hold some keys, as the record index of the table's metadata table names them.

A look-up of keys searches these, instead of all file groups of the keys' partitions, or of the table:

====================================  ================================================================================
the index of the look-up              what is searched
====================================  ================================================================================
RECORD_INDEX                          the file groups that the index names
none was chosen                       the file groups that it names in a key's own partition; the whole partition of a
                                      key that it knows nothing of, or that it knows elsewhere: the table may have been
                                      written by an index that takes a key of another partition for another record
====================================  ================================================================================

Hudi has nothing like it: its read client asks the index of its configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import PARTITION_PATH, RECORD_KEY
from hoodie.common.table.partition_metadata import check_partition_path
from hoodie.exception import HoodieIndexException
from hoodie.index.recordindex.record_index import HoodieRecordIndex
from hoodie.index.recordindex.record_index_lookup import REBUILD, RECORD_INDEX_PATH, NamedEntries, RecordIndexLookup
from hoodie.metadata.reader.metadata_listing import MetadataListing, metadata_of
from hoodie.table.table import HoodieTable


@attrs.frozen
class NamedFileGroups:
    """The file groups and partitions in which some keys may be.

    Attributes:
        groups: Partition path and file id of the file groups that the index names.
        searched: Partitions all of whose file groups may have one of the keys.
    """

    groups: frozenset[tuple[str, str]]
    searched: frozenset[str]

    @property
    def partition_paths(self) -> frozenset[str]:
        """The partitions in which keys may be."""
        return self.searched | {check_partition_path(path) for path, _ in self.groups}

    def chosen(self, slices: Mapping[str, Sequence[FileSlice]], base_path: str) -> dict[str, Sequence[FileSlice]]:
        """The slices that may hold keys.

        Args:
            slices: Partition path to the latest slices, of `partition_paths`.
            base_path: The table's folder.

        Raises:
            HoodieIndexException: The table has no such file group.
        """
        known = {(path, part.file_id) for path, found in slices.items() for part in found}
        wrong = sorted(self.groups - known)
        if wrong:
            raise HoodieIndexException(
                f"The record index of {base_path} names {len(wrong)} file groups for the keys which the table does not "
                f"have, such as {wrong[0][1]} of partition '{wrong[0][0]}': the index is wrong. "
                f"Look-ups with hoodie.index.type=BLOOM do not ask it. {REBUILD}"
            )
        return {
            path: [part for part in found if path in self.searched or (path, part.file_id) in self.groups]
            for path, found in slices.items()
        }


def named_file_groups(table: HoodieTable, keys: pa.Table, *, is_chosen: bool) -> NamedFileGroups | None:
    """The file groups of keys by the record index of the whole table; None if it is not asked.

    It is asked if it is ready, if the metadata table lists the table's files, and if the look-up's index is
    RECORD_INDEX or none was chosen.

    Args:
        table: The table, loaded for a look-up.
        keys: Record key and partition path.
        is_chosen: Whether the caller has chosen the index.

    Raises:
        HoodieException: The index cannot be read, and the caller has chosen it.
    """
    snapshot = table.snapshot
    listing = metadata_of(snapshot)
    if listing is None or not keys.num_rows or RECORD_INDEX_PATH not in snapshot.table_config.metadata_partitions:
        return None
    if is_chosen and not isinstance(table.index, HoodieRecordIndex):
        return None
    with table.metrics.step("ask the record index"):
        return _ask(table, listing, keys, is_chosen=is_chosen)


def _ask(table: HoodieTable, listing: MetadataListing, keys: pa.Table, *, is_chosen: bool) -> NamedFileGroups | None:
    snapshot = table.snapshot
    record_keys = keys[RECORD_KEY].combine_chunks()
    if is_chosen:
        index = RecordIndexLookup.open(snapshot, (), is_by_partition=False)
        groups = () if index is None else index.find(record_keys.unique(), table.context).groups
        return None if index is None else NamedFileGroups(frozenset(groups), frozenset())
    of_table = listing.ask(lambda metadata: None in metadata.files.file_groups(RECORD_INDEX_PATH))
    if not of_table:
        return None

    def find(_: object) -> NamedEntries | None:
        index = RecordIndexLookup.open(snapshot, (), is_by_partition=False)
        return None if index is None else index.find(record_keys.unique(), table.context)

    named = listing.ask(find)
    if named is None:
        return None
    entries = pc.index_in(record_keys, value_set=named.keys)
    numbers = pa.array(named.numbers, pa.int32()).take(entries)
    paths = pa.array([path for path, _ in named.groups], pa.string()).take(numbers)
    own = keys[PARTITION_PATH].combine_chunks()
    at_home = pc.fill_null(pc.equal(paths, own), False)
    found = np.unique(numbers.filter(at_home).to_numpy()).tolist()
    elsewhere = own.filter(pc.invert(at_home)).unique().to_pylist()
    return NamedFileGroups(frozenset(named.groups[number] for number in found), frozenset(elsewhere))

"""The calls of clients about the indexes of the metadata table.

Hudi: org.apache.hudi.client.BaseHoodieWriteClient (scheduleIndexing, index).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from hoodie.avro.service_metadata import HoodieIndexCommitMetadata
from hoodie.client.call_arguments import check_time
from hoodie.client.index_service import IndexService
from hoodie.metrics.metrics import Operation
from hoodie.table.action.index.schedule_index_action_executor import index_partitions


class IndexCalls(ABC):
    """A part of `BaseHoodieTableServiceClient`."""

    _indexes: IndexService

    @abstractmethod
    def _call(self, name: str) -> AbstractContextManager[Operation]:
        """Measure one call on the client, which must be open."""

    @abstractmethod
    def _alone(self, instant_time: str | None = None) -> AbstractContextManager[None]:
        """Do a piece of work while other processes are kept out."""

    def create_index(self, name: str, column: str) -> bool:
        """Build a secondary index: the record keys of every value of a column, in the metadata table.

        Every action keeps it up to date. It needs a record index, which is built as well if the table has none. Tables
        of versions 8 and 9 have secondary indexes.

        Args:
            name: Of letters, digits and underscores.
            column: A column of strings, integers or booleans on the table's top level.

        Returns:
            False if the table has that index already.

        Raises:
            HoodieConfigException: The name is none, or ``hoodie.metadata.enable=false`` is given.
            HoodieIndexException: The table has no such column, or an index of that name on another one; or an instant
                is pending.
            HoodieAmbiguousKeyException: A key is in several file groups, so that there can be no record index.
            HoodieKeyException: A key, or a value with its key, is too long for an index. Nothing is left of the index.
            HoodieNotSupportedException: The version of the table, or the type of the column; or the record index is one
                by partitions, with which a key may be in several.
            HoodieIOException: Storage failed; call again.
        """
        with self._call("create_index") as call, self._alone():
            is_new = self._indexes.create(name, column)
            call.summary = f"index {name} on {column} " + ("created" if is_new else "was there already")
        return is_new

    def drop_index(self, name: str) -> bool:
        """Delete a secondary index; the record index stays.

        Args:
            name: See `create_index`.

        Returns:
            False if the table has no such index.

        Raises:
            HoodieConfigException: The name is none.
            HoodieIndexException: An indexing that is to build it is pending.
            HoodieIOException: Storage failed; call again.
        """
        with self._call("drop_index") as call, self._alone():
            is_gone = self._indexes.drop(name)
            call.summary = f"index {name} dropped" if is_gone else f"there is no index {name}"
        return is_gone

    def schedule_indexing(
        self, partition_types: Sequence[str] = (), *, secondary_indexes: Mapping[str, str] | None = None
    ) -> str:
        """Plan to build partitions of the metadata table beside writers; `index` builds them, here or elsewhere.

            client.index(client.schedule_indexing(["record_index", "column_stats"]))
            client.index(client.schedule_indexing(secondary_indexes={"idx_rider": "rider"}))

        Until they are built nobody uses them, and the next writes do not build them either.

        Args:
            partition_types: Some of ``column_stats``, ``partition_stats`` (versions 8 and 9), ``bloom_filters`` and
                ``record_index``. The options of the client say the rest, such as which columns have ranges. Also
                secondary indexes that are defined already, as ``secondary_index_idx_rider``.
            secondary_indexes: The columns of new secondary indexes by their names; see `create_index`. They need a
                ``record_index``, which the table has, or which is built together with them.

        Returns:
            The indexing's instant time.

        Raises:
            HoodieConfigException: There is no such kind, or an option of the client drops it.
            HoodieIndexException: One is built, or being built; or the table has no metadata table, or lacks what one
                needs: a record index, or the column.
            HoodieNotSupportedException: Tables of that version, or without record keys, cannot have it; or a secondary
                index cannot be built, see `create_index`.
            HoodieCommitException: A restore is pending.
            HoodieIOException: Storage failed; call again.
        """
        partitions = index_partitions(partition_types, secondary_indexes)
        with self._call("schedule_indexing") as call, self._alone():
            instant_time = self._indexes.schedule(partitions)
            call.summary = f"indexing {instant_time} of {', '.join(partitions)} planned"
        return instant_time

    def index(self, instant_time: str) -> HoodieIndexCommitMetadata | None:
        """Build the partitions of an indexing that was scheduled, while others write to the table.

        The lock is held at the beginning, to list the table, and at the end, to add what was written meanwhile. An
        indexing that failed is begun anew by another call. `rollback` takes it back.

        Args:
            instant_time: What `schedule_indexing` returned; or an indexing that Hudi scheduled.

        Returns:
            What was built. None if it was completed already.

        Raises:
            HoodieConfigException: The instant time is not text.
            HoodieIndexException: There is no such indexing, a process that is alive is carrying one out, or the table
                has lost its metadata table, or what a secondary index needs: its definition, and a record index.
            HoodieAmbiguousKeyException: A key is in several file groups, so that there can be no record index. The plan
                stays: delete rows and call again, or take it back.
            HoodieNotSupportedException: The plan, one of Hudi, names a partition or column that hoodie does not index.
            HoodieMissingFileException: Each time files that were read were cleaned meanwhile; call again.
            HoodieCommitException: A restore is pending.
            HoodieIOException: Storage failed; call again.
        """
        check_time(instant_time)
        # Other processes write meanwhile.
        with self._call("index") as call:
            done = self._indexes.index(instant_time)
            names = [] if done is None else [info.metadata_partition_path for info in done.index_partition_infos]
            call.summary = f"{', '.join(names)} built" if names else "the indexing was completed already"
        return done

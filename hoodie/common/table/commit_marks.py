"""Texts in the extra metadata of commits, by which a writer knows what its table holds already.

The rows of a commit and its extra metadata appear in one atomic step, so a position that is stored there is exactly as
far as the rows. Streams of Spark store the numbers of their batches, the streamer the positions of its sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.archived_timeline import chosen_metadata
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.common.table.timeline.lsm_timeline import archive_of
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.storage.storage_path import join

POSITION_KEYS: Final = ("deltastreamer.checkpoint.key", "streamer.checkpoint.key.v2")
"""The keys of the positions of streamers, Hudi's and hoodie's: of version 1, and of version 2.

``<key>.<id>`` is the position of one of several sources, which only hoodie writes.

Hudi: org.apache.hudi.common.table.checkpoint.StreamerCheckpointV1, StreamerCheckpointV2.
"""


def position_keys_in(extra_metadata: Mapping[str, str]) -> set[str]:
    """The keys of a commit's extra metadata that hold positions of streamers.

    Args:
        extra_metadata: The extra metadata.

        >>> position_keys_in({"deltastreamer.checkpoint.key": "trips,0:7", "schema": "{}"})
        {'deltastreamer.checkpoint.key'}
    """
    return {key for key in extra_metadata if key.startswith(POSITION_KEYS) and extra_metadata[key]}


@attrs.frozen
class MarkedCommit:
    """A completed commit, with its extra metadata.

    Attributes:
        instant: The commit.
        extra_metadata: All of it; of an archived commit only the keys that were asked for.
        is_archived: Whether the commit is in the archive.
    """

    instant: HoodieInstant
    extra_metadata: Mapping[str, str]
    is_archived: bool = False

    @property
    def source(self) -> str:
        """The commit, for messages."""
        return f"the archived {self.instant}" if self.is_archived else str(self.instant)


def marked_commits(
    snapshot: TableSnapshot, keys: Sequence[str], *, is_archive_read: bool = True
) -> Iterator[MarkedCommit]:
    """The completed writes whose extra metadata has one of some keys, the newest requested time first.

    Each commit is read when it is asked for. The archive is read once the active timeline has no more.

    Args:
        snapshot: The table.
        keys: Keys of the extra metadata, or beginnings of keys, which end with a dot.
        is_archive_read: Whether to look into the archive too.

    Raises:
        HoodieCorruptedDataException: A commit or a file of the archive is damaged.
        HoodieIOException: Storage failed.
    """
    timeline = snapshot.active_timeline

    def read(instants: Iterable[HoodieInstant]) -> Iterator[MarkedCommit]:
        for instant in instants:
            extra = timeline.read_commit_metadata(instant).extra_metadata
            if chosen_metadata(extra, keys):
                yield MarkedCommit(instant, extra)

    writes = timeline.completed_writes().instants
    # No archived write is later than the last one. Others may be: a savepoint keeps a commit active.
    yield from read(writes[-1:])
    before = HoodieTimeline(writes[:-1])
    archived_to = timeline.newest_archived_time() if is_archive_read else None
    if archived_to is None:
        yield from read(reversed(before.instants))
        return
    yield from read(reversed(before.after(archived_to).instants))
    folder = join(snapshot.meta_path, snapshot.table_config.archive_folder)
    archived = archive_of(timeline.layout).find_metadata(snapshot.storage, folder, timeline.layout, keys)
    for instant in reversed(HoodieTimeline((*{*before.before_or_on(archived_to), *archived},)).instants):
        if instant in archived:
            yield MarkedCommit(instant, archived[instant], is_archived=True)
        else:
            yield from read([instant])

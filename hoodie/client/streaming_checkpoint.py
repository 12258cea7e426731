r"""The batches of a stream that a table holds: the state by which each batch is written exactly once.

Each commit of a stream names the stream and the number of the batch in its extra metadata. So the rows and the state
appear in one atomic step, wherever the process dies::

    "_hudi_streaming_sink_checkpoint" : "{\"default_single_writer\":\"7\"}"

The state of a stream is its newest commit of that kind. Commits of other streams, writers and table services may lie
after it, and it may be archived. Commits name only their own stream: a copy of the others' states could be older than
theirs.

This key and its value are Hudi's, so a stream of Hudi continues one of hoodie, and the reverse. Hudi's sink looks for
the state in the active timeline only. hoodie adds ``_hoodie_streaming_query_id``, the id that Spark gives to the
checkpoint folder of a query. By it hoodie recognises a query with another checkpoint folder, whose numbers begin at 0.

Hudi: org.apache.hudi.HoodieStreamingSink, org.apache.hudi.common.util.CommitUtils (getValidCheckpointForCurrentWriter).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from hoodie.common.table.commit_marks import marked_commits
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.streaming_config import IDENTIFIER_KEY
from hoodie.exception import HoodieConfigException, HoodieCorruptedDataException, HoodieWriteConflictException

SINK_CHECKPOINT_KEY: Final = "_hudi_streaming_sink_checkpoint"
"""The key of the state in the extra metadata of a commit; its value is JSON: identifier -> number of the batch."""
QUERY_ID_KEY: Final = "_hoodie_streaming_query_id"
"""The key of the query's id in the extra metadata of a commit."""

_OWN_NAME = f"give this query a name of its own ({IDENTIFIER_KEY})"


@attrs.frozen
class StreamBatch:
    """One batch of one stream.

    Attributes:
        identifier: The stream's name in the table (``hoodie.datasource.write.streaming.checkpoint.identifier``).
        batch_id: The number of the batch; a stream numbers its batches from 0 on.
        query_id: The id of the query's checkpoint folder; None if it is not known.
    """

    identifier: str
    batch_id: int
    query_id: str | None = None

    @property
    def extra_metadata(self) -> dict[str, str]:
        """The extra metadata that the batch's commit stores."""
        checkpoint = json.dumps({self.identifier: str(self.batch_id)}, ensure_ascii=False, separators=(",", ":"))
        query = {} if self.query_id is None else {QUERY_ID_KEY: self.query_id}
        return {SINK_CHECKPOINT_KEY: checkpoint, **query}


def batches_of(extra_metadata: Mapping[str, str], source: str) -> list[StreamBatch]:
    """The batches that a commit names, usually one or none.

    Args:
        extra_metadata: The commit's extra metadata.
        source: The commit, for the error message.

    Raises:
        HoodieCorruptedDataException: The value is not JSON of Hudi's form.
    """
    value = extra_metadata.get(SINK_CHECKPOINT_KEY)
    if not value:
        return []
    try:
        checkpoint = json.loads(value)
        numbers = {str(name): int(str(number)) for name, number in checkpoint.items()}
    except (ValueError, AttributeError, RecursionError) as error:
        raise HoodieCorruptedDataException(
            f"Cannot read {SINK_CHECKPOINT_KEY} = {value!r} of {source}: it must be JSON of a stream's name and the "
            'number of a batch, such as {"default_single_writer":"7"}. Without it the newest batch of the stream is '
            "unknown"
        ) from error
    query_id = extra_metadata.get(QUERY_ID_KEY) if len(numbers) == 1 else None
    return [StreamBatch(name, number, query_id) for name, number in numbers.items()]


@attrs.frozen
class StreamingCheckpoint:
    """The newest batch of a stream that a table holds. Made by `load`.

    Attributes:
        base_path: The table.
        identifier: The stream's name in the table.
        batch: The newest batch; None if the table holds no batch of the stream.
        instant_time: The commit of that batch.
        other_identifiers: Names of other streams of the table. If there is a batch, only of those with newer commits.
    """

    base_path: str
    identifier: str
    batch: StreamBatch | None = None
    instant_time: str | None = None
    other_identifiers: frozenset[str] = frozenset()

    @classmethod
    def load(cls, snapshot: TableSnapshot, identifier: str, *, is_archive_read: bool = True) -> StreamingCheckpoint:
        """Look for the newest batch of a stream, from the newest commit back.

        Usually this reads one commit: that of the stream's last batch. The archive is read if the active timeline holds
        no batch of the stream.

        Args:
            snapshot: The table.
            identifier: The stream's name in the table.
            is_archive_read: Whether to look into the archive too.

        Raises:
            HoodieCorruptedDataException: A commit or a file of the archive is damaged.
            HoodieIOException: Storage failed.
        """
        others: set[str] = set()
        for instant_time, batch in _newest_first(snapshot, is_archive_read):
            if batch.identifier == identifier:
                return cls(snapshot.base_path, identifier, batch, instant_time, frozenset(others))
            others.add(batch.identifier)
        return cls(snapshot.base_path, identifier, other_identifiers=frozenset(others))

    def is_committed(self, batch: StreamBatch, *, repeats_older: bool = False) -> bool:
        """Whether the table holds a batch already, so that it must not be written again.

        A query repeats its newest batch, and no older one. An older number comes from another query, or from a query
        whose checkpoint folder is new or an older copy. Its rows may be new: to skip them could lose rows, and to write
        them could double rows.

        Args:
            batch: The batch to be written, of this stream.
            repeats_older: Whether the caller repeats older batches too, because its numbers do not come from a query.
                They count as written then, as in Hudi.

        Raises:
            HoodieConfigException: It is the batch of another query, or has an older number; nothing was written.
        """
        newest = self.batch
        if newest is None:
            return False
        held = f"batch {batch.batch_id} of the stream '{self.identifier}' comes to {self.base_path}, which holds batch "
        held += f"{newest.batch_id} of it (commit {self.instant_time})"
        if None not in (newest.query_id, batch.query_id) and newest.query_id != batch.query_id:
            raise HoodieConfigException(
                f"{held}, written by a query with another checkpoint folder (query id {newest.query_id}, this one is "
                f"{batch.query_id}). Nothing was written. Start the query with the checkpoint folder it had, or "
                f"{_OWN_NAME}: then all of its batches are written, also rows that the table has"
            )
        if batch.batch_id < newest.batch_id and not repeats_older:
            raise HoodieConfigException(
                f"{held}. A query repeats its newest batch only, so its checkpoint folder is new or an older copy, or "
                "another query uses the same name. To skip the batch could lose rows, to write it could double rows: "
                "nothing was written. Start the query with the checkpoint folder it had, or "
                f"{_OWN_NAME}: then all of its batches are written, also rows that the table has"
            )
        return batch.batch_id <= newest.batch_id

    def check_named(self) -> None:
        """Refuse a stream without a name of its own on a table that another stream writes.

        Raises:
            HoodieConfigException: The table holds batches of other streams, and none of this one.
        """
        if self.batch is None and self.other_identifiers:
            names = ", ".join(f"'{name}'" for name in sorted(self.other_identifiers))
            raise HoodieConfigException(
                f"{self.base_path} is written by the stream {names} already; nothing was written. If this is a second "
                f"query, {_OWN_NAME}; if it is the same one, give it that name"
            )


def refuse_repeated_batch(snapshot: TableSnapshot, extra_metadata: Mapping[str, str], instant_time: str) -> None:
    """Refuse to commit a batch that another process has committed since this one looked for it.

    Called while any lock is held, right before the instant is completed. The archive is not read: a batch that came
    since is in the active timeline.

    Args:
        snapshot: The table now.
        extra_metadata: The extra metadata of the commit.
        instant_time: The instant to be completed.

    Raises:
        HoodieWriteConflictException: The table holds the batch, or a newer one.
    """
    for batch in batches_of(extra_metadata, f"instant {instant_time}"):
        found = StreamingCheckpoint.load(snapshot, batch.identifier, is_archive_read=False)
        if found.batch is not None and found.batch.batch_id >= batch.batch_id:
            raise HoodieWriteConflictException(
                f"batch {batch.batch_id} of the stream '{batch.identifier}' was written to {snapshot.base_path} by "
                f"another process: commit {found.instant_time} holds batch {found.batch.batch_id}. Nothing of "
                f"{instant_time} was committed. Run each query once, and {_OWN_NAME}",
                instant_time=instant_time,
                other_instants=[str(found.instant_time)],
            )


def _newest_first(snapshot: TableSnapshot, is_archive_read: bool) -> Iterator[tuple[str, StreamBatch]]:
    """The batches of all streams with their instant times, in the reverse order of the times."""
    for commit in marked_commits(snapshot, (SINK_CHECKPOINT_KEY, QUERY_ID_KEY), is_archive_read=is_archive_read):
        for batch in batches_of(commit.extra_metadata, commit.source):
            yield commit.instant.requested_time, batch
